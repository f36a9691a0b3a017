"""The formats of sources: how each is recognised and read, and ready-made facts.

A reader yields the lines (rows, triples) of a source as `Parsed` blocks, in their order. `reader_of` makes one from a
function that parses a block of whole lines, and calls it in several threads.

Nearly all lines of such a file have the exact form of a fact and consist of plain characters; Arrow recognises and
splits these by the thousand. Any other line (with white space, brackets inside a part, accents as separate characters,
a missing dot) is parsed in Python, to the same result.
"""

import math
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyoxigraph

from refactx.errors import InputError
from refactx.fact import MAX_PART_CHARACTERS, clean_part, cut_part
from refactx.ingest.parsers.columns import (
    column_of,
    of_tables,
    parse_table,
    refuse_unnamed,
    table_form,
    wanted_columns,
    with_persons,
)
from refactx.ingest.parsers.entities import EXAMPLE, is_document, parse_entities, read_document, read_entities
from refactx.ingest.parsers.graph import parse_triples
from refactx.ingest.parsers.graphml import parse_graphml
from refactx.ingest.parsers.keys import with_keys
from refactx.ingest.parsers.nesting import within_bounds
from refactx.ingest.parsers.ntriples import (
    NOT_NTRIPLES,
    common_statements,
    empty_line,
    find_lines,
    other_syntax,
    parse_line,
    without_graphs,
)
from refactx.ingest.parsers.parsed import (
    PLAIN_TEXT,
    Parsed,
    StagingWriter,
    decode_lines,
    fault,
    not_utf8,
    table_of,
    unreadable,
)
from refactx.ingest.parsers.rdf import RDF_EXAMPLES, first_triples, parse_rdf, quads_of
from refactx.ingest.parsers.records import parse_json, parse_labels
from refactx.ingest.parsers.table_names import declares_keys, settle_names, with_names
from refactx.ingest.parsers.tables import SEPARATOR, read_header
from refactx.ingest.parsers.wikipedia import parse_page, parse_page_props
from refactx.ingest.profile import RDF, in_words, recognise_profile
from refactx.ingest.report import REPORTED_FAULTS
from refactx.ingest.source_options import DEFAULT_SELECTION, Selection, TableOptions
from refactx.ingest.sources import BYTE_ORDER_MARK, BatchSource, Format, Inputs, Source, numbered_blocks
from refactx.ingest.work import Resources, WorkDatabase, open_work_database
from refactx.progress import progress_bar

_IRI = rb"<\w[\w+.-]*:(?://[^<>\s]*|\w[^<>\s]*)>"
_TRIPLE_LINE = re.compile(rb'\s*(?:%b|_:\S+)\s*%b\s*[<"_].*\.' % (_IRI, _IRI))
_RDF = re.compile(rb"\s*(?:%b|_:\w|\[|@(?:prefix|base|version)\s|(?i:PREFIX|BASE|VERSION|GRAPH)\s+[\"'<\w:])" % _IRI)
_XML = re.compile(rb"\s*<(?:\?xml\s|rdf:RDF|!DOCTYPE\s+rdf)")
_JSON = re.compile(rb'\s*(?:\{\s*"|\[\s*\{)')
_ENTITIES = re.compile(
    rb'\s*(?:\{\s*"entities"\s*:\s*\{|\[?\s*\{(?=.{,4000}?"type"\s*:\s*"(?:item|property|lexeme)")'
    rb'(?=.{,4000}?"id"\s*:\s*"[QPL][1-9]))',
    re.DOTALL,
)
_JSON_LD = re.compile(rb'"@(?:context|id|graph|type|value)"')
_GRAPH = re.compile(rb"(?i:\s*GRAPH\s|.*\{\s*$)")
_FACT = re.compile(rb"\s*<.+>\s+<.+>\s+<.+>\s*\.?\s*")
_WORD = re.compile(rb"\w+")
_STAR = re.compile(r"<<|\{\|")  # of RDF-star: such a line in N-Triples is malformed, and makes no Turtle of the others
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
_GRAPH_TABLE = re.compile(rb'(?i)(?:^|[,;\t|"])(?:[\w ]*:(?:ID|START_ID|END_ID)\b|~(?:id|from|to)\b)')
_GRAPHML = re.compile(rb"<(?:[\w.-]+:)?graphml[\s/>]")
_HEADER_BYTES = 4096
_TRIED_LINES = 1000
_EXACT_FACT = f"^<{PLAIN_TEXT}> <{PLAIN_TEXT}> <{PLAIN_TEXT}> \\.$"
_BOUNDARY = re.compile(r">\s+<")
_TRIPLE = "<http://example.org/Graz> <http://example.org/country> <http://example.org/Austria> ."
_EXAMPLES: Mapping[Format, str] = {
    "N-Triples": _TRIPLE,
    "N-Quads": _TRIPLE,
    "ready-made facts": "<Danny Boyle> <date of birth> <1956-10-20> .",
    "Wikidata's JSON": EXAMPLE,
}
OTHER_GRAPH = (
    "it has no triple about an id of www.wikidata.org (<http://www.wikidata.org/entity/Q42>), as its profile says: "
    "another graph has the profile rdf (--profile rdf), which ingest on Spark does not read"
)


