"""L2: whether the variables of a query have values where they are used."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from refactx.nl2sparql.parsed import Call, Expression, ParsedQuery, is_variable
from refactx.nl2sparql.validation.report import Problem

_MAY_BE_UNBOUND = ("BOUND", "COALESCE")
_WHAT = {
    "filter": "FILTER",
    "bind": "BIND",
    "having": "HAVING",
    "order": "ORDER BY",
    "group": "GROUP BY",
    "select": "SELECT",
}


def scoping_problems(query: ParsedQuery, gives: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
    """Yield a problem for each variable without a value: selected, or used in an expression, and bound nowhere there.

    `gives`: services that give values to variables by their names, with the endings of these: `?xLabel` for `?x`.
    """
    endings = {end for group in query.groups if group.service is not None for end in gives.get(group.service, ())}
    everywhere = frozenset[str]().union(*(query.in_scope(group.number) for group in query.groups))
    for group in query.groups:
        if group.kind != "select":
            continue
        bound = query.in_scope(group.number)
        for name in group.selected or ():
            if name not in bound and not _is_given(name, bound, endings):
                yield Problem(
                    "L2",
                    "variable",
                    f"{name} is selected, and no pattern gives it a value",
                    f"use {name} in a pattern, or select one of {_listed(bound)}",
                )
    for condition in query.conditions:
        seen = query.in_scope(condition.group)
        for name in dict.fromkeys(_needed(condition.expression)):
            if name in seen or _is_given(name, everywhere, endings):
                continue
            what = _WHAT[condition.kind]
            if name in everywhere:
                text = f"{name} has no value in this {what}, which sees the variables of its own group alone: {_listed(seen)}"
                hint = f"move the {what} into the group that has {name}, or use {name} in a pattern of this group"
            else:
                text = f"{name} is used in {what}, and no pattern gives it a value"
                hint = f"use {name} in a pattern, or one of {_listed(seen)} in {what}"
            yield Problem("L2", "variable", text, hint)


def _is_given(name: str, bound: Collection[str], endings: Collection[str]) -> bool:
    """Return whether a service gives a value to a variable, by the one that its name begins with."""
    return any(name.endswith(end) and name.removesuffix(end) in bound for end in endings)


def _needed(expression: Expression) -> Iterator[str]:
    """Yield the variables of an expression that have to have a value."""
    if isinstance(expression, str):
        if is_variable(expression):
            yield expression
    elif isinstance(expression, Call) and expression.name not in _MAY_BE_UNBOUND:
        for argument in expression.arguments:
            yield from _needed(argument)


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "none"
