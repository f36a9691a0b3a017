"""What a source may hold, and the reader of each: the one place that a new format has to be entered in.

A reader gives a source's lines (rows, statements) as `Parsed` blocks in their order; `reader_of` makes one from a function
that parses one block of whole lines, for several threads at once.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from ..parsers.parsed import Parsed
from ..parsers.rdf import parse_rdf
from ..parsers.tables.table import parse_table, table_form
from ..selection import Selection
from ..sources.source import Format, Source
from . import ready_made
from .wikidata import blocks as wikidata_blocks

Advance = Callable[[int], object]
"""Told how many more bytes of a source were read from disk."""
Reader = Callable[[Source, Selection, int, Advance], Iterator[Parsed]]
"""Source, what is wanted of it, threads, and what to tell of the progress → its contents."""
BlockParser = Callable[[bytes, int, Selection], Parsed]
"""A block of whole lines, the number in its file of the first of them, and what is wanted → its contents."""


@dataclass(frozen=True, slots=True)
class SourceFormat:
    """A kind of source: how it is read, and a line of it to show to whoever gave something else."""

    read: Reader
    example: str


def reader_of(parse: BlockParser) -> Reader:
    """A reader that parses blocks of lines on several threads, while the next ones are read."""

    def read(source: Source, selection: Selection, workers: int, advance: Advance) -> Iterator[Parsed]:
        line = 1
        with ThreadPoolExecutor(workers, thread_name_prefix="parse") as pool:
            waiting: deque[Future[Parsed]] = deque()
            try:
                for block in source.blocks(advance):
                    waiting.append(pool.submit(parse, block, line, selection))
                    line += block.count(b"\n")
                    if len(waiting) > workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    return read


FORMATS: Mapping[Format, SourceFormat] = {
    "N-Triples": SourceFormat(
        reader_of(wikidata_blocks.parse_block),
        "<http://www.wikidata.org/entity/Q42> <http://www.wikidata.org/prop/direct/P31> ... .",
    ),
    "ready-made facts": SourceFormat(
        reader_of(lambda block, line, _: ready_made.parse_block(block, line)),
        "<Danny Boyle> <date of birth> <1956-10-20> .",
    ),
    "Turtle": SourceFormat(
        lambda source, selection, _, advance: parse_rdf(source, "Turtle", selection, advance), "wd:Q42 wdt:P31 wd:Q5 ."
    ),
    "RDF/XML": SourceFormat(
        lambda source, selection, _, advance: parse_rdf(source, "RDF/XML", selection, advance),
        '<rdf:Description rdf:about="http://www.wikidata.org/entity/Q42">',
    ),
    "table": SourceFormat(
        lambda source, _, __, advance: parse_table(source, table_form(source), advance),
        "Danny Boyle,date of birth,1956-10-20",
    ),
}
