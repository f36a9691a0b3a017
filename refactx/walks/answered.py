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
    `rows`: the members of a list, or the groups, with their ids, literals as text; `cells`: the further columns of a table,
    for each row, each with any number of values; `facts`: facts that prove the answer, with their ids; `confidence`:
    how much likelier than no query it makes the question, in nats, None if nobody asked.
    """

    query: Query
    line: str
    sparql: str | None
    result: Result
    rows: tuple[Link | str, ...]
    cells: tuple[tuple[tuple[Link | str, ...], ...], ...] = ()
    facts: tuple[LinkedFact, ...]
    confidence: float | None = None

    @property
    def answer(self) -> str:
        """The answer in words: a number, yes or no, or names without descriptions; empty if nothing matches."""
        return self.answer_in(lambda values: list(dict.fromkeys(map(bare_name, values))))

    def answer_in(self, write: Callable[[Sequence[str]], Sequence[str]]) -> str:
        """Return the answer in words, with yes, no and names as `write` has them."""
        result, at_least = self.result, "" if self.result.is_complete else "at least "

        def write_each(names: Sequence[str]) -> list[str]:
            return ["; ".join(write([name])) for name in names]

        if self.query.head == "ask":
            return write(["yes" if result.truth else "no"])[0]
        if self.query.per is not None or result.cells:
            groups = [group for ((group,),) in result.cells] if self.query.per and result.cells else []
            rows = [[*map(" / ".join, map(write_each, cells))] for cells in result.cells]
            if self.query.per is not None:  # a group's number, or its first members with what they are sorted by
                numbers = [[number] for number in result.sorted_by]
                firsts = zip(write_each(result.values), numbers, strict=True) if groups else ()
                rows = [[one, *number] for one, number in firsts] or numbers
            names = write_each(groups or result.values)
            texts = (", ".join(cell or "-" for cell in row) for row in rows)
            return at_least + "; ".join(f"{one}: {text}" for one, text in zip(names, texts, strict=True))
        if self.query.head == "count":
            return f"{at_least}{result.count}"
        found = write(result.values)
        return at_least + "; ".join(found) if found else ""


def answer_query(
    query: Query, facts: FactSet, limits: WalkLimits = DEFAULT_LIMITS, confidence: float | None = None
) -> AnsweredQuery:
    """Answer a query, with ids and SPARQL. Raises as `refactx.walks.evaluate.evaluate_walk` does."""
    result = evaluate_walk(query, facts, limits)
    stated = list(zip(result.facts, result.qualifiers, strict=True))
    columns = [query.per.hops[-1].predicate] if query.per and result.cells else [one.predicate for one in query.show]
    names = {query.start, *result.values, *(text for row in result.cells for cell in row for text in cell)}
    names.update(part for (subject, _, object_), _ in stated for part in (subject, object_))
    names.update(part for _, qualifiers in stated for pair in qualifiers for part in pair)
    predicates = facts.describe(
        list({*columns, *(predicate for (_, predicate, _), _ in stated), *(name for _, q in stated for name, _ in q)})
    )
    ids = facts.ids(list(names))

    def linked(name: str, kind: str) -> Link | str:
        return facts.link(name, ids.get(name)) if kind == "entity" or (kind == "mixed" and name in ids) else name

    def value_of(predicate: str, value: str) -> Link | str:
        return linked(value, predicates[predicate].kind if predicate in predicates else "mixed")

    def property_of(name: str) -> Link:
        return facts.link(name, predicates[name].id if name in predicates else ids.get(name))

    proof = [
        LinkedFact(
            facts.link(subject, ids.get(subject)),
            facts.link(name, predicates[name].id if name in predicates else None),
            value_of(name, object_),
            name in predicates and predicates[name].inverse,
            tuple((property_of(qualifier), value_of(qualifier, value)) for qualifier, value in qualifiers),
            tuple(facts.origins(subject, name, object_)),
        )
        for (subject, name, object_), qualifiers in stated
    ]
    return AnsweredQuery(
        query=query,
        line=write_line(query),
        sparql=_sparql(query, facts),
        result=result,
        rows=tuple(linked(value, result.kind) for value in result.values),
        cells=tuple(
            tuple(tuple(value_of(name, text) for text in cell) for name, cell in zip(columns, row, strict=True))
            for row in result.cells
        ),
        facts=tuple(facts.with_references(proof)),
        confidence=confidence,
    )


def _sparql(query: Query, facts: FactSet) -> str | None:
    try:
        return to_sparql(query, facts)
    except QueryError:  # a name without an id, as in graphs that are not Wikidata's
        return None
