"""The formats of sources, each with its reader. `refactx.ingest.sources.source` recognises the format of a file.

A reader yields the lines (rows, triples) of a source as `Parsed` blocks, in their order. `reader_of` makes one from a
function that parses a block of whole lines, and calls it in several threads.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from refactx.ingest.parsers import ready_made
from refactx.ingest.parsers.parsed import Parsed
from refactx.ingest.parsers.rdf import parse_rdf
from refactx.ingest.parsers.tables.table import parse_table, table_form
from refactx.ingest.parsers.wikidata import blocks as wikidata_blocks
from refactx.ingest.selection import Selection
from refactx.ingest.sources.source import Format, Source

AdvanceBytes = Callable[[int], object]
"""Called with how many bytes of a source were read from disk since the last call."""
Reader = Callable[[Source, Selection, int, AdvanceBytes], Iterator[Parsed]]
"""The source, the selection of its facts, the number of threads, and the progress → its blocks."""
BlockParser = Callable[[bytes, int, Selection], Parsed]
"""A block of whole lines, the number of its first line in the file, and the selection → the parsed block."""


@dataclass(frozen=True, slots=True)
class SourceFormat:
    """A format of sources: its reader, and an example of a line for error messages."""

    read: Reader
    example: str


def reader_of(parse: BlockParser) -> Reader:
    """Return a reader that parses blocks of lines in several threads, while the next blocks are read."""

    def read(source: Source, selection: Selection, workers: int, advance: AdvanceBytes) -> Iterator[Parsed]:
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


BLOCK_PARSERS: Mapping[Format, BlockParser] = {
    "N-Triples": wikidata_blocks.parse_block,
    "ready-made facts": lambda block, line, _: ready_made.parse_block(block, line),
}
"""The formats of which any block of whole lines can be parsed by itself."""

FORMATS: Mapping[Format, SourceFormat] = {
    "N-Triples": SourceFormat(
        reader_of(BLOCK_PARSERS["N-Triples"]),
        "<http://www.wikidata.org/entity/Q42> <http://www.wikidata.org/prop/direct/P31> ... .",
    ),
    "ready-made facts": SourceFormat(
        reader_of(BLOCK_PARSERS["ready-made facts"]),
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
