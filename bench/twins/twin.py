"""The twin of a yes/no question: one part of it is another, so that its answer is no."""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from bench.twins.near import near_objects
from bench.twins.text import Span, find_name, find_number, like, replace_span
from refactx.linking.names import bare_name
from refactx.sparql.walks import from_sparql
from refactx.walks.evaluate import evaluate_walk
from refactx.walks.language import FactSet, Query, QueryError, WalkFilter, write_line
from refactx.walks.values import parse_quantity

NEAREST = 10
"""One of this many nearest objects is taken."""

FACTORS = tuple(map(Decimal, ("0.9", "1.1", "0.8", "1.25", "0.5", "2", "0.1", "10")))
"""What a number is multiplied with, the nearest numbers first."""


class NoTwin(Exception):  # noqa: N818  # a reason, not an error
    """A question has no twin; the message says why."""


@dataclass(frozen=True, slots=True)
class _Change:
    """Another filter, with the words of the question and the term of the query that it takes the place of."""

    which: WalkFilter
    span: Span
    text: str
    old: str
    new: str
    shares: tuple[str, ...] = ()


def twin_of(record: dict[str, Any], facts: FactSet, chance: random.Random) -> dict[str, Any]:
    """Return the twin of a question, as a record of the same format. Raise NoTwin with a reason if there is none.

    The filters of its query are tried in random order. The twin is false in the index, and its SPARQL is the same walk.
    """
    query = _walk(record["sparql"], facts)
    if query.head != "ask" or query.hops:
        raise NoTwin("its query does not ask for facts of one entity")
    if not evaluate_walk(query, facts).truth:
        raise NoTwin("it is not true in the index")
    reasons = []
    for place in chance.sample(range(len(query.which)), len(query.which)):
        which = query.which[place]
        try:
            for change in _changes(record["question"], query, which, facts, chance):
                filters = tuple(change.which if n == place else one for n, one in enumerate(query.which))
                found = _checked(record, replace(query, which=filters), change, facts)
                if found is not None:
                    return found
            reasons.append("no other object makes it false")
        except NoTwin as reason:
            reasons.append(str(reason))
    raise NoTwin("; ".join(dict.fromkeys(reasons)))


def _walk(sparql: str, facts: FactSet) -> Query:
    try:
        query = from_sparql(sparql, facts)
    except QueryError as error:
        raise NoTwin(f"its query cannot be read: {error}") from error
    if query is None:
        raise NoTwin("its query is no walk, or the index lacks one of its names")
    if any(which.also for which in query.which):
        raise NoTwin("its query asks for one of several values")
    return query


def _changes(text: str, query: Query, which: WalkFilter, facts: FactSet, chance: random.Random) -> Iterator[_Change]:
    """Yield other filters, the one to take first. Raise NoTwin if the question does not name what the filter has."""
    if len(which.hops) != 1 or which.hops[0].closure:
        raise NoTwin("a filter has several steps")
    name = which.hops[0].predicate
    if which.operator == "is":
        span = _only(find_name(text, which.value, facts), bare_name(which.value))
        if any(span[0] < end and start < span[1] for start, end in find_name(text, query.start, facts)):
            raise NoTwin(f"the words for {bare_name(which.value)!r} also name what it asks about")
        nearest = near_objects(facts, query.start, name, which.value)[:NEAREST]
        ids = facts.ids([which.value, *(one.name for one in nearest)])
        for one in chance.sample(nearest, len(nearest)):
            new = bare_name(one.name)
            if not re.search(rf"(?<!\w){re.escape(new)}(?!\w)", text, re.IGNORECASE):
                changed = replace(which, value=one.name)
                yield _Change(changed, span, new, ids[which.value], ids[one.name], one.shares)
    elif which.operator in ("equals", "over", "under") and parse_quantity(which.value) is not None:
        span = _only(find_number(text, which.value), which.value)
        written = text[slice(*span)]
        values = [number for _, value in facts.objects([query.start], name) if (number := parse_quantity(value))]
        for number in _numbers(which, values, chance):
            new = like(number, written)
            if parse_quantity(new):
                yield _Change(replace(which, value=new.replace(",", "")), span, new, which.value, new.replace(",", ""))
    else:
        raise NoTwin(f"a filter compares by {which.operator} <{which.value}>")


def _numbers(which: WalkFilter, values: list[Decimal], chance: random.Random) -> Iterator[Decimal]:
    """Yield numbers near that of a filter, or for `over` and `under` near the farthest one that facts have.

    One of the nearest two comes first, then farther ones.
    """
    every = [*values, parse_quantity(which.value) or Decimal(0)]
    base = {"over": max(every), "under": min(every)}.get(which.operator, every[-1])
    for at in range(0, len(FACTORS), 2):
        yield from (base * factor for factor in chance.sample(FACTORS[at : at + 2], 2))


def _checked(record: dict[str, Any], query: Query, change: _Change, facts: FactSet) -> dict[str, Any] | None:
    """Return the record of a twin if it is false in the index, and if its SPARQL says the same; else None."""
    term: Callable[[str], list[Span]] = lambda text: find_number(text, change.old)  # noqa: E731
    if re.fullmatch(r"Q\d+", change.old):
        term = lambda text: [m.span() for m in re.finditer(rf"\bwd:{change.old}\b", text)]  # noqa: E731
    places = term(record["sparql"])
    try:
        if len(places) != 1 or evaluate_walk(query, facts).truth is not False:
            return None
    except QueryError:
        return None
    written = change.new if change.old.isascii() and not change.old.startswith("Q") else f"wd:{change.new}"
    sparql = record["sparql"][: places[0][0]] + written + record["sparql"][places[0][1] :]
    if from_sparql(sparql, facts) is None or evaluate_walk(_walk(sparql, facts), facts).truth is not False:
        return None
    return {
        **record,
        "id": f"{record['id']}-no",
        "question": replace_span(record["question"], change.span, change.text),
        "answers": ["no"],
        "answer_ids": [],
        "sparql": sparql,
        "walk": write_line(query),
        "twin_of": record["id"],
        "replaced": [record["question"][slice(*change.span)], change.text],
        "shares": list(change.shares),
    }


def _only(spans: list[Span], what: str) -> Span:
    if len(spans) != 1:
        raise NoTwin(f"its text names {what!r} {len(spans)} times" if spans else f"its text does not name {what!r}")
    return spans[0]
