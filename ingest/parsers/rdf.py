"""The parser of Turtle, TriG, N3, RDF/XML and JSON-LD, for graphs of some millions of triples.

pyoxigraph parses; its triples are written as N-Triples, 50,000 at a time, and parsed like lines of N-Triples
(`refactx.ingest.parsers.graph`), so that a triple has the same outcome in every syntax. The triples of all named graphs
are read, or those of the selected ones, but not what N3 puts in braces, which is not asserted.
"""

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import unquote

import pyoxigraph

from refactx.errors import InputError
from refactx.fact import visible
from refactx.ingest.parsers.graph import parse_triples
from refactx.ingest.parsers.nesting import within_bounds
from refactx.ingest.parsers.ntriples import parse_line, without_graphs
from refactx.ingest.parsers.parsed import Parsed, utf8_blocks
from refactx.ingest.source_options import DEFAULT_SELECTION, Selection
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
_TRIED_BYTES = 4 << 20
_BLANK = re.compile(
    rb"(?m)^_:[0-9a-f]{1,32}(?= )|(?<=> )_:[0-9a-f]{1,32}(?= (?:\)>> )?\.$)|(?<=#reifies> <<\( )_:[0-9a-f]{1,32}(?= )"
)
_POSITION = re.compile(r"^Parser error (?:at|between) [^:]*: ")
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_WITHOUT_LINES = ("RDF/XML", "JSON-LD")
"""The syntaxes of which pyoxigraph says nothing about where an error is."""
_WELL_FORMED = re.compile(r'[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|^`\\#]*(?:#[^\x00-\x20<>"{}|^`\\#]*)?')
_CONTEXT_FILE = re.compile(rb'"@(?:context|import)"\s*:\s*(?:\[|"(?![A-Za-z][A-Za-z0-9+.-]*:))')
"""What begins a context that may be a file."""
NO_IRI = "no IRI"
"""The reason why JSON-LD has no triple, as its standard says: no context maps a key, or an IRI is not well-formed."""


def parse_rdf(
    source: Source,
    form: Format,
    selection: Selection = DEFAULT_SELECTION,
    advance: Callable[[int], object] = lambda _: None,
) -> Iterator[Parsed]:
    """Yield the triples of a source as rows of the tables that a dump's lines give; `lines` counts triples.

    A triple that N-Triples cannot express (one with a space in an IRI) is malformed, and reported with its number. IRIs
    and language tags are not checked further, since Wikidata's own exports have tags that RDF forbids.

    Raises:
        InputError: a syntax error, with its line, since nothing after it can be read; text that is not UTF-8, or is
            nested too deep; no triple in the file; or as `Source.blocks`.
    """
    read = statements = 0
    first_fault = "it has no triples"
    left_out = Counter[str]()
    quads = quads_of(source, form, advance=advance, left_out=left_out)
    if form == "N3":
        quads = (quad for quad in quads if isinstance(quad.graph_name, pyoxigraph.DefaultGraph))
    if selection.graphs:
        quads = _of_graphs(quads, frozenset(selection.graphs), left_out)
    blanks: dict[bytes, bytes] = {}
    while batch := list(itertools.islice(quads, _BATCH_TRIPLES)):
        triples = dict.fromkeys(quad.triple for quad in batch)
        left_out["duplicate"] += len(batch) - len(triples)
        text = pyoxigraph.serialize(triples, format=pyoxigraph.RdfFormat.N_TRIPLES) or b""
        if b"_:" in text:  # pyoxigraph gives nodes without a label another one each time
            text = _BLANK.sub(lambda node: blanks.setdefault(node[0], b"_:b%d" % len(blanks)), text)
        parsed = parse_triples(text, read + 1, selection, scope=source.name)
        parsed.faults = [(number, f"triple {number}: {what}") for number, what in parsed.faults]
        if parsed.faults and not statements:
            first_fault = parsed.faults[0][1]
        read += parsed.lines
        statements += parsed.statements
        parsed.dropped += left_out
        parsed.lines += left_out.total()
        left_out.clear()
        yield parsed
    if left_out:
        yield Parsed(lines=left_out.total(), dropped=left_out)
    if selection.graphs and not statements:
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


def first_triples(source: Source, form: Format) -> Iterator[tuple[str, str]]:
    """Yield the subjects and predicates of the triples at the start of a source, as IRIs: up to an error, or in a syntax of
    lines without those that have one. Raises InputError for what is nested too deep."""
    start = source.first_lines()[:_TRIED_BYTES]
    if form in ("N-Triples", "N-Quads"):
        for line in (without_graphs(start) if form == "N-Quads" else start).split(b"\n"):
            triple = parse_line(line.decode(errors="replace"))
            if triple is not None:
                yield triple.subject, triple.predicate
        return
    try:
        blocks = within_bounds(iter([start]), form, source.name)
        for quad in pyoxigraph.parse(b"".join(blocks), format=RDF_SYNTAXES[form], base_iri=source.base, lenient=True):
            if not isinstance(quad.subject, pyoxigraph.Triple):
                yield quad.subject.value, quad.predicate.value
    except SyntaxError:
        return


