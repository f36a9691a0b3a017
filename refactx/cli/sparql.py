"""The command `refactx sparql`, which runs a query, and its subcommands."""

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TextIO

import click
from click.core import ParameterSource
from pyoxigraph import BlankNode, NamedNode, Triple
from rich.cells import cell_len

from refactx.cli.help import GroupedCommand, OrderedGroup
from refactx.cli.options import DB, INDEX, JSON, Decorator, all_of, declared, index_opener, print_json
from refactx.cli.views import query_text
from refactx.errors import InputError, without_password
from refactx.fact import Link, line, visible
from refactx.index import Index
from refactx.iris import PREFIXES, id_of_entity
from refactx.linking.names import bare_name
from refactx.options import option
from refactx.sparql.empty import SECONDS, explain_empty, is_empty
from refactx.sparql.engines import EngineName, Result, SparqlEngine, Term, engine_at
from refactx.sparql.engines.checking import check_query, read_query
from refactx.sparql.labels import Labelled, has_labels, with_iris
from refactx.sparql.results import Format, names_at, written
from refactx.sparql.store.triples import name_of_own
from refactx.sparql.syntax.tokens import tokens_of
from refactx.walks.facts import TreeFacts

Convert = Callable[[str, bool], str]
"""A function that returns what a text becomes, or raises InputError. The flag: the result has to be on one line."""

_ID = re.compile(
    rf"(?:{re.escape(PREFIXES['wd'])}|{re.escape(PREFIXES['p'])}(?:direct/|statement/|qualifier/)?)([QP][1-9]\d*)",
    re.ASCII,
)

_WIDEST = 60
"""Columns of a terminal that a value takes at most, if others need room too."""

ENGINES = ("auto", "store", "tree")
FORMATS = ("table", "csv", "tsv", "json")

SHOWN = 50
"""The most rows of a table by default."""

EXAMPLE = "SELECT ?x { <Alaska> <capital> ?x }"


@dataclass(frozen=True, slots=True)
class _Record:
    """A query of a file: the number of its line, its text, and the document whose field it is; or an error."""

    line: int
    text: str
    document: dict[str, Any] | None = None
    error: InputError | None = None


def file_options(source: str, target: str) -> Decorator:
    """Add FILE, and how it is read and written, to a command: the arguments of `convert_file`.

    `source`, `target`: defaults of the fields of JSON lines.
    """
    read, add = "Field of JSON lines to read.", "Field of JSON lines to add."
    return all_of(
        click.argument("file", type=click.File(encoding="utf-8-sig"), default="-"),
        click.option("--whole", is_flag=True, help="FILE is one query with several lines."),
        click.option("--from", "source", default=source, show_default=True, metavar="FIELD", help=read),
        click.option("--to", "target", default=target, show_default=True, metavar="FIELD", help=add),
    )


def convert_file(file: TextIO, convert: Convert, *, whole: bool, source: str, target: str) -> None:
    """Print what each query of a file becomes: a line, or its document with the field `target`.

    A query that is not converted has an empty line, or a document with `error`; the error is printed on standard error.
    Raises InputError at the end if there was one, and before if the file cannot be read or has no query.
    """
    from tqdm import tqdm

    records = _read(file, whole, source, target)
    shown = visible if sys.stdout.isatty() else str  # a text must not control a terminal; in a file it is exact
    are_lines = not whole and all(record.document is None for record in records)
    failed = list[_Record]()
    for record in tqdm(records, unit=" queries", disable=sys.stdout.isatty() or None, leave=False):
        result, error = "", record.error
        if record.text:
            try:
                result = convert(record.text, are_lines)
            except InputError as raised:
                if whole:
                    raise
                error = raised
        if error is not None:
            failed.append(record)
            click.echo(f"refactx: line {record.line}: {error}", err=True)
        if record.document is not None:
            print_json(record.document | ({target: result} if error is None else {"error": str(error)}))
        else:
            click.echo(shown(result))
    if failed:
        count = sum(record.text != "" or record.error is not None for record in records)
        hint = "; a query with several lines needs --whole" if are_lines else ""
        raise InputError(
            f"{len(failed)} of {count} queries are not converted, the first on line {failed[0].line}{hint}"
        )


def _read(file: TextIO, whole: bool, source: str, target: str) -> list[_Record]:
    """Return the queries of a file. It has JSON lines if it begins with a brace, with which no SPARQL begins."""
    name = getattr(file, "name", "<stdin>")  # a wrapper of a stream may have none
    name = "standard input" if name == "<stdin>" else name
    try:
        text = file.read()
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not text in UTF-8: {error}") from error
    if not text.strip():
        raise InputError(f"{name} has no query: expected one on each line, or JSON lines with the field {source}")
    if whole:
        return [_Record(1, text.strip())]
    if text.lstrip().startswith("["):
        raise InputError(f"{name} is one array of JSON: expected a document on each line, such as `jq -c '.[]'` writes")
    # A document may have other line ends within a string.
    lines = list(enumerate(text.removesuffix("\n").split("\n"), 1))
    if text.lstrip().startswith("{"):
        return [_read_document(number, line, source, target) for number, line in lines if line.strip()]
    return [_Record(number, line.strip()) for number, line in lines]


