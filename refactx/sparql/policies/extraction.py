"""The query within what a model wrote: in a fence of Markdown, or bare, with words before and after it."""

import re

from refactx.sparql.syntax import tokens_of

_FENCED = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
_FENCE = re.compile(r"^[ \t]*```.*$", re.MULTILINE)
_BEGIN = re.compile(
    r"\bPREFIX\s+[\w.-]*:\s*<|\bBASE\s*<|\bSELECT\s*(?:DISTINCT\b|REDUCED\b|[?$*(])|\bASK\s*(?:WHERE\b|FROM\b|\{)",
    re.IGNORECASE,
)
_MODIFIER = re.compile(r"\s*(?:GROUP\s+BY|HAVING|ORDER\s+BY|LIMIT|OFFSET|VALUES)\b", re.IGNORECASE)
_HEAD = re.compile(r"(?<!\S)((?:entity|relation)\w+)\s*=\s*(?=\[)", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\b(?:entity|relation)\w+", re.IGNORECASE)


def query_in(text: str) -> str | None:
    """Return the first SELECT or ASK query in a text, as it is written there; None if there is none.

    >>> query_in("Here it is:\\n```sparql\\nSELECT ?x { ?x ?p 1 }\\nLIMIT 5\\n```\\nIt selects ?x.")
    'SELECT ?x { ?x ?p 1 }\\nLIMIT 5'
    """
    text = text.rpartition("</think>")[2]
    for part in (*_FENCED.findall(text), text):
        begin = _BEGIN.search(part)
        if begin is not None:
            return _query(_FENCE.sub("", part[begin.start() :]))
    return None


def pgmr_in(text: str) -> str | None:
    """Return the first query in a text with its mapping block, a mapping a line; None if there is no query.

    Mappings that the query does not use are left out.

    >>> pgmr_in("ASK { wd:entity1 wdt:relation1 1 }\\nwhere relation1 = [REL] size [/REL]\\nentity1 = [ENT] Ann [/ENT] a girl")
    'ASK { wd:entity1 wdt:relation1 1 }\\nrelation1 = [REL] size [/REL]\\nentity1 = [ENT] Ann [/ENT] a girl'
    """
    text = _FENCE.sub("", text.rpartition("</think>")[2])
    begin = _BEGIN.search(text)
    if begin is None:
        return None
    heads = [head for head in _HEAD.finditer(text) if head.start() > begin.start()]
    query = _query(text[begin.start() : heads[0].start() if heads else len(text)])
    used = {name.lower() for name in _PLACEHOLDER.findall(query)}
    ends = [*(head.start() for head in heads[1:]), len(text)]
    mappings = [
        text[head.start() : end].strip().partition("\n")[0].rstrip()
        for head, end in zip(heads, ends, strict=False)  # without heads there is an end
        if head[1].lower() in used
    ]
    return "\n".join([query, *mappings])


def _query(text: str) -> str:
    """Return the query with which a text begins: up to its last bracket, and modifiers after that."""
    depth, end = 0, len(text)
    for token in tokens_of(text):
        if token.kind == "other" and token.text in "{}":
            depth += 1 if token.text == "{" else -1
            if depth <= 0:
                end = token.start + 1
                break
    query, rest = text[:end], text[end:].split("\n")
    for number, line in enumerate(rest):
        if line.strip() and not _MODIFIER.match(line):
            break
        query += f"{chr(10) if number else ''}{line}"
    return query.strip()
