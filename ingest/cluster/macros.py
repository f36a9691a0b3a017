"""The macros of the joins' SQL (`refactx.ingest.knowledge.tables`) written out for Spark.

Spark 4 has functions in SQL, but no release of it plans all nestings of them, so their text takes their place.
"""

import re

_BODIES = {
    "entity_number": "(CAST(substr({0}, 2) AS BIGINT) * 2 + CAST(startswith({0}, 'P') AS BIGINT))",
    "entity_id": "((CASE WHEN ({0} & 1) = 1 THEN 'P' ELSE 'Q' END) || CAST(shiftright({0}, 1) AS STRING))",
    "is_property": "(({0} & 1) = 1)",
    "cut": "(CASE WHEN length({0}) > {1} THEN rtrim(substr({0}, 1, {1} - 1)) || '…' ELSE {0} END)",
    "starts_with": "startswith({0}, {1})",
    "ends_with": "endswith({0}, {1})",
}
_TEXT = r"'(?:[^']|'')*'"
_CALL = re.compile(rf"{_TEXT}|\b({'|'.join(_BODIES)})\(")
_ARGUMENT = re.compile(rf"{_TEXT}|[(),]")


def expand(query: str) -> str:
    """Return a query without macros.

    >>> expand("SELECT entity_id(abs(entity)) FROM named WHERE ends_with(name, ' (inverse of')")
    "SELECT ((CASE WHEN ((abs(entity)) & 1) = 1 THEN 'P' ELSE 'Q' END) || CAST(shiftright((abs(entity)), 1) AS STRING)) \
FROM named WHERE endswith((name), (' (inverse of'))"
    """
    parts, at = list[str](), 0
    while found := _CALL.search(query, at):
        if found[1] is None:  # a text
            parts.append(query[at : found.end()])
            at = found.end()
            continue
        arguments, end = _arguments(query, found.end())
        parts.append(query[at : found.start()])
        parts.append(_BODIES[found[1]].format(*(f"({expand(argument)})" for argument in arguments)))
        at = end
    return "".join(parts) + query[at:]


def _arguments(query: str, start: int) -> tuple[list[str], int]:
    """Return the arguments of a call, which begin at `start`, and where the query goes on behind it."""
    arguments, depth, begin, at = list[str](), 0, start, start
    while found := _ARGUMENT.search(query, at):
        at = found.end()
        if found[0] == "(":
            depth += 1
        elif found[0] == ")":
            if depth == 0:
                return [*arguments, query[begin : found.start()].strip()], at
            depth -= 1
        elif found[0] == "," and depth == 0:
            arguments.append(query[begin : found.start()].strip())
            begin = at
    raise ValueError(f"a call of a macro does not end: {query[start:]!r:.100}")
