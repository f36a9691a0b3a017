"""Work in processes of its own: side by side for an ingest, or within limits of memory and seconds."""

from refactx.ingest.parallel.processes import Process, ProcessEndedError, in_processes, pickled

__all__ = ["Process", "ProcessEndedError", "in_processes", "pickled"]