def format_of(source: Source, tables: TableOptions = DEFAULT_SELECTION.tables) -> Format:
    """Return the format of a source: that of its name, or of its content if the name says none or cannot be right.

    `tables`: options that say whether text is a table.

    Raises:
        InputError: as `Source.blocks` does; or neither the name nor the first lines say what the file is.
    """
    named = source.format_by_name
    if isinstance(source, BatchSource):
        return "table"
    says_table = tables.columns or tables.subjects or tables.delimiter or tables.comment or not tables.header
    start = source.first_lines()
    if says_table and (named in (None, "ready-made facts") or source.format_by_name == "table"):
        lines = [line for line in start.removeprefix(BYTE_ORDER_MARK).split(b"\n", 100)[:100] if line.strip()]
        if tables.comment is not None:
            lines = [line for line in lines if not line.startswith(tables.comment.encode())]
        found = _format_of_content(start, lines[0] if lines else b"")
        return found if found is not None and named != "table" else "table"
    return recognise_format(source.name, named, start)


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
            f"{source} is a table without the columns subject, predicate and object ({begin}): ",
            command="give --no-header if this line is a fact, else --columns 1,2,3",
            clients="give the file a name that ends in .csv, and a first line with the names of its columns",
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
    if _GRAPHML.search(start[:_HEADER_BYTES]):
        return "GraphML"
    if _XML.match(first):
        return "RDF/XML"
    if _JSON.match(start) and _JSON_LD.search(start):
        return "JSON-LD"
    if _ENTITIES.match(start):
        return "Wikidata's JSON"
    if _JSON.match(start):
        return "JSON lines"
    is_triple = _TRIPLE_LINE.match(first) is not None
    if not is_triple and _FACT.fullmatch(first):
        return "ready-made facts"
    if _GRAPH_TABLE.search(first):
        return "table"
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
    written = ((at, text[lines.starts[at] : lines.ends[at]].decode()) for at in others)
    at = next((at for at, line in written if not (parse_line(line) or empty_line(line) or _STAR.search(line))), None)
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


def _lines_read(text: bytes, form: pyoxigraph.RdfFormat, *, lenient: bool) -> float:
    """Return how many lines of a text can be read in a syntax before an error; none if it is nested too deep."""
    try:
        text = b"".join(within_bounds(iter([text]), "Turtle", ""))
        for _ in pyoxigraph.parse(text, format=form, lenient=lenient):
            pass
    except InputError:
        return 0
    except SyntaxError as error:
        return (error.lineno or 1) - 1
    return math.inf


