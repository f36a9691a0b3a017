"""The parser of Turtle, TriG, N3, RDF/XML and JSON-LD, as Wikidata exports an entity (`Special:EntityData/Q42.ttl`), for

graphs of some millions of triples.

pyoxigraph parses; its triples are written as N-Triples, 50,000 at a time, and parsed like the lines of a dump
(`refactx.ingest.parsers.wikidata`), so that a triple has the same outcome in every syntax. What an export has
beyond a truthy dump (statements with their ranks, qualifiers and references) is dropped there as `not a fact`. The
triples of all named graphs are read, but not what N3 puts in braces, which is not asserted.
"""

import itertools
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import IO, cast

import pyoxigraph

from refactx.errors import InputError
from refactx.ingest.parsers import wikidata as wikidata_blocks
from refactx.ingest.parsers.parsed import Parsed, not_utf8
from refactx.ingest.selection import DEFAULT_SELECTION, Selection
from refactx.ingest.sources import BlockStream, Format, Source

_FORMATS: Mapping[Format, pyoxigraph.RdfFormat] = {
    "Turtle": pyoxigraph.RdfFormat.TURTLE,
    "TriG": pyoxigraph.RdfFormat.TRIG,
    "N3": pyoxigraph.RdfFormat.N3,
    "RDF/XML": pyoxigraph.RdfFormat.RDF_XML,
    "JSON-LD": pyoxigraph.RdfFormat.JSON_LD,
}
RDF_EXAMPLES: Mapping[Format, str] = {
    **dict.fromkeys(("Turtle", "TriG", "N3"), "wd:Q42 wdt:P31 wd:Q5 ."),
    "RDF/XML": '<rdf:Description rdf:about="http://www.wikidata.org/entity/Q42">',
    "JSON-LD": '{"@id": "http://www.wikidata.org/entity/Q42", ...}',
}
_REFUSED = {
    "LoadDocumentCallback": "has a @context that is the address of a document, and none is loaded: write the context into "
    "the file, or convert it to N-Triples or Turtle",
    "Only UTF-8": "declares another encoding than UTF-8: convert it (iconv), and write encoding='UTF-8' in its first line",
}
"""What is wrong with a file that pyoxigraph refuses for a reason of its own, by a part of its message."""
_BATCH_TRIPLES = 50_000
_POSITION = re.compile(r"^Parser error (?:at|between) [^:]*: ")


def parse_rdf(
    source: Source,
    form: Format,
    selection: Selection = DEFAULT_SELECTION,
    advance: Callable[[int], object] = lambda _: None,
) -> Iterator[Parsed]:
    """Yield the triples of a source as rows of the tables that a dump's lines give; `lines` counts triples.

    A triple that N-Triples cannot express (one with a relative IRI and no base) is malformed, and reported with its
    number. IRIs and language tags are not checked further, since Wikidata's own exports have tags that RDF forbids.

    Raises:
        InputError: a syntax error, with its line and column, since nothing after it can be read; text that is not
            UTF-8; no triple in the file; or as `Source.blocks`.
    """
    kind = _FORMATS[form]
    read = statements = 0
    first_fault = "it has no triples"
    with BlockStream(_utf8_blocks(source, advance)) as stream:
        quads: Iterator[pyoxigraph.Quad] = pyoxigraph.parse(cast(IO[bytes], stream), format=kind, lenient=True)
        if form == "N3":
            quads = (quad for quad in quads if isinstance(quad.graph_name, pyoxigraph.DefaultGraph))
        while batch := _batch(quads, source.name, kind, stream):
            parsed = wikidata_blocks.parse_block(batch, read + 1, selection)
            parsed.faults = [(number, f"triple {number}: {what}") for number, what in parsed.faults]
            if parsed.faults and not statements:
                first_fault = parsed.faults[0][1]
            yield parsed
            read += parsed.lines
            statements += parsed.statements
    if not statements:
        raise InputError(
            f"{source.name} is not {form}: {first_fault}; expected triples as "
            f"https://www.wikidata.org/entity/Q42.{kind.file_extension} has"
        )


def _utf8_blocks(source: Source, advance: Callable[[int], object]) -> Generator[bytes, None, None]:
    """Yield the blocks of a source. Raise InputError for the first line that is not UTF-8."""
    lines = 1
    for block in source.blocks(advance):
        try:
            block.decode()
        except UnicodeDecodeError as error:
            lines += block.count(b"\n", 0, error.start)
            line = block[block.rfind(b"\n", 0, error.start) + 1 :].partition(b"\n")[0]
            raise InputError(f"{source.name}:{lines}: {not_utf8(line)}") from None
        lines += block.count(b"\n")
        yield block


def _batch(
    quads: Iterator[pyoxigraph.Quad], name: str, kind: pyoxigraph.RdfFormat, stream: BlockStream
) -> bytes | None:
    """Return the next triples as N-Triples; none at the end."""
    try:
        triples = [quad.triple for quad in itertools.islice(quads, _BATCH_TRIPLES)]
    except SyntaxError as error:
        if stream.error is not None:
            raise stream.error from None
        place = f"{name}:{error.lineno}:{error.offset}" if error.lineno else name
        what = " ".join(_POSITION.sub("", error.msg).split())
        for sign, message in _REFUSED.items():
            if sign in what:
                raise InputError(f"{name} {message}") from None
        raise InputError(f"{place}: this is not {kind.name}: {what}: correct the file, or export it again") from None
    except OSError as error:
        raise stream.error or error from None
    return pyoxigraph.serialize(triples, format=pyoxigraph.RdfFormat.N_TRIPLES)
