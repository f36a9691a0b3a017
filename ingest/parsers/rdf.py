"""The parser of Turtle, TriG, N3, RDF/XML and JSON-LD, for graphs of some millions of triples.

pyoxigraph parses; its triples are written as N-Triples, 50,000 at a time, and parsed like lines of N-Triples
(`refactx.ingest.parsers.graph`), so that a triple has the same outcome in every syntax. The triples of all named graphs
are read, or those of the selected ones, but not what N3 puts in braces, which is not asserted.
"""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, cast

import pyoxigraph

from refactx.errors import InputError
from refactx.ingest.parsers.graph import parse_triples
from refactx.ingest.parsers.ntriples import parse_line, without_graphs
from refactx.ingest.parsers.parsed import Parsed, utf8_blocks
from refactx.ingest.selection import DEFAULT_SELECTION, Selection
from refactx.ingest.sources import BlockStream, Format, Source

RDF_SYNTAXES: Mapping[Format, pyoxigraph.RdfFormat] = {
    "N-Triples": pyoxigraph.RdfFormat.N_TRIPLES,
    "N-Quads": pyoxigraph.RdfFormat.N_QUADS,
    "Turtle": pyoxigraph.RdfFormat.TURTLE,
    "TriG": pyoxigraph.RdfFormat.TRIG,
    "N3": pyoxigraph.RdfFormat.N3,
    "RDF/XML": pyoxigraph.RdfFormat.RDF_XML,
    "JSON-LD": pyoxigraph.RdfFormat.JSON_LD,
}
RDF_EXAMPLES: Mapping[Format, str] = {
    **dict.fromkeys(("Turtle", "TriG", "N3"), "ex:Graz ex:country ex:Austria ."),
    "RDF/XML": '<rdf:Description rdf:about="http://example.org/Graz">',
    "JSON-LD": '{"@id": "http://example.org/Graz", ...}',
}
_REFUSED = {
    "LoadDocumentCallback": "has a @context that is the address of a document, and none is loaded: write the context into "
    "the file, or convert it to N-Triples or Turtle",
    "Only UTF-8": "declares another encoding than UTF-8: convert it (iconv), and write encoding='UTF-8' in its first line",
}
"""What is wrong with a file that pyoxigraph refuses for a reason of its own, by a part of its message."""
DEFAULT_GRAPH = "default"
"""What selects the triples that are in no named graph."""
_BATCH_TRIPLES = 50_000
_BLANK = re.compile(rb"_:[0-9a-f]{1,32}\b")
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
    kind = RDF_SYNTAXES[form]
    read = statements = 0
    first_fault = "it has no triples"
    with BlockStream(utf8_blocks(source, advance)) as stream:
        quads: Iterator[pyoxigraph.Quad] = pyoxigraph.parse(cast(IO[bytes], stream), format=kind, lenient=True)
        if form == "N3":
            quads = (quad for quad in quads if isinstance(quad.graph_name, pyoxigraph.DefaultGraph))
        left_out = Counter[str]()
        if selection.graphs:
            quads = _of_graphs(quads, frozenset(selection.graphs), left_out)
        blanks: dict[bytes, bytes] = {}
        while batch := _batch(quads, source.name, kind, stream):
            if b"_:" in batch:  # pyoxigraph gives nodes without a label another one each time
                batch = _BLANK.sub(lambda node: blanks.setdefault(node[0], b"_:b%d" % len(blanks)), batch)
            parsed = parse_triples(batch, read + 1, selection, scope=source.name)
            parsed.faults = [(number, f"triple {number}: {what}") for number, what in parsed.faults]
            if parsed.faults and not statements:
                first_fault = parsed.faults[0][1]
            yield parsed
            read += parsed.lines
            statements += parsed.statements
        if left_out:
            yield Parsed(lines=left_out.total(), dropped=left_out)
    if left_out and not statements:
        raise InputError(
            f"{source.name} has no triple in the graphs {', '.join(selection.graphs)}: leave out --graph to read all"
        )
    if not statements:
        raise InputError(f"{source.name} is not {form}: {first_fault}; expected triples such as {RDF_EXAMPLES[form]}")


def _of_graphs(
    quads: Iterator[pyoxigraph.Quad], wanted: frozenset[str], left_out: Counter[str]
) -> Iterator[pyoxigraph.Quad]:
    """Yield the quads of some graphs, and count the others."""
    for quad in quads:
        name = quad.graph_name
        if (DEFAULT_GRAPH if isinstance(name, pyoxigraph.DefaultGraph) else name.value) in wanted:
            yield quad
        else:
            left_out["other graph"] += 1


def first_triples(start: bytes, form: Format) -> Iterator[tuple[str, str]]:
    """Yield the subjects and predicates of the triples at the start of a file, as IRIs: up to an error, or in a syntax of
    lines without those that have one."""
    if form in ("N-Triples", "N-Quads"):
        for line in (without_graphs(start) if form == "N-Quads" else start).split(b"\n"):
            triple = parse_line(line.decode(errors="replace"))
            if triple is not None:
                yield triple.subject, triple.predicate
        return
    try:
        for quad in pyoxigraph.parse(start, format=RDF_SYNTAXES[form], lenient=True):
            if not isinstance(quad.subject, pyoxigraph.Triple):
                yield quad.subject.value, quad.predicate.value
    except SyntaxError:
        return


def _batch(
    quads: Iterator[pyoxigraph.Quad], name: str, kind: pyoxigraph.RdfFormat, stream: BlockStream
) -> bytes | None:
    """Return the next triples as N-Triples; none at the end."""
    with _explained_errors(name, kind, stream):
        triples = [quad.triple for quad in itertools.islice(quads, _BATCH_TRIPLES)]
    return pyoxigraph.serialize(triples, format=pyoxigraph.RdfFormat.N_TRIPLES)


@contextmanager
def _explained_errors(name: str, kind: pyoxigraph.RdfFormat, stream: BlockStream) -> Iterator[None]:
    """Raise InputError for what pyoxigraph finds wrong with a file."""
    try:
        yield
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


def quads_of(source: Source, form: Format) -> Iterator[pyoxigraph.Quad]:
    """Yield the quads of a file as they are; its blank nodes get labels that no other file has, and its relative IRIs begin
    with its own address. Raises as `parse_rdf`."""
    kind, base = RDF_SYNTAXES[form], None if source.is_standard_input else source.path.resolve().as_uri()
    with BlockStream(utf8_blocks(source, lambda _: None)) as stream, _explained_errors(source.name, kind, stream):
        yield from pyoxigraph.parse(
            cast(IO[bytes], stream), format=kind, base_iri=base, lenient=True, rename_blank_nodes=True
        )