def parse_ready_made(block: bytes, first_line: int) -> Parsed:
    """Return a block of ready-made facts as rows of `ready` (`subject, predicate, object`, clean and cut).

    `first_line` is the number of the block's first line in its file.
    """
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    try:
        text = block.removesuffix(b"\n").decode()
    except UnicodeDecodeError:
        return _parse_lines(decode_lines(block), range(first_line, first_line + block.count(b"\n") + 1))
    lines = pc.split_pattern(pa.array([text], pa.large_string()), "\n").flatten()
    # A line within the limit in bytes has no part beyond it in characters.
    exact = pc.and_(
        pc.match_substring_regex(lines, _EXACT_FACT), pc.less_equal(pc.binary_length(lines), MAX_PART_CHARACTERS)
    )
    parts = pc.split_pattern(
        pc.binary_slice(lines.filter(exact).cast(pa.large_binary()), 1, -3).cast(pa.large_string()), "> <"
    )
    table = pa.table({name: pc.list_element(parts, at) for at, name in enumerate(("subject", "predicate", "object"))})
    others = lines.filter(pc.invert(exact))
    if not len(others):
        return Parsed(lines=len(lines), statements=len(lines), tables={"ready": table})
    numbers = (first_line + number for number, is_exact in enumerate(exact.to_pylist()) if not is_exact)
    result = Parsed(lines=len(table), statements=len(table), tables={"ready": table})
    result.add(_parse_lines(others.to_pylist(), numbers))
    return result


def split_line(line: str) -> tuple[str, ...] | None:
    """Return the raw parts of a ready-made fact, with or without its dot: three, or those of qualifiers too; else None.

    A part may hold `<` or `>` as long as `> <` marks only the two boundaries between parts.

    >>> split_line("<a < b>  <is> <1> .")
    ('a < b', 'is', '1')
    >>> split_line("<a> <is> <b> <c> .") is None, split_line("<a> <is> <b> <since> <1990>")
    (True, ('a', 'is', 'b', 'since', '1990'))
    """
    line = line.strip()
    if line.endswith("."):
        line = line[:-1].rstrip()
    if not (line.startswith("<") and line.endswith(">")):
        return None
    parts = _BOUNDARY.split(line[1:-1])
    return tuple(parts) if len(parts) >= 3 and len(parts) % 2 else None


def _parse_lines(lines: Sequence[str | bytes], numbers: Iterable[int]) -> Parsed:
    """Parse lines of any form, given the number of each in its file."""
    result = Parsed(lines=len(lines))
    facts: list[tuple[str, ...]] = []
    for number, line in zip(numbers, lines, strict=False):
        if isinstance(line, bytes):
            result.faults.append((number, not_utf8(line)))
            continue
        start = line.strip().removeprefix("\ufeff")
        if not start or start.startswith("#"):
            result.dropped["comment" if start else "blank"] += 1
            continue
        parts = split_line(start)
        if parts is None:
            result.faults.append((number, fault("not <subject> <predicate> <object> .", line)))
            continue
        result.statements += 1
        clean = [clean_part(part) for part in parts]
        if not all(clean):
            result.dropped["empty part"] += 1
            continue
        result.cut += sum(len(part) > MAX_PART_CHARACTERS for part in clean)
        facts.append(tuple(map(cut_part, clean)))
    result.tables["ready"] = table_of("ready", [fact for fact in facts if len(fact) == 3])
    if statements := [(*fact[:3], "> <".join(fact[3:])) for fact in facts if len(fact) > 3]:
        result.tables["ready_statements"] = table_of("ready_statements", statements)
    return result


def row_names(sources: Sequence[Source], index: str) -> dict[str, str]:
    """Return what the rows of each table are rows of: what its file is called; of rows that are in no file, what the index is
    called."""
    tables = [one for one in sources if not one.is_labels]
    in_no_file = [one for one in tables if one.is_standard_input or (isinstance(one, BatchSource) and one.keys is None)]
    return {one.table: in_words(index if one in in_no_file else one.table) for one in tables}


def value_columns(source: Source, options: TableOptions) -> list[str]:
    """Return the names of a table's columns without those of names and ids; none of what has no header."""
    if source.is_labels or source.is_standard_input or format_of(source, options) != "table":
        return []
    names = read_header(source, options, wanted_columns(options)).names
    others = {column_of(given, source.table, names) for given in (options.subjects, options.ids)}
    return [name for place, name in enumerate(names) if place not in others]


