"""The parser of Turtle and RDF/XML, as Wikidata exports an entity (`Special:EntityData/Q42.ttl`), for graphs of some
millions of triples.

pyoxigraph parses; its triples are written as N-Triples, 50,000 at a time, and parsed like the lines of a dump
(`refactx.ingest.parsers.wikidata.blocks`), so that a triple has the same outcome in every syntax. What an export has
beyond a truthy dump (statements with their ranks, qualifiers and references) is dropped there as `not a fact`.
"""

import itertools
import re
from collections.abc import Callable, Iterator
from typing import IO, Literal, cast

import pyoxigraph

from refactx.errors import InputError
from refactx.ingest.parsers.parsed import Parsed
from refactx.ingest.parsers.wikidata import blocks as wikidata_blocks
from refactx.ingest.selection import DEFAULT_SELECTION, Selection
from refactx.ingest.sources.source import Source
from refactx.ingest.sources.stream import BlockStream

_FORMATS = {"Turtle": pyoxigraph.RdfFormat.TURTLE, "RDF/XML": pyoxigraph.RdfFormat.RDF_XML}
_BATCH_TRIPLES = 50_000
_POSITION = re.compile(r"^Parser error (?:at|between) [^:]*: ")


def parse_rdf(
    source: Source,
    form: Literal["Turtle", "RDF/XML"],
    selection: Selection = DEFAULT_SELECTION,
    advance: Callable[[int], object] = lambda _: None,
) -> Iterator[Parsed]:
    """Yield the triples of a source as rows of the tables that a dump's lines give; `lines` counts triples.

    A triple that N-Triples cannot express (one with a relative IRI and no base) is malformed, and reported with its
    number. IRIs and language tags are not checked further, since Wikidata's own exports have tags that RDF forbids.

    Raises:
        InputError: a syntax error, with its line and column, since nothing after it can be read; no triple in the file;
            or as `Source.blocks`.
    """
    kind = _FORMATS[form]
    read = statements = 0
    first_fault = "it has no triples"
    with BlockStream(source.blocks(advance)) as stream:
        quads = pyoxigraph.parse(cast(IO[bytes], stream), format=kind, without_named_graphs=True, lenient=True)
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
        raise InputError(f"{place}: this is not {kind.name}: {what}: correct the file, or export it again") from None
    except OSError as error:
        raise stream.error or error from None
    return pyoxigraph.serialize(triples, format=pyoxigraph.RdfFormat.N_TRIPLES)
