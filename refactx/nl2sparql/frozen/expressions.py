"""Expressions as SPARQL again, and the conditions that every row of a query keeps."""

from collections.abc import Iterator

from refactx.nl2sparql.parsed import Call, Expression, ParsedQuery

_BETWEEN = frozenset({"||", "&&", "=", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/"})
AGGREGATES = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE", "GROUP_CONCAT"})


def sparql_of(expression: Expression) -> str:
    """Return an expression as SPARQL.

    >>> sparql_of(Call("=", (Call("STR", ("?x",)), '"a"')))
    '(STR(?x) = "a")'
    """
    if isinstance(expression, str):
        return expression
    arguments = [sparql_of(one) for one in expression.arguments]
    if expression.name == "IN":
        return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
    if expression.name in _BETWEEN and len(arguments) > 1:
        return f"({f' {expression.name} '.join(arguments)})"
    if expression.name in ("!", "-", "+"):
        return f"({expression.name}{arguments[0]})"
    return f"{expression.name}({', '.join(arguments)})"


def conjuncts(query: ParsedQuery) -> Iterator[Expression]:
    """Yield the conditions of the filters of a query that its rows keep, those of HAVING for one row a group."""
    for condition in query.conditions:
        if query.has_to_match(condition.group):
            if condition.kind == "filter":
                yield from (one for one in _parts(condition.expression) if not _has_group(one))
            elif condition.kind == "having":
                yield from (_of_a_row(one) for one in _parts(condition.expression) if not _counts(one))


def _parts(expression: Expression) -> Iterator[Expression]:
    if isinstance(expression, Call) and expression.name == "&&":
        for argument in expression.arguments:
            yield from _parts(argument)
    else:
        yield expression


def _has_group(expression: Expression) -> bool:
    return isinstance(expression, Call) and (bool(expression.groups) or any(map(_has_group, expression.arguments)))


def _counts(expression: Expression) -> bool:
    """Return whether an expression counts rows, of which several are needed then."""
    return isinstance(expression, Call) and (expression.name == "COUNT" or any(map(_counts, expression.arguments)))


def _of_a_row(expression: Expression) -> Expression:
    """Return an expression without its aggregates: of one row, the average of a value is the value."""
    if isinstance(expression, str):
        return expression
    if expression.name in AGGREGATES and expression.arguments:
        return _of_a_row(expression.arguments[0])
    return Call(expression.name, tuple(map(_of_a_row, expression.arguments)))


def counted(query: ParsedQuery) -> int:
    """Return how many rows a group has to have for the HAVING of a query; 1 without one."""
    numbers = [1]
    for condition in query.conditions:
        if condition.kind == "having" and _counts(condition.expression):
            numbers += [int(float(text)) + 1 for text in _numbers(condition.expression)]
    return min(max(numbers), 60)


def _numbers(expression: Expression) -> Iterator[str]:
    if isinstance(expression, str):
        if expression.startswith('"') and "XMLSchema#" in expression:
            yield expression[1 : expression.index('"', 1)]
    else:
        for argument in expression.arguments:
            yield from _numbers(argument)
