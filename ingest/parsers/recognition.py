"""The recognition of a source's format by its name and its first lines."""

import math
import re

import numpy as np
import pyoxigraph

from refactx.errors import InputError
from refactx.ingest.parsers.ntriples import empty_line, other_syntax, parse_line
from refactx.ingest.parsers.parsed import fault
from refactx.ingest.parsers.tables.columns import SEPARATOR, header_advice
from refactx.ingest.parsers.wikidata.statements import common_statements, find_lines
from refactx.ingest.sources.source import BYTE_ORDER_MARK, Format, Source

_IRI = rb"<\w[\w+.-]*:(?://[^<>\s]*|\w[^<>\s]*)>"
_TRIPLE = re.compile(rb'\s*(?:%b|_:\S+)\s*%b\s*[<"_].*\.' % (_IRI, _IRI))
_RDF = re.compile(rb"\s*(?:%b|_:\w|\[|@(?:prefix|base|version)\s|(?i:PREFIX|BASE|VERSION|GRAPH)\s+[\"'<\w:])" % _IRI)
_XML = re.compile(rb"\s*<(?:\?xml\s|rdf:RDF|!DOCTYPE\s+rdf)")
_JSON = re.compile(rb'\s*(?:\{\s*"|\[\s*\{)')
_JSON_LD = re.compile(rb'"@(?:context|id|graph|type|value)"')
_GRAPH = re.compile(rb"(?i:\s*GRAPH\s|.*\{\s*$)")
_FACT = re.compile(rb"\s*<.+>\s+<.+>\s+<.+>\s*\.?\s*")
_WORD = re.compile(rb"\w+")
_PARQUET = b"PAR1"
_RDF_FORMATS: tuple[Format, ...] = ("N-Triples", "N-Quads", "Turtle", "TriG", "N3", "RDF/XML", "JSON-LD")
_PARTS: dict[Format, tuple[Format, ...]] = {
    "N-Quads": ("N-Triples",),
    "Turtle": ("N-Triples", "N3"),
    "TriG": ("N-Triples", "Turtle", "N3"),
}
"""The syntaxes that a syntax includes, or whose files should be named so."""
_SYNTAXES: dict[Format, pyoxigraph.RdfFormat] = {
    "Turtle": pyoxigraph.RdfFormat.TURTLE,
    "TriG": pyoxigraph.RdfFormat.TRIG,
    "N3": pyoxigraph.RdfFormat.N3,
}
_TRIED_LINES = 1000


def format_of(source: Source) -> Format:
    """Return the format of a source: that of its name, or of its content if the name says none or cannot be right.

    Raises:
        InputError: as `Source.blocks` does; or neither the name nor the first lines say what the file is.
    """
    return recognise_format(source.name, source.format_by_name, source.first_lines())


def recognise_format(source: str, named: Format | None, start: bytes) -> Format:
    """Return the format of a source, given the format that its name says and its first lines.

    The name decides about tables. RDF is in the syntax that it has, whatever the name says. Otherwise a `.txt` file has
    facts, and a first line that names the columns subject, predicate and object is a table's.

    Raises InputError if neither says what the file is.
    """
    if named == "table":
        return named
    start = start.removeprefix(BYTE_ORDER_MARK)
    lines = [line for line in start.split(b"\n", 1000)[:1000] if line.strip() and not line.startswith(b"#")]
    if len(lines) > 1 and SEPARATOR.fullmatch(lines[0]):
        del lines[0]
    first = lines[0] if lines else b""
    found = _format_of_content(start, first)
    if named in _RDF_FORMATS:
        return found if found in _RDF_FORMATS and found not in _PARTS.get(named, ()) else named
    if found is not None:
        return found
    delimiter = next((one for one in "|\t;," if first.count(one.encode()) == 2), None)
    if delimiter is not None and not any(map(_FACT.fullmatch, lines)):
        begin = fault("it begins with", first.decode(errors="replace"))
        raise InputError(
            f"{source} is a table without the columns subject, predicate and object ({begin}): name them"
            f"{header_advice(delimiter)}, and name the file .csv"
        )
    if named is not None:
        return named
    raise InputError(
        f"{source} is neither N-Triples nor ready-made facts: expected a file name such as facts.nt, facts.nt.gz, "
        f"facts.txt.bz2, facts.csv or facts.ttl, or lines such as <subject> <predicate> <object> ."
    )


def _format_of_content(start: bytes, first: bytes) -> Format | None:
    """Return the format that the first lines of a source have for certain, given the first one with content."""
    if start.startswith(_PARQUET):
        return "table"
    if _XML.match(first):
        return "RDF/XML"
    if _JSON.match(start) and _JSON_LD.search(start):
        return "JSON-LD"
    is_triple = _TRIPLE.match(first) is not None
    if not is_triple and _FACT.fullmatch(first):
        return "ready-made facts"
    if {b"subject", b"predicate", b"object"} <= set(_WORD.findall(first.lower())):
        return "table"
    return _syntax_of(start) or ("N-Triples" if is_triple else None) if _RDF.match(first) else None


def _syntax_of(start: bytes) -> Format | None:
    """Return the syntax of lines of RDF: N-Triples, or the one in which the first line that is none can be read.

    None if there is no such syntax: the line is malformed.
    """
    text = start.decode(errors="replace").encode()
    lines = find_lines(text if text.endswith(b"\n") else text + b"\n")
    others = np.setdiff1d(np.arange(len(lines.starts)), common_statements(lines).line).tolist()
    at = next((at for at in others if not _is_ntriples(text[lines.starts[at] : lines.ends[at]].decode())), None)
    if at is None:
        return "N-Triples"
    tried = text[lines.starts[at] :].split(b"\n", _TRIED_LINES)[:_TRIED_LINES]
    known = other_syntax(tried[0].decode())
    if known == "N-Quads":
        return "N-Quads"
    certain = known is not None or _GRAPH.match(tried[0]) is not None
    read = {name: _lines_read(b"\n".join(tried), form, lenient=certain) for name, form in _SYNTAXES.items()}
    best = max(read, key=lambda name: read[name])
    # A line that only lacks its dot could be the begin of a longer triple: what follows is then an error.
    return best if certain or read[best] >= min(len(tried), _TRIED_LINES // 10) else None


def _is_ntriples(line: str) -> bool:
    return parse_line(line) is not None or empty_line(line) is not None


def _lines_read(text: bytes, form: pyoxigraph.RdfFormat, *, lenient: bool) -> float:
    """Return how many lines of a text can be read in a syntax before an error."""
    try:
        for _ in pyoxigraph.parse(text, format=form, lenient=lenient):
            pass
    except SyntaxError as error:
        return (error.lineno or 1) - 1
    return math.inf
