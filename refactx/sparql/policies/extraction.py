"""The query within what a model wrote: in a fence of Markdown, or bare, with words before and after it."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from refactx.sparql.syntax import tokens_of
from refactx.writing.conversation import without_thoughts

_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})(?:[^`\n]*$|\w*)|`{3,}", re.MULTILINE)
_BEGIN = re.compile(
    r"\bPREFIX\s+[\w.-]*:\s*<|\bBASE\s*<|\bSELECT\s*(?:DISTINCT\b|REDUCED\b|[?$*(])|\bASK\s*(?:WHERE\b|FROM\b|\{)",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"[ \t]*#.*")
_FORM = re.compile(r"(?<![?$:\w])(?:SELECT|ASK)\b", re.IGNORECASE)
_MODIFIER = re.compile(r"\s*(?:GROUP\s+BY|HAVING|ORDER\s+BY|LIMIT|OFFSET|VALUES)\b", re.IGNORECASE)
_HEAD = re.compile(r"(?<!\S)((?:entity|relation)\w+)\s*=\s*(?=\[)", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\b(?:entity|relation)\w+", re.IGNORECASE)


def query_in(text: str) -> str | None:
    """Return the last whole SELECT or ASK query of a reply, as it is written there; None if there is none.

    What the model thinks does not count. If no query is whole, it is the last that begins, so that an error can name
    what is missing.

    >>> query_in("Here it is:\\n```sparql\\nSELECT ?x { ?x ?p 1 }\\nLIMIT 5\\n```\\nIt selects ?x.")
    'SELECT ?x { ?x ?p 1 }\\nLIMIT 5'
    >>> query_in("A draft: ASK { ?x ?p 1 }\\nFinal: ASK { ?x ?p 2 }")
    'ASK { ?x ?p 2 }'
    """
    parts = _FENCE.split(_reply(text))
    found = _last([query for part in parts for _, query in _queries(part)])
    return None if found is None else found.text


def pgmr_in(text: str) -> str | None:
    """Return the last whole query of a reply with its mapping block, a mapping a line; None if there is no query.

    Mappings that the query does not use are left out.

    >>> pgmr_in("ASK { wd:entity1 wdt:relation1 1 }\\nwhere relation1 = [REL] size [/REL]\\nentity1 = [ENT] Ann [/ENT] a girl")
    'ASK { wd:entity1 wdt:relation1 1 }\\nrelation1 = [REL] size [/REL]\\nentity1 = [ENT] Ann [/ENT] a girl'
    """
    text = _FENCE.sub("", _reply(text))
    found = list(_queries(text))
    last = _last([query for _, query in found])
    if last is None:
        return None
    begin = next(start for start, query in found if query is last)
    heads = [head for head in _HEAD.finditer(text) if head.start() > begin]
    query = _query(text[begin : heads[0].start() if heads else len(text)]).text
    used = {name.lower() for name in _PLACEHOLDER.findall(query)}
    ends = [*(head.start() for head in heads[1:]), len(text)]
    mappings = [
        text[head.start() : end].strip().partition("\n")[0].rstrip()
        for head, end in zip(heads, ends, strict=False)  # without heads there is an end
        if head[1].lower() in used
    ]
    return "\n".join([query, *mappings])


def _reply(text: str) -> str:
    """Return a reply without what the model thinks; of a JSON object, such as `{"sparql": "SELECT ..."}`, its texts."""
    text = without_thoughts(text)
    try:
        document = json.loads(_FENCE.sub("", text))
    except (ValueError, RecursionError):
        return text
    return "\n".join(map(str, document.values())) if isinstance(document, dict) else text


class _Query(NamedTuple):
    """A query, the place where it ends, and whether its brackets are closed."""

    text: str
    end: int
    is_whole: bool


def _queries(text: str) -> Iterator[tuple[int, _Query]]:
    """Yield the queries of a text, with the places where they begin."""
    begin = _BEGIN.search(text)
    while begin is not None:
        query = _query(text[begin.start() :])
        if len(_FORM.findall(query.text.partition("{")[0])) < 2:  # else it begins in words before the query
            yield begin.start(), query
            comment = _COMMENT.match(text, begin.start() + query.end)
            after = comment.end() if comment else begin.start() + query.end
            begin = _BEGIN.search(text, after if query.is_whole else begin.end())
        else:
            begin = _BEGIN.search(text, begin.end())


def _last(queries: Sequence[_Query]) -> _Query | None:
    """Return the last whole query, or the last one if none is; None if there are none."""
    whole = [query for query in queries if query.is_whole]
    return next(reversed(whole or queries), None)


def _query(text: str) -> _Query:
    """Return the query with which a text begins: up to its last bracket, and modifiers after that."""
    depth, end, is_whole, signs = 0, len(text), False, ""
    for token in tokens_of(text):
        signs += token.text if token.kind == "other" else " "
        if token.kind == "other" and token.text in "{}":
            depth += 1 if token.text == "{" else -1
            if depth <= 0:
                end, is_whole = (
                    token.start + 1,
                    depth == 0 and "..." not in signs,
                )  # dots stand for what a form leaves out
                break
    query, rest = text[:end], text[end:].split("\n")
    for number, line in enumerate(rest):
        if line.strip() and not _MODIFIER.match(line):
            break
        query += f"{chr(10) if number else ''}{line}"
    return _Query(query.strip(), end, is_whole)
