"""Resources of an ingest in a test: no progress bars."""

from refactx.ingest import Resources

QUIET = Resources(progress=False)
