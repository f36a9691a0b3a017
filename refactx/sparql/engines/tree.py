"""The engine on the fact tree of an index, which answers queries that are walks.

A walk is answered without a store: `SELECT ?x { wd:Q1588 wdt:P1449 ?x }` is `list <Louisiana> <nickname>`. Its rows are
those that the store of the index gives, or the query is refused: one whose rows may be there twice has to have DISTINCT.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pyoxigraph import Literal, NamedNode

from refactx.fact import ALIAS_OF, Fact
from refactx.index import Index
from refactx.query import Query, QueryError, from_sparql
from refactx.query import Result as Answer
from refactx.query.budget import Limits
from refactx.query.denote import denote
from refactx.query.tree_facts import TreeFacts
from refactx.query.values import parse_quantity, parse_time
from refactx.sparql.engines.engine import EngineTimeoutError, QueryRefusedError, Result, Rows, Term
from refactx.sparql.engines.no_walk import reason_against
from refactx.sparql.engines.worker import within
from refactx.sparql.store.building import triples_of
from refactx.sparql.store.terms import entity, is_compared, not_compared, own
from refactx.sparql.syntax.check import Checked, check_alone, check_query, read_query

SECONDS = 60.0
"""The most time of a query, if none is given."""
ADVICE = "build a store of the index (`refactx store build`), or ask an endpoint (--endpoint)"
_LIMITS = Limits(members=1_000_000, reads=20_000_000, facts=0)
_COUNT = NamedNode("http://www.w3.org/2001/XMLSchema#integer")


def _has_distinct_rows(query: str, walk: Query) -> bool:
    """Return whether no row of a query is there twice, as no member of its walk is."""
    if walk.head != "list":
        return True
    from refactx.query.sparql.reader import read_patterns

    patterns = read_patterns(query)
    return patterns is not None and (patterns.distinct or patterns.has_one_row_each())


class _ComparedFacts(TreeFacts):
    """Facts without dates that SPARQL does not compare, where a walk compares them."""

    def __init__(self, facts: TreeFacts, walk: Query) -> None:
        self.__dict__.update(vars(facts))
        last = [(which.hops or walk.hops)[-1:] for which in walk.which if which.operator in ("equals", "over", "under")]
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

        Raises InputError if rdflib is not installed, and as `Index.children` does.
        """
        query, begun = read_query(query), time.monotonic()
        check_alone(query)
        seconds = SECONDS if seconds is None else seconds
        try:
            checked, walk = within(seconds, lambda: self._read(query))
        except TimeoutError:
            raise EngineTimeoutError(
                f"to read the query takes more than {seconds:g} s: write less, or give it more time (--timeout)"
            ) from None
        limits = replace(_LIMITS, seconds=max(0.0, begun + seconds - time.monotonic()))
        facts = _ComparedFacts(self._facts, walk)
        answer = self._answer(walk, facts, limits)
        if not answer.is_complete and walk.head != "list":
            raise EngineTimeoutError(
                f"the fact tree cannot answer this query: {answer.reason}: give it more time (--timeout)"
            )
        if walk.head == "ask":
            return bool(answer.truth)
        return replace(self._rows(walk, answer, checked, limit), note=facts.note)

    def close(self) -> None:
        """Do nothing: the index stays open."""

    def _read(self, query: str) -> tuple[Checked, Query]:
        """Return the walk that a query is, or raise QueryRefusedError."""
        checked = check_query(query)
        walk = from_sparql(query, self._facts, exact=True)
        if walk is None or not (checked.is_ask or (len(checked.variables) == 1 and _has_distinct_rows(query, walk))):
            raise QueryRefusedError(f"{reason_against(query, checked, self._facts)}: {self._advice}")
        return checked, walk

    def _answer(self, walk: Query, facts: TreeFacts, limits: Limits) -> Answer:
        try:
            return denote(walk, facts, limits)
        except QueryError as error:
            if walk.head in ("list", "most", "least") and self._is_empty(walk, limits):
                return Answer()
            raise QueryRefusedError(f"the fact tree cannot answer this query: {error}: {self._advice}") from None

    def _is_empty(self, walk: Query, limits: Limits) -> bool:
        """Return whether a walk has no rows: it is no error that no member has a predicate, as in walks it is."""
        try:
            members = denote(replace(walk, head="count", by=None, limit=1), self._facts, limits)
            if members.count == 0 and members.is_complete:
                return True
            if walk.by is None:
                return False
            listed = denote(replace(walk, head="list", by=None, limit=1), self._facts, limits)
            return listed.is_complete and not any(self._facts.counts(listed.values, walk.by.predicate))
        except QueryError:
            return False

    def _rows(self, walk: Query, answer: Answer, checked: Checked, limit: int | None) -> Rows:
        if walk.head == "count":
            return Rows(checked.variables, [(Literal(str(answer.count), datatype=_COUNT),)])
        terms = self._terms(walk, answer.values[:limit])
        is_cut = limit is not None and len(answer.values) > limit
        return Rows(checked.variables, [(term,) for term in terms], is_cut or not answer.is_complete, answer.reason)

    def _terms(self, walk: Query, values: Sequence[str]) -> list[Term]:
        """Return the terms of members, as the triples of the last hop have them."""
        last = walk.hops[-1]
        described = self._facts.describe([last.predicate]).get(last.predicate)
        if last.predicate == ALIAS_OF or (described is not None and described.inverse):
            return self._entities(values)
        triples = triples_of(self._index, self._index.ids_of)
        facts = [Fact("", last.predicate, value, "", (0, 0)) for value in values]
        found = [
            triple.object if triple is not None else own(fact.object)
            for triple, fact in zip(triples.of(facts), facts, strict=True)
        ]
        if last.closure == "*" and walk.start in values:  # the start itself, which may be no object
            at = list(values).index(walk.start)
            found[at] = self._entities([walk.start])[0]
        return found

    def _entities(self, names: Sequence[str]) -> list[Term]:
        ids = self._facts.ids(names)
        return [entity(ids[name]) if name in ids else own(name) for name in names]
