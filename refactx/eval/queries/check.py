"""The check of a query against an index: it is read again from its line, run again, and its names are looked up."""

from dataclasses import dataclass

from refactx.query.evaluate import denote
from refactx.query.language import FactSet, Hop, Query, QueryError, read_line


@dataclass(frozen=True, slots=True)
class Checked:
    """What is wrong with a query: `error`, why it does not run, empty if it does; `unknown`: names that the index does
    not have."""

    error: str = ""
    unknown: tuple[str, ...] = ()


def check_line(line: str, facts: FactSet) -> Checked:
    """Check a query, given its line.

    An entity is known if it has an id or facts; a predicate, if the index describes it or the start has it. The value
    of a filter is a name if it is compared with entities. Raises as the methods of `facts` do.
    """
    try:
        query = read_line(line)
    except QueryError as error:
        return Checked(str(error))
    unknown = tuple(dict.fromkeys([*_unknown_entities(query, facts), *_unknown_predicates(query, facts)]))
    try:
        denote(query, facts)
    except QueryError as error:
        return Checked(str(error), unknown)
    return Checked("", unknown)


def _unknown_entities(query: Query, facts: FactSet) -> list[str]:
    names = [query.start]
    for which in query.which:
        last = [*query.hops, *which.hops][-1:]
        described = facts.describe([hop.predicate for hop in last])
        leads_to = [described[hop.predicate].kind for hop in last if hop.predicate in described]
        if which.operator == "is" and leads_to == ["entity"]:
            names.append(which.value)
    ids = facts.ids(names)
    return [name for name in names if name not in ids and not facts.predicates(name)]


def _unknown_predicates(query: Query, facts: FactSet) -> list[str]:
    hops = [*query.hops, *(hop for which in query.which for hop in which.hops)]
    names = [hop.predicate for hop in [*hops, *([Hop(query.by.predicate)] if query.by else [])]]
    known = facts.describe(names)
    left = [name for name in names if name not in known]
    own = facts.predicates(query.start) if left else {}
    return [name for name in left if name not in own]
