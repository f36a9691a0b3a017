"""What an ingest reads: its sources, and English Wikipedia's dumps beside them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from refactx.errors import InputError

from ..sources.source import Source


@dataclass(frozen=True, slots=True)
class Inputs:
    """`sources` of any format (`ingest.formats`); `wikipedia`: the dumps of the tables `page` and `page_props`, if given."""

    sources: tuple[Source, ...]
    wikipedia: tuple[Source, Source] | None = None

    @property
    def all(self) -> tuple[Source, ...]:
        """Every file that is read, in this order."""
        return (*self.sources, *(self.wikipedia or ()))


def inputs_of(sources: Sequence[Path], wikipedia: tuple[Path, Path] | None, workers: int) -> Inputs:
    """Files as sources, which `workers` threads decompress.

    Raises InputError if there is none, or standard input (`-`), which can be read once only, is given twice.
    """
    if not sources:
        raise InputError("no source was given: expected at least one file of N-Triples or ready-made facts")
    dumps = None
    if wikipedia is not None:
        page, page_props = wikipedia
        dumps = (
            Source(page, workers, "the dump of table page"),
            Source(page_props, workers, "the dump of table page_props"),
        )
    inputs = Inputs(tuple(Source(path, workers) for path in sources), dumps)
    if sum(source.is_standard_input for source in inputs.all) > 1:
        raise InputError("standard input (-) is given more than once: it can be read only once")
    return inputs
