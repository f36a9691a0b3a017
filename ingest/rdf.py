"""Turtle and RDF/XML, as Wikidata exports an entity (`Special:EntityData/Q42.ttl`), for graphs of some millions of triples.

pyoxigraph parses; its triples are written as N-Triples, 50,000 at a time, and go the way of a dump's lines
(`ingest.wikidata`), so that the same triple has the same fate in every syntax. What an export has beyond a truthy dump,
statements with their ranks, qualifiers and references, is `not a fact` there.
"""

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, cast

import pyoxigraph

from refactx.errors import InputError

from . import wikidata
from .parsed import Parsed
from .sources import blocks
from .stream import BlockStream

_FORMATS = {
    ".ttl": pyoxigraph.RdfFormat.TURTLE,
    ".turtle": pyoxigraph.RdfFormat.TURTLE,
    ".rdf": pyoxigraph.RdfFormat.RDF_XML,
    ".owl": pyoxigraph.RdfFormat.RDF_XML,
}
SUFFIXES = tuple(_FORMATS)
"""The names of files, without `.gz` and its like, that `parse_rdf` reads."""
_BATCH_TRIPLES = 50_000
_POSITION = re.compile(r"^Parser error (?:at|between) [^:]*: ")


def parse_rdf(path: Path, suffix: str, advance: Callable[[int], object] = lambda _: None) -> Iterator[Parsed]:
    """The triples of a file as rows of `claims`, `terms` and `left_out`; `lines` counts triples.

    `suffix` is one of `SUFFIXES` and says what the file holds. A triple that N-Triples cannot write (a relative IRI without
    a base) is malformed and counted; its number is that of the triple. IRIs and language tags are not looked at closer, as
    Wikidata's own exports have tags that RDF forbids.

    Raises:
        InputError: a syntax error, with its line and column, for nothing behind it can be read; no triple in the file;
            or as `sources.blocks`.
    """
    kind = _FORMATS[suffix]
    read = statements = 0
    first_fault = "it has no triples"
    with BlockStream(blocks(path, advance)) as stream:
        quads = pyoxigraph.parse(cast(IO[bytes], stream), format=kind, without_named_graphs=True, lenient=True)
        while batch := _batch(quads, path, kind, stream):
            parsed = wikidata.parse_block(batch, read + 1)
            parsed.faults = [(number, f"triple {number}: {what}") for number, what in parsed.faults]
            if parsed.faults and not statements:
                first_fault = parsed.faults[0][1]
            yield parsed
            read += parsed.lines
            statements += parsed.statements
    if not statements:
        raise InputError(
            f"{path} is not {kind.name}: {first_fault}; expected triples as https://www.wikidata.org/entity/Q42{suffix} has"
        )


def _batch(
    quads: Iterator[pyoxigraph.Quad], path: Path, kind: pyoxigraph.RdfFormat, stream: BlockStream
) -> bytes | None:
    """The next triples as N-Triples."""
    try:
        triples = [quad.triple for quad in itertools.islice(quads, _BATCH_TRIPLES)]
    except SyntaxError as error:
        if stream.error is not None:
            raise stream.error from None
        place = f"{path}:{error.lineno}:{error.offset}" if error.lineno else str(path)
        what = " ".join(_POSITION.sub("", error.msg).split())
        raise InputError(f"{place}: this is not {kind.name}: {what}: correct the file, or export it again") from None
    except OSError as error:
        raise stream.error or error from None
    return pyoxigraph.serialize(triples, format=pyoxigraph.RdfFormat.N_TRIPLES)