def with_row_names(sources: Sequence[Source], selection: Selection, index: str) -> Selection:
    """Return a selection with inverse facts in which the rows of tables are rows of what their files are called, which then
    leads to them."""
    names = sorted(row_names(sources, index).items())
    if not (selection.inverse and selection.tables.subjects and names):
        return selection
    given = tuple(
        name if sum(not one.is_labels for one in sources) == 1 else f"{table}={name}" for table, name in names
    )
    return replace(selection, tables=replace(selection.tables, rows_of=given))


AdvanceBytes = Callable[[int], object]
"""Called with how many bytes of a source were read from disk since the last call."""
Reader = Callable[[Source, Selection, int, AdvanceBytes], Iterator[Parsed]]
"""The source, the selection of its facts, the number of threads, and the progress → its blocks."""
BlockParser = Callable[[bytes, int, Selection, str], Parsed]
"""A block of whole lines, the number of its first line in the file, the selection, and the name of the file → the parsed
block."""


@dataclass(frozen=True, slots=True)
class SourceFormat:
    """A format of sources: its reader, and an example of a line for error messages."""

    read: Reader
    example: str


def reader_of(parse: BlockParser) -> Reader:
    """Return a reader that parses blocks of lines in several threads, while the next blocks are read."""

    def read(source: Source, selection: Selection, workers: int, advance: AdvanceBytes) -> Iterator[Parsed]:
        with ThreadPoolExecutor(workers, thread_name_prefix="parse") as pool:
            waiting: deque[Future[Parsed]] = deque()
            try:
                for block, line in numbered_blocks(source, advance):
                    waiting.append(pool.submit(parse, block, line, selection, source.name))
                    if len(waiting) > workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    return read


BLOCK_PARSERS: Mapping[Format, BlockParser] = {
    "N-Triples": lambda block, line, selection, scope: parse_triples(block, line, selection, scope=scope),
    "N-Quads": lambda block, line, selection, scope: parse_triples(without_graphs(block), line, selection, scope=scope),
    "ready-made facts": lambda block, line, _, __: parse_ready_made(block, line),
    "Wikidata's JSON": parse_entities,
}
"""The formats of which any block of whole lines can be parsed by itself."""


def _read_entities(source: Source, selection: Selection, workers: int, advance: AdvanceBytes) -> Iterator[Parsed]:
    if is_document(source.first_lines()):
        return read_document(source, selection, advance)
    return read_entities(source, selection, workers, advance)


def _rdf_reader(name: Format) -> Reader:
    return lambda source, selection, _, advance: parse_rdf(source, name, selection, advance)


FORMATS: Mapping[Format, SourceFormat] = {
    **{name: SourceFormat(reader_of(parse), _EXAMPLES[name]) for name, parse in BLOCK_PARSERS.items()},
    **{name: SourceFormat(_rdf_reader(name), example) for name, example in RDF_EXAMPLES.items()},
    "table": SourceFormat(
        lambda source, selection, _, advance: parse_table(source, table_form(source, selection), advance),
        "Danny Boyle,date of birth,1956-10-20",
    ),
    "JSON lines": SourceFormat(
        lambda source, selection, _, advance: parse_json(source, selection, advance),
        '{"name": "Danny Boyle", "date of birth": "1956-10-20"}',
    ),
    "Wikidata's JSON": SourceFormat(_read_entities, EXAMPLE),
    "GraphML": SourceFormat(
        lambda source, selection, _, advance: parse_graphml(source, selection, advance), '<node id="1">'
    ),
}

RDF_KINDS = FORMATS.keys() - {"ready-made facts", "table", "JSON lines", "GraphML", "Wikidata's JSON"}
_LABELS = SourceFormat(
    lambda source, selection, _, advance: parse_labels(source, selection, advance), "Q42<TAB>Douglas Adams<TAB>writer"
)


