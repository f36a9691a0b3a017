"""An answered query: its line, the same query as SPARQL, its rows with ids, and the facts that prove it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from refactx.fact import Link, LinkedFact
from refactx.linking.names import bare_name
from refactx.walks.evaluate import DEFAULT_LIMITS, Result, evaluate_walk
from refactx.walks.language import FactSet, Query, QueryError, write_line
from refactx.walks.sets import WalkLimits
from refactx.walks.sparql_text import to_sparql


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredQuery:
    """A query with its answer.

    `line`: its text; `sparql`: the same query with ids, None if a name of it has none; `result`: its answer, by names;
    `rows`: the members of a list, with their ids, literals as text; `facts`: facts that prove the answer, with their
    ids; `confidence`: how much likelier than no query it makes the question, in nats, None if nobody asked.
    """

    query: Query
    line: str
    sparql: str | None
    result: Result
    rows: tuple[Link | str, ...]
    facts: tuple[LinkedFact, ...]
    confidence: float | None = None

    @property
    def answer(self) -> str:
        """The answer in words: a number, yes or no, or names without descriptions; empty if nothing matches."""
        return self.answer_in(lambda values: list(dict.fromkeys(map(bare_name, values))))

    def answer_in(self, write: Callable[[Sequence[str]], Sequence[str]]) -> str:
        """Return the answer in words, with yes, no and names as `write` has them."""
        result, at_least = self.result, "" if self.result.is_complete else "at least "
        if self.query.head == "ask":
            return write(["yes" if result.truth else "no"])[0]
        if self.query.head == "count":
            return f"{at_least}{result.count}"
        names = write(result.values)
        return at_least + "; ".join(names) if names else ""


def answer_query(
    query: Query, facts: FactSet, limits: WalkLimits = DEFAULT_LIMITS, confidence: float | None = None
) -> AnsweredQuery:
    """Answer a query, with ids and SPARQL. Raises as `refactx.walks.evaluate.evaluate_walk` does."""
    result = evaluate_walk(query, facts, limits)
    predicates = facts.describe(list({predicate for _, predicate, _ in result.facts}))
    names = {part for subject, _, object_ in result.facts for part in (subject, object_)}
    ids = facts.ids(list({query.start, *names, *result.values}))

    def linked(name: str, kind: str) -> Link | str:
        return facts.link(name, ids.get(name)) if kind == "entity" or (kind == "mixed" and name in ids) else name

    proof: list[LinkedFact] = []
    for subject, name, object_ in result.facts:
        predicate = predicates.get(name)
        link = facts.link(name, None if predicate is None else predicate.id)
        kind = "mixed" if predicate is None else predicate.kind
        inverse = predicate is not None and predicate.inverse
        indexes = tuple(facts.origins(subject, name, object_))
        proof.append(
            LinkedFact(facts.link(subject, ids.get(subject)), link, linked(object_, kind), inverse, indexes=indexes)
        )
    return AnsweredQuery(
        query=query,
        line=write_line(query),
        sparql=_sparql(query, facts),
        result=result,
        rows=tuple(linked(value, result.kind) for value in result.values),
        facts=tuple(proof),
        confidence=confidence,
    )


def _sparql(query: Query, facts: FactSet) -> str | None:
    try:
        return to_sparql(query, facts)
    except QueryError:  # a name without an id, as in graphs that are not Wikidata's
        return None