def _read_document(number: int, line: str, source: str, target: str) -> _Record:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        return _Record(number, "", {}, InputError(f"this is no line of JSON: {error}"))
    if not isinstance(document, dict):
        return _Record(number, "", {}, InputError("this is no document of JSON: expected one in braces"))
    text = document.get(source)
    if not isinstance(text, str) or not text.strip():
        return _Record(
            number, "", document, InputError(f"the document has no text {source}: name its field with --from")
        )
    if target in document:
        raise InputError(f"line {number}: the document has a field {target} already: name another with --to")
    return _Record(number, text.strip(), document)


Cell = Link | str


LinksById = Callable[[Sequence[str]], Mapping[str, Link]]
"""A function that returns the links of ids, without those that have no label."""


def links_by_id(facts: TreeFacts, ids: Sequence[str]) -> dict[str, Link]:
    """Return the links of ids that an index names, with their labels."""
    return {id_: facts.link(bare_name(name), id_) for id_, name in facts.names(ids).items()}


def print_table(result: Result, find: LinksById) -> None:
    """Print rows with labels and pages, or yes or no for an ASK."""
    if isinstance(result, bool):
        click.echo("yes" if result else "no")
        return
    rows = cells_of(result.rows, find)
    if sys.stdout.isatty():
        _print_for_terminal(result.variables, rows)
    else:
        for text in _plain(result.variables, rows):
            click.echo(text)


def table_at(
    engine: SparqlEngine | None,
    variables: Sequence[str],
    rows: Sequence[Sequence[Term | None]],
    languages: Sequence[str] = ("en",),
) -> Iterator[str]:
    """Yield the lines of a table of rows, with what their things are called where an engine ran the query."""
    seconds = SECONDS if engine is not None else 0.0

    def find(ids: Sequence[str]) -> Mapping[str, Link]:
        return {} if engine is None else links_at(engine, ids, seconds, languages)

    return _plain(variables, cells_of(rows, find))


def links_at(
    engine: SparqlEngine, ids: Sequence[str], seconds: float, languages: Sequence[str] = ("en",)
) -> dict[str, Link]:
    """Return the links of ids that an engine has labels of."""
    return {id_: Link(names[0], id_) for id_, names in names_at(engine, ids, seconds, languages).items()}


def cells_of(rows: Iterable[Sequence[Term | None]], find: LinksById) -> list[list[Cell]]:
    """Return rows with links in place of the IRIs of entities and properties."""
    links = _links_of({term for row in rows for term in row if isinstance(term, NamedNode)}, find)
    return [[_cell_of(term, links) for term in row] for row in rows]


def _links_of(terms: Iterable[NamedNode], find: LinksById) -> dict[str, Link]:
    """Return the links of IRIs that are those of entities and properties, with their labels if they have any; of other
    IRIs, of those that have labels."""
    ids = {term.value: match[1] if (match := _ID.fullmatch(term.value)) else id_of_entity(term.value) for term in terms}
    links = find(list(dict.fromkeys(ids.values()))) if ids else {}
    return {iri: links.get(id_, Link(id_, id_)) for iri, id_ in ids.items() if id_ in links or _ID.fullmatch(iri)}


def _cell_of(term: Term | None, links: dict[str, Link]) -> Cell:
    if term is None:
        return ""
    if isinstance(term, NamedNode):
        own = name_of_own(term.value)
        return links.get(term.value, term.value if own is None else own)
    if isinstance(term, BlankNode | Triple):
        return str(term)
    return term.value.removesuffix("T00:00:00Z")