def recognised(inputs: Inputs, selection: Selection, index: str | None) -> Selection:
    """Return a selection with the profile of the first source of RDF, if it has none, and the keys of several tables.

    `index`: the name of a new index, for what rows are rows of; None: a change, which has that of the ingest.

    Raises as `open_sources` does.
    """
    tables = with_names(inputs.sources, selection.tables)
    if tables.subjects:
        kinds = {one: format_of(one, tables) for one in inputs.sources if not one.is_labels}
        rows = [one for one, kind in kinds.items() if kind in ("table", "JSON lines")]
        json = [one for one in rows if kinds[one] == "JSON lines"]
        tables = with_persons((one for one in rows if one not in json), tables)
        if len({one.table for one in rows}) > 1:  # the reader of a single one says what it lacks
            of_columns = [one for one in rows if one not in json]
            tables = of_tables(of_columns, tables, may_be_others=index is None or bool(json))
        if not declares_keys(inputs.sources):
            tables = with_keys(rows, json, tables, is_new=index is not None)
        tables = settle_names(inputs.sources, selection.tables, tables)
        selection = replace(selection, tables=tables)
    if index is not None and not tables.columns:
        files = [one for one in inputs.sources if not one.is_labels and one.keys is None]
        files = [one for one in files if one.format_by_name == "table"]
        refuse_unnamed(files if len(files) > 1 else (), selection.tables)
    selection = selection if index is None else with_row_names(inputs.sources, selection, index)
    given = (one for one in inputs.sources if not one.is_labels)
    of_rdf = next(((one, form) for one in given if (form := format_of(one, selection.tables)) in RDF_KINDS), None)
    if of_rdf is None:
        return selection
    profile = selection.profile or recognise_profile(first_triples(*of_rdf))
    if selection.tables.subjects and profile.name == RDF:
        profile = replace(profile, named_by=selection.tables.subjects)
    return replace(selection, profile=profile)


def published_quads(paths: Sequence[Path], base: str | None = None) -> Iterator[pyoxigraph.Quad]:
    """Yield the quads of files of RDF as they are; `base`: of relative IRIs, if not the address of the file.

    Raises InputError if one is not RDF, and as `Source.blocks` does.
    """
    for path in paths:
        source = Source(path, base=base)
        form = format_of(source)
        if form not in RDF_KINDS:
            raise InputError(f"{source.name} is {form}: expected RDF, such as Turtle or N-Triples")
        yield from quads_of(source, form, rename=True)


