"""The formats of sources, each with its reader. `refactx.ingest.sources.source` recognises the format of a file.

A reader yields the lines (rows, triples) of a source as `Parsed` blocks, in their order. `reader_of` makes one from a
function that parses a block of whole lines, and calls it in several threads.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from refactx.ingest.parsers.ntriples import without_graphs
from refactx.ingest.parsers.parsed import Parsed
from refactx.ingest.parsers.rdf import RDF_EXAMPLES, parse_rdf
from refactx.ingest.parsers.ready_made import parse_ready_made
from refactx.ingest.parsers.tables.table import parse_table, table_form
from refactx.ingest.parsers.wikidata.blocks import parse_block
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
    "N-Triples": parse_block,
    "N-Quads": lambda block, line, selection: parse_block(without_graphs(block), line, selection),
    "ready-made facts": lambda block, line, _: parse_ready_made(block, line),
}
"""The formats of which any block of whole lines can be parsed by itself."""

_TRIPLE = "<http://www.wikidata.org/entity/Q42> <http://www.wikidata.org/prop/direct/P31> ... ."
_EXAMPLES: Mapping[Format, str] = {
    "N-Triples": _TRIPLE,
    "N-Quads": _TRIPLE,
    "ready-made facts": "<Danny Boyle> <date of birth> <1956-10-20> .",
}


def _rdf_reader(name: Format) -> Reader:
    return lambda source, selection, _, advance: parse_rdf(source, name, selection, advance)


FORMATS: Mapping[Format, SourceFormat] = {
    **{name: SourceFormat(reader_of(parse), _EXAMPLES[name]) for name, parse in BLOCK_PARSERS.items()},
    **{name: SourceFormat(_rdf_reader(name), example) for name, example in RDF_EXAMPLES.items()},
    "table": SourceFormat(
        lambda source, _, __, advance: parse_table(source, table_form(source), advance),
        "Danny Boyle,date of birth,1956-10-20",
    ),
}
