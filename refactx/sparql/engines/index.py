"""The engines of an index: its fact tree, its store, or whichever can answer a query.

A walk is answered without a store: `SELECT ?x { wd:Q1588 wdt:P1449 ?x }` is `list <Louisiana> <nickname>`. Its rows are
those that the store of the index gives, or the query is refused: one whose rows may be there twice has to have DISTINCT.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pyoxigraph import Literal as RdfLiteral
from pyoxigraph import NamedNode, Store

from refactx.errors import IndexNotFoundError, InputError
from refactx.fact import ALIAS_OF, Fact
from refactx.index import Index
from refactx.iris import DIRECT, ENTITY, PREFIXES, WIKIDATA
from refactx.paths import INDEX_FILE, is_file_name
from refactx.sparql.engines.checking import CheckedQuery, check_alone, check_query, read_query
from refactx.sparql.engines.engine import (
    EngineTimeoutError,
    QueryRefusedError,
    Result,
    Rows,
    SparqlEngine,
    Term,
    within,
)
from refactx.sparql.engines.processes import POOL, IsolatedEngine, QueryLimits, own_limits
from refactx.sparql.engines.store import StoreEngine
from refactx.sparql.store import StoreError
from refactx.sparql.store.building import triples_of
from refactx.sparql.store.folder import folder_of, use_store
from refactx.sparql.store.statements import RANK, dated
from refactx.sparql.store.triples import OWN, entity, is_compared, name_of_own, not_compared, own
from refactx.sparql.syntax import tree
from refactx.sparql.syntax.parser import ParsedQuery, ParseError, parse
from refactx.sparql.syntax.patterns import read_patterns
from refactx.sparql.syntax.tokens import tokens_of
from refactx.sparql.syntax.wikidata import absent_in, to_standard
from refactx.sparql.walks import followed_backwards, from_sparql
from refactx.walks import Query, QueryError
from refactx.walks import Result as Answer
from refactx.walks.evaluate import evaluate_walk
from refactx.walks.facts import TreeFacts
from refactx.walks.language import BOUNDS, FactSet, WalkFilter
from refactx.walks.sets import WalkLimits
from refactx.walks.sparql_text import leaves_values_backwards
from refactx.walks.values import parse_quantity, parse_time

_WHAT = {
    "optional": "OPTIONAL", "minus": "MINUS", "union": "UNION", "bind": "BIND", "values": "VALUES", "graph": "GRAPH",
    "service": "SERVICE", "select": "a query within it", "group": "a group within it",
}  # fmt: skip


CHAINS = "without a store, an index answers queries of one chain of facts alone"
"""What the engine without a store can do, for errors."""
SECONDS = 60.0
"""The most time of a query, if none is given."""
ADVICE = "build a store of the index (`refactx store build`), or ask an endpoint (--run-on)"
PUBLIC_ADVICE = "ask who runs this server for a store of the index, which answers any query"
_LIMITS = WalkLimits(members=1_000_000, reads=20_000_000, facts=0)
_COUNT = NamedNode("http://www.w3.org/2001/XMLSchema#integer")
EngineName = Literal["auto", "tree", "store"]
_RDF = re.compile(r"\.(ttl|nt|nq|trig|n3|rdf|owl|xml|jsonld)(\.(gz|bz2|zst|xz))?$", re.IGNORECASE)


def _reason(query: str, checked: CheckedQuery, facts: FactSet) -> str:
    """Return why a query is refused by the tree: what it has that a walk has not."""
    tokens = tokens_of(query)
    try:
        parsed = parse(tokens)
    except ParseError:
        return "this query is none"
    if parts := list(dict.fromkeys(_parts(parsed.query))):
        return f"this query has {', '.join(parts)}"
    if absent := absent_in(query, lambda iri: facts.has_statements and iri == RANK.value):
        return absent
    if not checked.is_ask and len(checked.variables) != 1:
        return f"this query asks for {len(checked.variables)} variables instead of one"
    own = [token.text for token in tokens if token.kind == "iri" and token.text.startswith(f"<{OWN}")]
    if own:
        return f"{name_of_own(own[0][1:-1])!r} has no id"
    if unknown := _unknown(parsed, facts):
        return f"{', '.join(unknown)} {'has' if len(unknown) == 1 else 'have'} no name in the index"
    walk = from_sparql(query, facts)
    if walk is not None:
        return _difference(query, walk, facts)
    if backwards := followed_backwards(query, facts):
        shown = " and ".join(f"<{name}>" for name in reversed(backwards))
        return (
            f"this query follows {shown} against {'its' if len(backwards) == 1 else 'their'} direction, for which this index "
            "has no inverse facts"
        )
    return "the patterns of this query are no chains of triples from an entity to one variable"


def _difference(query: str, walk: Query, facts: FactSet) -> str:
    """Return how the rows of a query may be other ones than those of its walk."""
    patterns = read_patterns(query)
    if patterns is not None and any(condition.is_text for condition in patterns.conditions):
        return "this query compares text by its case, which is done in any case there"
    if patterns is not None and patterns.limit and patterns.order is None:
        return "this query has LIMIT without ORDER BY"
    if patterns is not None and not (patterns.ask or patterns.distinct or patterns.has_one_row_each()):
        return "this query may have equal rows: write DISTINCT"
    if leaves_values_backwards(walk, facts):
        return "this query may go from a value to what has it"
    return "a property of this query has an inverse property (P1696), whose facts would be counted too"


def _parts(query: tree.QueryTree) -> Iterator[str]:
    if query.where is not None:
        yield from _kinds(query.where)
    if any(isinstance(one.path, tree.Term) and one.path.kind == "variable" for one in tree.triples_of(query)):
        yield "a variable in place of a property"
    clauses = {"HAVING": query.having, "OFFSET": query.offset, "VALUES": query.values}
    yield from (word for word, clause in clauses.items() if clause)


def _kinds(group: tree.Group) -> Iterator[str]:
    for element in group.elements:
        if element.kind in _WHAT:
            yield _WHAT[element.kind]
        for inner in tree.groups_of(element):
            yield from _kinds(inner)


def _unknown(parsed: ParsedQuery, facts: FactSet) -> list[str]:
    """Return the ids of a query that the index does not name."""
    own = ("", PREFIXES["wd"], PREFIXES["wdt"])
    uris = [uri for uri in parsed.prologue.uris() if uri.namespace in own and not uri.is_vocabulary]
    ids = {uri.id or uri.name: uri.text for uri in uris}
    named = facts.names(list(ids))
    return [text for id_, text in ids.items() if id_ not in named]


class _ComparedFacts(TreeFacts):
    """Facts without dates that SPARQL does not compare, where a walk compares them."""

    def __init__(self, facts: TreeFacts, walk: Query) -> None:
        self.__dict__.update(vars(facts))
        last = [(which.hops or walk.hops)[-1:] for which in walk.which if which.operator in ("equals", *BOUNDS)]
        found = facts.describe([hop.predicate for hops in last for hop in hops])
        kinds = {name: one.kind for name, one in found.items() if one.kind in ("time", "literal", "mixed")}
        self._compared = {name: kind == "time" for name, kind in kinds.items()}  # 1942 may else be a number
        self._left_out = dict[str, str]()

    @property
    def note(self) -> str:
        """What is to be said of the dates that were left out."""
        return "; ".join(not_compared(f"<{name}>", text) for name, text in self._left_out.items())

    def objects(self, subjects: Sequence[str], predicate: str) -> Iterator[tuple[str, str]]:
        for subject, value in super().objects(subjects, predicate):
            is_time = predicate in self._compared and parse_time(value) is not None
            if not is_time or is_compared(value) or not (self._compared[predicate] or parse_quantity(value) is None):
                yield subject, value
            else:
                self._left_out.setdefault(predicate, value)


class TreeEngine:
    """An engine on an open index, which it does not close. Several threads may use it."""

    name = "tree"

    def __init__(self, index: Index, advice: str = ADVICE) -> None:
        """`advice`: what to do if a query is refused, for the error."""
        self._index, self._facts, self._advice = index, TreeFacts(index), advice

    def run(self, query: str, *, limit: int | None = None, seconds: float | None = None) -> Result:
        """Run a SELECT or ASK, as `refactx.sparql.engines.SparqlEngine` says. One that is no walk is refused.

        Raises as `Index.children` does.
        """
        standard, begun = to_standard(read_query(query)), time.monotonic()
        query = standard.sparql
        check_alone(query)
        if standard.labels:
            raise QueryRefusedError(
                f"{CHAINS}, and this query asks for labels (SERVICE wikibase:label): leave them out, since tables show names, "
                f"or {self._advice}"
            )
        seconds = SECONDS if seconds is None else seconds
        try:
            checked, walk = within(seconds, lambda: self._read(query))
        except TimeoutError:
            raise EngineTimeoutError(
                f"to read the query takes more than {seconds:g} s: write less",
                command=", or give it more time (--timeout)",
            ) from None
        limits = replace(_LIMITS, seconds=max(0.0, begun + seconds - time.monotonic()))
        facts = _ComparedFacts(self._facts, walk)
        answer = self._answer(walk, facts, limits)
        if not answer.is_complete and walk.head != "list":
            raise EngineTimeoutError(
                f"the index cannot answer this query: {answer.reason}: ask for less",
                command=", or give it more time (--timeout)",
            )
        if walk.head == "ask":
            return bool(answer.truth)
        notes = (standard.note, facts.note)
        return replace(self._rows(walk, answer, checked, limit), note="; ".join(filter(None, notes)))

    def close(self) -> None:
        """Do nothing: the index stays open."""

    def _read(self, query: str) -> tuple[CheckedQuery, Query]:
        """Return the walk that a query is, or raise QueryRefusedError."""
        checked = check_query(query)
        walk = from_sparql(query, self._facts, exact=True)
        if walk is not None and walk.head == "list" and not checked.is_ask:  # rows have to differ, as its members do
            patterns = read_patterns(query)
            if patterns is None or not (patterns.distinct or patterns.has_one_row_each()):
                walk = None
        if walk is None or not (checked.is_ask or len(checked.variables) == 1):
            raise QueryRefusedError(f"{CHAINS}, and {_reason(query, checked, self._facts)}: {self._advice}")
        return checked, walk

    def _answer(self, walk: Query, facts: TreeFacts, limits: WalkLimits) -> Answer:
        try:
            return evaluate_walk(walk, facts, limits)
        except QueryError as error:
            if walk.head in ("list", "most", "least") and self._is_empty(walk, limits):
                return Answer()
            raise QueryRefusedError(
                f"the index cannot answer this query: {error.for_clients}: {self._advice}"
            ) from None

    def _is_empty(self, walk: Query, limits: WalkLimits) -> bool:
        """Return whether a walk has no rows: it is no error that no member has a predicate, as in walks it is."""
        try:
            members = evaluate_walk(replace(walk, head="count", by=None, limit=1), self._facts, limits)
            if members.count == 0 and members.is_complete:
                return True
            if walk.by is None:
                return False
            has_value = WalkFilter(walk.by.hops, "over", "0", counted=True)
            having = replace(walk, head="count", by=None, limit=1, which=(*walk.which, has_value))
            members = evaluate_walk(having, self._facts, limits)
            return members.count == 0 and members.is_complete
        except QueryError:
            return False

    def _rows(self, walk: Query, answer: Answer, checked: CheckedQuery, limit: int | None) -> Rows:
        if walk.head == "count":
            return Rows(checked.variables, [(RdfLiteral(str(answer.count), datatype=_COUNT),)])
        terms = self._terms(walk, answer.values[:limit])
        is_cut = limit is not None and len(answer.values) > limit
        return Rows(checked.variables, [(term,) for term in terms], is_cut or not answer.is_complete, answer.reason)

    def _terms(self, walk: Query, values: Sequence[str]) -> list[Term]:
        """Return the terms of members, as the triples of the last hop have them."""
        last = walk.hops[-1]
        described = self._facts.describe([last.predicate]).get(last.predicate)
        if last.predicate == ALIAS_OF or (described is not None and described.inverse and last.its is None):
            return self._entities(values)
        triples = triples_of(self._index, self._index.ids_of)
        facts = [Fact("", last.its or last.predicate, value, "", (0, 0)) for value in values]
        found = [
            triple.object if triple is not None else own(fact.object)
            for triple, fact in zip(triples.of(facts), facts, strict=True)
        ]
        if last.has_statements:
            found = [dated(term)[0] if isinstance(term, RdfLiteral) else term for term in found]
        if last.closure == "*" and walk.start in values:  # the start itself, which may be no object
            at = list(values).index(walk.start)
            found[at] = self._entities([walk.start])[0]
        return found

    def _entities(self, names: Sequence[str]) -> list[Term]:
        ids = self._facts.ids(names)
        return [entity(ids[name]) if name in ids else own(name) for name in names]


class WikibaseEngine:
    """An engine on the index of a Wikibase, whose own IRIs queries and rows have. Within, they are those of Wikidata.

    `base`: the beginning of its IRIs, such as `https://kb.example.org/`. `wd:` and the other usual prefixes mean ids of the
    index, and so do IRIs of Wikidata.
    """

    def __init__(self, engine: SparqlEngine, base: str) -> None:
        self._engine, self._base = engine, base

    @property
    def name(self) -> str:
        return self._engine.name

    def run(self, query: str, *, limit: int | None = None, seconds: float | None = None) -> Result:
        found = self._engine.run(query.replace(f"<{self._base}", f"<{WIKIDATA}"), limit=limit, seconds=seconds)
        if isinstance(found, bool):
            return found
        return replace(found, rows=[tuple(map(self._own, row)) for row in found.rows])

    def close(self) -> None:
        self._engine.close()

    def _own(self, term: Term | None) -> Term | None:
        if isinstance(term, NamedNode) and term.value.startswith((ENTITY, DIRECT)):
            return NamedNode(self._base + term.value.removeprefix(WIKIDATA))
        return term


def open_engine(index: Index, name: EngineName = "auto", limits: QueryLimits | None = None) -> SparqlEngine:
    """Open an engine on an index, which it does not close.

    `auto`: the store if the index has one that has just what the index has; else the tree. `limits`: of queries on the
    store; by default those of a user's own.

    Raises StoreError, which says what to run, for `store` if there is no such store; and as `Index.refresh` does.
    """
    engine = _open_engine(index, name, limits or own_limits())
    return engine if index.base is None else WikibaseEngine(engine, index.base)


def _open_engine(index: Index, name: EngineName, limits: QueryLimits) -> SparqlEngine:
    if name == "tree":
        return TreeEngine(index)
    try:
        version, mark = use_store(index)
    except StoreError as error:
        with suppress(StoreError):  # a file has no store
            POOL.end_idle(folder_of(index).path)
        if name == "store":
            raise
        return TreeEngine(index, PUBLIC_ADVICE if limits.is_public else str(error))
    POOL.end_idle(version.path.parent, but=version.path)
    return IsolatedEngine(index.name, version.path, limits, version.release, mark.odd_dates)


def engine_at(where: str, index: Callable[[str | None], Index]) -> SparqlEngine:
    """Open the engine that a user names: a URL, a file of RDF, the name of an index that has a store, or `auto`, `tree` or
    `store` of the user's index. `index`: opens the index of a name, or the user's, for None.

    Raises InputError if it names none, and as `open_engine` and `EndpointEngine` do.
    """
    names: dict[str, EngineName] = {"auto": "auto", "tree": "tree", "store": "store"}
    if where in names:
        return open_engine(index(None), names[where])
    if "://" in where or "@" in where:
        from refactx.sparql.engines.endpoint import EndpointEngine  # a client of HTTP, which the others do not need

        return EndpointEngine(where)
    path = Path(where)
    if not where.endswith(INDEX_FILE) and (path.is_file() or _RDF.search(where) or is_file_name(where)):
        return open_file(path)
    try:
        return open_engine(index(where), "store")
    except IndexNotFoundError as error:
        expected = "expected a URL, a file of RDF, store, tree or an index"
        raise InputError(f"{where} is no engine, {expected}: {error}") from None


def open_file(path: Path) -> SparqlEngine:
    """Return an engine on the triples of a file of RDF, in memory. Raises InputError if it cannot be read.

    What it has says which syntax it is, and whether it is compressed.
    """
    from refactx.ingest.parsers.formats import published_quads  # psycopg, which the others do not need

    store = Store()
    store.bulk_extend(published_quads([path]))
    return StoreEngine(store)