@dataclass(slots=True, kw_only=True)
class LineAccount:
    """The account of the lines read so far.

    `dropped`: how many lines were dropped, by reason, malformed ones included. `faults`: the first malformed lines as
    `file:line: what`. `notes`: other remarks on a source. Lines that neither parsing nor the joins drop are kept.
    """

    read: int = 0
    cut: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, source: str, parsed: Parsed) -> None:
        self.read += parsed.lines
        self.cut += parsed.cut
        self.dropped += parsed.dropped
        self.dropped["malformed"] += len(parsed.faults)
        free = REPORTED_FAULTS - len(self.faults)
        self.faults += (f"{source}:{line}: {what}" for line, what in parsed.faults[:free])
        self.notes += (f"{source}: {note}" for note in parsed.notes)

    def to_json(self) -> dict[str, Any]:
        """Return the account for a manifest; `from_json` reads it back."""
        dropped = dict(self.dropped)
        return {"read": self.read, "cut": self.cut, "dropped": dropped, "faults": self.faults, "notes": self.notes}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "LineAccount":
        return cls(**{**document, "dropped": Counter(document["dropped"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSource:
    """A source that can be read: its name, its format with an example of a line, and its reader. `may_be_empty`: it is one
    table of several, which may have no rows."""

    name: str
    kind: str
    example: str
    read: Callable[[AdvanceBytes], Iterator[Parsed]]
    may_be_empty: bool = False


def open_sources(inputs: Inputs, selection: Selection, workers: int) -> list[OpenSource]:
    """Return the sources, without English Wikipedia's dumps, after the first lines of all files have been read.

    Raises InputError if a file cannot be read, or has no known format.
    """
    opened = []
    for source in inputs.sources:
        source.first_lines()
        if source.is_labels:
            read = partial(_LABELS.read, source, selection, workers)
            opened.append(OpenSource(name=source.name, kind="a file of labels", example=_LABELS.example, read=read))
            continue
        kind = format_of(source, selection.tables)
        form = FORMATS[kind]
        reader = _rdf_reader(kind) if selection.graphs and kind == "N-Quads" else form.read
        read = partial(reader, source, selection, workers)
        opened.append(
            OpenSource(
                name=source.name, kind=kind, example=form.example, read=read, may_be_empty=source.keys is not None
            )
        )
    for source in inputs.wikipedia or ():
        source.first_lines()
    return opened


def read_sources(
    opened: Sequence[OpenSource],
    inputs: Inputs,
    staged: Path,
    selection: Selection,
    *,
    strict: bool,
    resources: Resources,
) -> LineAccount:
    """Parse all inputs into the tables in the folder `staged`; the next blocks are parsed while one is written.

    `resources.memory` limits the join of English Wikipedia's dumps. Raises InputError if a source is not what its name
    says, and for the first malformed line if `strict` is set.
    """
    account = LineAccount()
    sizes = [source.size for source in inputs.all]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    with ExitStack() as stack:
        writer = stack.enter_context(StagingWriter(staged))
        if inputs.wikipedia is not None:
            work = stack.enter_context(open_work_database(staged, resources))
            opened = [*opened, *_open_dumps(inputs.wikipedia, work, selection)]
        pool = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="stage"))
        bar = stack.enter_context(progress_bar("reading", total, shown=resources.progress, unit="B", unit_scale=True))
        written: Future[None] | None = None
        for source in opened:
            for parsed in _parse(source, strict, bar.update):
                account.add(source.name, parsed)
                if written is not None:
                    written.result()
                written = pool.submit(writer.write, parsed.tables)
        if written is not None:
            written.result()
    return account


def _open_dumps(
    dumps: tuple[Source, Source], work: WorkDatabase, selection: Selection
) -> tuple[OpenSource, OpenSource]:
    """Return English Wikipedia's dumps, which have to be read in this order."""
    page, page_props = dumps
    example = "INSERT INTO `{}` VALUES (...),(...);"
    return (
        OpenSource(
            name=page.name,
            kind="the dump of table page",
            example=example.format("page"),
            read=partial(parse_page, page, work),
        ),
        OpenSource(
            name=page_props.name,
            kind="the dump of table page_props",
            example=example.format("page_props"),
            read=partial(parse_page_props, page_props, work, selection),
        ),
    )


def _parse(source: OpenSource, strict: bool, advance: AdvanceBytes) -> Iterator[Parsed]:
    """Yield the parsed blocks of a source. Raise InputError if it does not hold what it should."""
    statements, rows, first_fault = 0, 0, ""
    for parsed in source.read(advance):
        if parsed.faults and not first_fault:
            at, what = min(parsed.faults)
            first_fault = f"line {at}: {what}"
            if strict:
                raise malformed(source.name, at, what)
        check_syntax(source.name, parsed.faults)
        yield parsed
        statements += parsed.statements
        rows += sum(map(len, parsed.tables.values()))
    if not statements and not source.may_be_empty:
        raise no_statement(source.name, source.kind, source.example, first_fault)
    if not rows and source.kind in RDF_KINDS:
        yield Parsed(lines=0, notes=(OTHER_GRAPH,))


def check_syntax(source: str, faults: Sequence[tuple[int, str]]) -> None:
    """Raise InputError if one of the malformed lines of N-Triples is RDF in another syntax, of which facts would be lost."""
    for line, what in sorted(faults):
        syntax, found, _ = what.partition(f", {NOT_NTRIPLES}: ")
        if found:
            suffix = ".nq" if syntax == "N-Quads" else ".ttl"
            raise InputError(f"{source}:{line}: {what}: give the file a name that ends in {suffix}")


def malformed(source: str, line: int, what: str) -> InputError:
    """Return the error for a malformed line, if none is allowed."""
    return InputError(f"{source}:{line}: {what}: correct the line, or leave out --strict to skip it")


def no_statement(source: str, kind: str, example: str, first_fault: str) -> InputError:
    """Return the error for a source without any of the lines that its kind should have."""
    what = first_fault or "it has only blank lines and comments"
    return unreadable(f"{source} is not {kind}: {what}; expected lines such as {example}")