def quads_of(
    source: Source,
    form: Format,
    *,
    rename: bool = False,
    advance: Callable[[int], object] = lambda _: None,
    left_out: Counter[str] | None = None,
) -> Iterator[pyoxigraph.Quad]:
    """Yield the quads of a file as they are; relative IRIs begin with its base.

    `rename`: its blank nodes get labels that no other file has. `left_out`: counts what JSON-LD has no triple for.
    Raises as `parse_rdf`.
    """
    kind, by_line = RDF_SYNTAXES[form], form in _WITHOUT_LINES
    blocks = within_bounds(utf8_blocks(source, advance), form, source.name)
    if form == "JSON-LD" and _CONTEXT_FILE.search(source.first_lines()):
        blocks, by_line = _with_contexts(source, blocks)
    no_iri = _NoIri(Counter() if left_out is None else left_out)
    with BlockStream(blocks, by_line=by_line) as stream:
        quads = pyoxigraph.parse(
            cast(IO[bytes], stream), format=kind, base_iri=source.base, lenient=True, rename_blank_nodes=rename
        )
        count, quad = 0, cast("pyoxigraph.Quad | None", None)
        while True:
            try:
                next_quad = next(quads, None)
            except (SyntaxError, OSError) as error:
                raise _explained(error, source, form, stream, (count, quad)) from None
            if next_quad is None:
                return
            count, quad = count + 1, next_quad
            if form != "JSON-LD" or no_iri.passes(quad):
                yield quad


class _NoIri:
    """The quads that JSON-LD does not have: those with an IRI that is none, and those about nodes that only these name."""

    def __init__(self, left_out: Counter[str]) -> None:
        self._left_out, self._nodes = left_out, set[pyoxigraph.BlankNode]()

    def passes(self, quad: pyoxigraph.Quad) -> bool:
        """Return whether a quad is one of JSON-LD, else count it."""
        subject, object_ = quad.subject, quad.object
        terms = [subject, quad.predicate, quad.graph_name]
        terms.append(object_.datatype if isinstance(object_, pyoxigraph.Literal) else object_)
        if subject not in self._nodes and all(
            _WELL_FORMED.fullmatch(term.value) for term in terms if isinstance(term, pyoxigraph.NamedNode)
        ):
            return True
        if isinstance(object_, pyoxigraph.BlankNode) and object_ != subject:
            self._nodes.add(object_)
        self._left_out[NO_IRI] += 1
        return False


def _explained(
    error: SyntaxError | OSError,
    source: Source,
    form: Format,
    stream: BlockStream,
    last: tuple[int, pyoxigraph.Quad | None],
) -> Exception:
    """Return the error for what pyoxigraph finds wrong with a file after its `last` triple, which has a number."""
    if stream.error is not None:
        return stream.error
    if not isinstance(error, SyntaxError):
        return error
    what = " ".join(_POSITION.sub("", error.msg).split())
    for sign, message in _REFUSED.items():
        if sign in what:
            return InputError(f"{source.name} {message}")
    place, (count, quad) = source.name, last
    if error.lineno:
        place += f":{error.lineno}:{error.offset}"
    elif stream.by_line:
        place += f":{stream.line}"
    if quad is not None and not error.lineno:
        what += f" (after triple {count}, about {quad.subject})"
    return InputError(f"{place}: this is not {form}: {what}: correct the file, or export it again")


def _with_contexts(source: Source, blocks: Generator[bytes, None, None]) -> tuple[Generator[bytes, None, None], bool]:
    """Return JSON-LD with the contexts that are files beside it, or below, in the places of their names, and whether it had
    none, so that it has its lines.

    Raises InputError for one that is somewhere else, or is no context.
    """
    text, files = b"".join(blocks), _ContextFiles(source)
    with suppress(ValueError):  # pyoxigraph says what is wrong
        document = files.replaced(json.loads(text), source.path.parent, ())
        if files.read:
            text = json.dumps(document).encode()
    return (block for block in (text,)), not files.read


class _ContextFiles:
    """The contexts of a document of JSON-LD that are files. `read`: how many were."""

    def __init__(self, source: Source) -> None:
        self._source, self.read = source, 0
        self._root = None if source.is_standard_input else source.path.resolve().parent

    def replaced(self, value: Any, folder: Path, within: tuple[Path, ...]) -> Any:
        """Return a value of JSON with all its contexts. `within`: the files that lead to it, in `folder`."""
        if isinstance(value, list):
            return [self.replaced(one, folder, within) for one in value]
        if not isinstance(value, dict):
            return value
        return {
            key: self._context(one, folder, within) if key == "@context" else self.replaced(one, folder, within)
            for key, one in value.items()
        }

    def _context(self, value: Any, folder: Path, within: tuple[Path, ...]) -> Any:
        if isinstance(value, str) and not _ABSOLUTE.match(value):
            return self._read(value, folder, within)
        if isinstance(value, list):
            parts = [self._context(one, folder, within) for one in value]
            return [one for part in parts for one in (part if isinstance(part, list) else [part])]
        if isinstance(value, dict) and isinstance(name := value.get("@import"), str) and not _ABSOLUTE.match(name):
            imported = self._read(name, folder, within)
            if not isinstance(imported, dict):
                raise InputError(f"{self._source.name}: the context that it imports, {name}, is no object")
            value = {**imported, **{key: one for key, one in value.items() if key != "@import"}}
        return self.replaced(value, folder, within)

    def _read(self, name: str, folder: Path, within: tuple[Path, ...]) -> Any:
        path = (folder / unquote(name)).resolve()
        if self._root is None or not path.is_relative_to(self._root):
            raise InputError(
                f"{self._source.name} has the @context {visible(name)}, which is not beside it: write the context into the file"
            )
        if path in within:
            raise InputError(
                f"{self._source.name} has the @context {visible(name)}, which includes itself: write it into the file, "
                "as often as it is needed"
            )
        found = Source(path)
        self.read += 1
        try:
            document = json.loads(b"".join(within_bounds(utf8_blocks(found, lambda _: None), "JSON-LD", found.name)))
        except ValueError as error:
            raise InputError(f"{found.name}: this is not JSON: {error}: correct the file, or export it again") from None
        context = document.get("@context") if isinstance(document, dict) else None
        if isinstance(context, dict):
            context.pop("@base", None)  # that of a context in another document counts for nothing
        return self._context(context, path.parent, (*within, path))
