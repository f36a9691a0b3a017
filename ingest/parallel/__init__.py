"""Work of an ingest in processes side by side."""

from refactx.ingest.parallel.processes import in_processes

__all__ = ["in_processes"]
