"""Queries of `refactx sparql`: their names, the engine that runs them, and what is printed of them."""

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property

import click

from refactx.cli.plain import query_text
from refactx.cli.sparql.table import print_table
from refactx.errors import InputError, RefactxError, without_password
from refactx.fact import visible
from refactx.index import Index
from refactx.query.values import bare_name
from refactx.sparql.empty import SECONDS, explain_empty, is_empty
from refactx.sparql.engines import EndpointEngine, EngineName, Result, SparqlEngine, open_engine
from refactx.sparql.entity_labels import labels_at
from refactx.sparql.labels import Labelled, has_labels, with_iris
from refactx.sparql.names import Names
from refactx.sparql.results import Format, written
from refactx.sparql.syntax import check_query, read_query, tokens_of

SHOWN = 50
"""The most rows of a table by default."""
EXAMPLE = "SELECT ?x { <Alaska> <capital> ?x }"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of `refactx sparql`. `names_index`: the index or its database was named."""

    index: str
    db: str | None
    engine: EngineName
    endpoint: str | None
    form: str
    limit: int | None
    timeout: float
    explain: bool
    names_index: bool


def run_queries(arguments: Sequence[str], settings: Settings) -> None:
    """Run the query of the arguments, of standard input, or those that are typed."""
    if len(arguments) > 1:
        raise InputError(f"there are {len(arguments)} arguments, expected one query: put it in quotes, as '{EXAMPLE}'")
    with ExitStack() as stack:
        session = _Session(settings, stack)
        if arguments or not sys.stdin.isatty():
            return session.run(query_text(arguments[0] if arguments else "-"))
        _run_typed(session)
    return None


def _run_typed(session: "_Session") -> None:
    from refactx.cli.sparql.reading import read_typed

    for text in read_typed(lambda: session.names):
        try:
            session.run(text)
        except RefactxError as error:
            click.echo(f"refactx: {without_password(str(error))}", err=True)
        except KeyboardInterrupt:
            click.echo("(interrupted)", err=True)


class _Session:
    """An engine and the names of an index, which are opened when they are first needed, until the stack is closed."""

    def __init__(self, settings: Settings, stack: ExitStack) -> None:
        self._settings, self._stack = settings, stack

    def run(self, text: str) -> None:
        """Run a query and print its result. Raises RefactxError."""
        settings, text = self._settings, read_query(text)
        if "_engine" not in self.__dict__:  # before a database is opened; engines check queries themselves
            check_query(text, settings.timeout)
        query = with_iris(text, self.names) if has_labels(text) else Labelled(tuple(tokens_of(text)), {})
        limit = settings.limit or (SHOWN if settings.form == "table" else None)
        begun = time.monotonic()
        result = self._engine.run(query.sparql, limit=limit, seconds=settings.timeout)
        seconds = time.monotonic() - begun
        for one in query.resolved:
            of = f", of {one.among} with this name" if one.among > 1 else ""
            _note(f"<{one.label}> is taken as <{one.name}>{of}")
        if settings.explain:
            _note(f"{self._engine.name} answered in {seconds:.3f} s: {' '.join(visible(query.sparql).split())}")
        self._print(result)
        if not isinstance(result, bool) and result.note:
            _note(result.note)
        if settings.explain or (settings.endpoint is None and not isinstance(result, bool) and not result.rows):
            self._explain(query, result)

    @cached_property
    def names(self) -> Names:
        """The names of the index."""
        return Names(self._index)

    @cached_property
    def _index(self) -> Index:
        from refactx.connect import open_index

        return self._stack.enter_context(open_index(self._settings.index, self._settings.db))

    @cached_property
    def _engine(self) -> SparqlEngine:
        settings = self._settings
        if settings.endpoint is not None:
            engine: SparqlEngine = EndpointEngine(settings.endpoint)
        else:
            engine = open_engine(self._index, settings.engine)
        self._stack.callback(engine.close)
        return engine

    @property
    def _known_names(self) -> Names | None:
        """The names of the index, unless it has nothing to do with what is asked."""
        is_open = "_index" in self.__dict__
        return self.names if is_open or self._settings.names_index or self._settings.endpoint is None else None

    def _print(self, result: Result) -> None:
        form = self._settings.form
        if form == "table":
            print_table(result, self._labels_of)
        else:
            forms: dict[str, Format] = {"csv": "csv", "tsv": "tsv", "json": "json"}
            _write(written(result, forms[form]))
        if not isinstance(result, bool) and result.truncated:
            _note(result.reason or "there are more rows: see --limit")

    def _labels_of(self, ids: Sequence[str]) -> Mapping[str, str]:
        """Return labels by id: those of the index, or of the endpoint if no index is known."""
        if self._known_names is None:
            return labels_at(self._engine, ids, min(SECONDS, self._settings.timeout))
        return {id_: bare_name(name) for id_, name in self._known_names.facts.names(ids).items()}

    def _explain(self, query: Labelled, result: Result) -> None:
        if is_empty(result):
            reason = explain_empty(query, self._engine, self._known_names, min(SECONDS, self._settings.timeout))
            if reason:
                _note(reason)


def _write(parts: Iterable[str]) -> None:
    """Write text as it is, with its line ends; but on a terminal without what would control that."""
    if sys.stdout.isatty():
        parts = map(visible, parts)
    for part in parts:
        sys.stdout.buffer.write(part.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def _note(text: str) -> None:
    click.echo(f"refactx: {visible(without_password(text))}", err=True)
