"""The limits of an ingest: memory and threads, and whether it shows its progress."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resources:
    """Limits of memory and threads, and whether to show progress.

    `memory`: the limit of DuckDB's memory, which is the larger part of an ingest's (`1GB`, `512MB`); what does not fit
    spills to disk. A text that is not a size raises InputError when DuckDB is opened. `workers`: threads that
    decompress, parse, join, sort and pack, and processes that cut what is large. `progress`: show progress bars
    on standard error, if that is a terminal.

    >>> Resources(memory="4GB", workers=8)
    Resources(memory='4GB', workers=8, progress=True)
    """

    memory: str = "1GB"
    workers: int = 2
    progress: bool = True


DEFAULT_RESOURCES = Resources()
