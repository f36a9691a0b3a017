"""Hints for a triple that nothing matches: what was written may be near to what there is."""

import difflib
import re
from collections.abc import Callable

from refactx.query.pgmr.uris import PREFIXES
from refactx.sparql.labels import Labelled
from refactx.sparql.names import Names
from refactx.sparql.syntax import Span, Triple

NEAR = 5
_LANGUAGE = "en"
_ENTITY = re.compile(rf"(?:wd:|<{re.escape(PREFIXES['wd'])})([QP][1-9]\d*)>?", re.ASCII)
_DIRECT = re.compile(rf"(?:wdt:|<{re.escape(PREFIXES['wdt'])})(P[1-9]\d*)>?", re.ASCII)


def hint_of(query: Labelled, triple: Triple, asks: Callable[[str], bool | None], names: Names | None = None) -> str:
    """Return what may be wrong with a triple that nothing matches; empty if nothing is known.

    `asks`: whether a pattern matches anything, None if that is not known; `names`: of the index. Raises as
    `Index.children` does.
    """
    if triple.subject is None:
        return ""
    subject, path, object_ = (query.of(span).strip() for span in (triple.subject, triple.path, triple.object))
    if _is_plain_string(query, triple.object) and asks(f"{subject} {path} {object_}@{_LANGUAGE} ."):
        return f"its text has a language there, write {object_}@{_LANGUAGE}"
    if names is not None:
        for text in (subject, object_):
            if (match := _ENTITY.fullmatch(text)) is not None and match[1] not in names.facts.names([match[1]]):
                return f"the index has nothing with the id {match[1]}"
        match = _DIRECT.fullmatch(path)
        if match is not None and match[1] not in names.facts.names([match[1]]):
            return f"the index has no property with the id {match[1]}"
    if not _is_literal(query, triple.object) and asks(f"{object_} {path} {subject} ."):
        return "the other way round it does"
    return "" if names is None else _properties_of(subject, path, names)


def _properties_of(subject: str, path: str, names: Names) -> str:
    """Return a hint with the properties that a subject has, those that are like a predicate first."""
    match = _ENTITY.fullmatch(subject)
    name = None if match is None else names.facts.names([match[1]]).get(match[1])
    if name is None:
        return ""
    own = names.facts.predicates(name)
    described = names.facts.describe(list(own))
    straight = [one for one in own if one in described and not described[one].inverse and described[one].id]
    if not straight:
        return f"<{name}> has no properties in the index"
    direct = _DIRECT.fullmatch(path)
    meant = names.facts.names([direct[1]]).get(direct[1], "") if direct is not None else ""
    if meant in straight:
        return ""
    near = difflib.get_close_matches(meant, straight, NEAR, cutoff=0.5)
    shown = near or sorted(straight, key=lambda one: -own[one])[:NEAR]
    return (
        f"<{name}> has {', '.join(f'<{one}>' for one in shown)}{'' if len(straight) <= len(shown) else ' and others'}"
    )


def _is_plain_string(query: Labelled, span: Span) -> bool:
    return span[1] - span[0] == 1 and query.tokens[span[0]].kind == "string"


def _is_literal(query: Labelled, span: Span) -> bool:
    token = query.tokens[span[0]]
    return token.kind in ("string", "number") or token.upper in ("TRUE", "FALSE") or token.text in ("+", "-")
