"""The inputs of an ingest: its sources, and English Wikipedia's dumps."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from refactx.errors import InputError
from refactx.ingest.sources.source import Source


@dataclass(frozen=True, slots=True)
class Inputs:
    """The files that an ingest reads.

    `sources`: of any format. `wikipedia`: the dumps of the tables `page` and `page_props`, if they are given.
    """

    sources: tuple[Source, ...]
    wikipedia: tuple[Source, Source] | None = None

    @property
    def all(self) -> tuple[Source, ...]:
        """All files, in the order in which they are read."""
        return (*self.sources, *(self.wikipedia or ()))


def inputs_of(sources: Sequence[Path], wikipedia: tuple[Path, Path] | None, workers: int) -> Inputs:
    """Return files as sources, which `workers` threads decompress.

    Raises InputError if there is no source, or if standard input (`-`) is given more than once.
    """
    if not sources:
        raise InputError("no source was given: expected at least one file, such as facts.nt.gz, facts.txt or facts.csv")
    dumps = None
    if wikipedia is not None:
        page, page_props = wikipedia
        dumps = (
            Source(page, workers, "the dump of table page"),
            Source(page_props, workers, "the dump of table page_props"),
        )
    inputs = Inputs(tuple(Source(path, workers) for path in sources), dumps)
    if sum(source.is_standard_input for source in inputs.all) > 1:
        raise InputError("standard input (-) is given more than once, and can be read only once: give it once")
    return inputs