def _plain(variables: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Iterator[str]:
    """Yield the lines of a table: columns with two spaces between them, pages after labels."""
    table = [list(map(_with_page, row)) for row in (variables, *rows)]
    widths = [max(cell_len(row[at]) for row in table) for at in range(len(variables))]
    for row in table:
        yield "  ".join(text + " " * (width - cell_len(text)) for text, width in zip(row, widths, strict=True)).rstrip()


def _with_page(cell: Cell) -> str:
    if isinstance(cell, str):
        return line(cell)
    return line(cell.url or cell.label) if cell.label == cell.id else f"{line(cell.label)} {cell.url or cell.id}"


def _print_for_terminal(variables: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from refactx.cli.views import terminal

    def drawn(cell: Cell) -> Text:
        if isinstance(cell, str):
            return Text(line(cell))
        page = f"link {cell.url}" if cell.url else ""
        found = Text(line(cell.label), page)
        return found if cell.label == cell.id else found.append(f"  {cell.id}", f"dim {page}")

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in variables:
        table.add_column(line(name), overflow="fold", max_width=_WIDEST if len(variables) > 1 else None)
    for row in rows:
        table.add_row(*map(drawn, row))
    terminal().print(table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of `refactx sparql`. `names_index`: the index or its database was named."""

    index: str
    db: str | None
    engine: EngineName = option("auto", "store, tree; auto: store if there is one.", choices=ENGINES, metavar="ENGINE")
    run_on: str | None = option(None, "URL, RDF file or other index, in its place.", metavar="WHERE", former="endpoint")
    form: Literal["table"] | Format = option(
        None, "table (default), csv, tsv or json.", choices=FORMATS, flag="format", metavar="FORMAT"
    )
    limit: int | None = option(None, "At most N rows; default: all, table: 50.", least=1)
    timeout: float = option(60.0, "At most so long.", above=0, metavar="SECONDS")
    explain: bool = option(False, "Print the query with ids, and why it has no rows.")
    names_index: bool


def run_queries(arguments: Sequence[str], settings: Settings) -> None:
    """Run the query of the arguments, of standard input, or those that are typed."""
    if len(arguments) > 1:
        raise InputError(f"there are {len(arguments)} arguments, expected one query: put it in quotes, as '{EXAMPLE}'")
    with ExitStack() as stack:
        session = _Session(settings, stack)
        if arguments or not sys.stdin.isatty():
            return session.run(query_text(arguments[0] if arguments else "-"))
        from refactx.cli.typing import read_typed_sparql, run_typed

        run_typed(read_typed_sparql(lambda: session.facts), session.run)
    return None


class _Session:
    """An engine and the names of an index, which are opened when they are first needed, until the stack is closed."""

    def __init__(self, settings: Settings, stack: ExitStack) -> None:
        self._settings, self._stack = settings, stack

    def run(self, text: str) -> None:
        """Run a query and print its result. Raises RefactxError."""
        settings, text = self._settings, read_query(text)
        if "_engine" not in self.__dict__:  # before a database is opened; engines check queries themselves
            check_query(text, settings.timeout)
        query = with_iris(text, self.facts) if has_labels(text) else Labelled(tuple(tokens_of(text)), {})
        limit = settings.limit or (SHOWN if settings.form == "table" else None)
        begun = time.monotonic()
        result = self._engine.run(query.sparql, limit=limit, seconds=settings.timeout)
        seconds = time.monotonic() - begun
        for one in query.resolved:
            _note(one.note)
        if settings.explain:
            _note(f"{self._engine.name} answered in {seconds:.3f} s: {' '.join(visible(query.sparql).split())}")
        self._print(result)
        if not isinstance(result, bool) and result.note:
            _note(result.note)
        is_missing = settings.run_on is None and not isinstance(result, bool) and not result.rows
        if is_empty(result) and (settings.explain or is_missing):
            _note(explain_empty(query, self._engine, self._known_facts, min(SECONDS, settings.timeout)))

    @cached_property
    def facts(self) -> TreeFacts:
        """The facts of the index."""
        return TreeFacts(self._index)

    @cached_property
    def _index(self) -> Index:
        from refactx.index.open import open_index

        return self._stack.enter_context(open_index(self._settings.index, self._settings.db))

    @cached_property
    def _engine(self) -> SparqlEngine:
        settings = self._settings
        opened = index_opener(self._stack, settings.index, settings.db)
        engine = engine_at(settings.run_on or settings.engine, lambda name: opened(name) if name else self._index)
        self._stack.callback(engine.close)
        return engine

    @property
    def _known_facts(self) -> TreeFacts | None:
        """The facts of the index, unless it has nothing to do with what is asked."""
        is_open = "_index" in self.__dict__
        return self.facts if is_open or self._settings.names_index or self._settings.run_on is None else None

    def _print(self, result: Result) -> None:
        form = self._settings.form
        if form == "table":
            print_table(result, self._links)
        else:
            _write(written(result, form))
        if not isinstance(result, bool) and result.truncated:
            _note(result.reason or "there are more rows: see --limit")

    def _links(self, ids: Sequence[str]) -> Mapping[str, Link]:
        """Return links by id: those of the index, or of the endpoint if no index is known."""
        if self._known_facts is not None:
            return links_by_id(self._known_facts, ids)
        return links_at(self._engine, ids, min(SECONDS, self._settings.timeout))


def _write(parts: Iterable[str]) -> None:
    """Write text as it is, with its line ends; but on a terminal without what would control that."""
    if sys.stdout.isatty():
        parts = map(visible, parts)
    for part in parts:
        sys.stdout.buffer.write(part.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def _note(text: str) -> None:
    click.echo(f"refactx: {visible(without_password(text))}", err=True)


@click.command("from-pgmr", cls=GroupedCommand, groups={"Files": ("whole", "source", "target")})
@file_options("pgmr", "sparql")
@click.option("--ignore-case", is_flag=True, help="Find names in any case.")
@click.option("--prefixes", is_flag=True, help="Declare known prefixes, for any engine.")
@INDEX
@DB
def from_pgmr(file: TextIO, ignore_case: bool, prefixes: bool, index: str, db: str | None, **given: Any) -> None:
    """Write SPARQL with URIs for the names of PGMR text.

    FILE (default: standard input) has a text on each line, or JSON lines, to which a field is added. A name is found
    if an entity or property of the index has this label and description, or is the only one of this label; else the
    query is refused, with an error.
    """
    from refactx.index.open import open_index
    from refactx.sparql.placeholders.index_names import IndexResolver
    from refactx.sparql.placeholders.text import read_pgmr
    from refactx.sparql.syntax.prologue import with_declarations

    with open_index(index, db) as opened:
        resolver, finish = IndexResolver(opened, ignore_case=ignore_case), with_declarations if prefixes else str
        convert_file(file, lambda text, _: finish(read_pgmr(text).resolved(resolver)), **given)


@click.command("to-pgmr", cls=GroupedCommand, groups={"Files": ("whole", "source", "target")})
@file_options("sparql", "pgmr")
@click.option(
    "--dialect", type=click.Choice(["block", "inline"]), default="block", show_default=True, metavar="DIALECT"
)
@click.option("--lower", is_flag=True, help="Keywords and names in lower case.")
@click.option("--one-line", is_flag=True, help="JSON lines, --whole: no line ends in texts.")
@click.option("--prefixes/--no-prefixes", default=True, help="Keep PREFIX of known prefixes; default: on.")
@INDEX
@DB
def to_pgmr(
    file: TextIO, dialect: Any, lower: bool, one_line: bool, prefixes: bool, index: str, db: str | None, **given: Any
) -> None:
    """Write SPARQL with names in place of URIs.

    FILE (default: standard input) has a query on each line, or JSON lines, to which a field is added: training data
    for models that write queries. The names are those of an index. A query whose ids have no name is an error.
    """
    from refactx.index.open import open_index
    from refactx.sparql.placeholders.index_names import IndexNames
    from refactx.sparql.placeholders.text import Style
    from refactx.sparql.placeholders.text import to_pgmr as write

    with open_index(index, db) as opened:
        names = IndexNames(opened)

        def convert(text: str, is_line: bool) -> str:
            return write(
                text, names, Style(dialect=dialect, lower=lower, one_line=one_line or is_line, prefixes=prefixes)
            )

        convert_file(file, convert, **given)


class QueryGroup(OrderedGroup):
    """A group that is a command too: arguments are its own unless the first one is the name of a subcommand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Leave the arguments of the command in `ctx.args`."""
        if args and args[0] in self.commands:
            return super().parse_args(ctx, args)
        ctx.allow_interspersed_args = True
        ctx.args = click.Command.parse_args(self, ctx, args)
        return ctx.args


@click.group(cls=QueryGroup, invoke_without_command=True, subcommand_metavar="[QUERY] | COMMAND [ARGS]...")
@INDEX
@declared(Settings)
@JSON
@DB
@click.pass_context
def sparql(context: click.Context, /, as_json: bool, form: Any, **given: Any) -> None:
    """Run a SPARQL query, or convert SPARQL to text with names in place of URIs.

    A QUERY is a SELECT or ASK with ids (wd:Q797 wdt:P36 ?x) or with labels in angle brackets (<Alaska> <capital> ?x),
    or a file with one. Wikidata's prefixes need no declaration. Without QUERY, queries are read from the terminal, where
    Tab completes names; with - or from a pipe, all of standard input is one query.
    """
    if context.invoked_subcommand is not None:
        return
    if as_json and form not in (None, "json"):
        raise InputError(f"--json and --format {form} exclude each other: give one of them")
    if given["run_on"] is not None and given["engine"] != "auto":
        raise InputError("--run-on and --engine exclude each other: an endpoint or a file is an engine of its own")
    sources = (context.get_parameter_source(name) for name in ("index", "db"))
    names_index = any(source is not ParameterSource.DEFAULT for source in sources)
    run_queries(context.args, Settings(form="json" if as_json else form or "table", names_index=names_index, **given))


sparql.add_command(to_pgmr)
sparql.add_command(from_pgmr)
