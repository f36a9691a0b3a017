"""The check that nothing is of two kinds: classes that a query, the domains and the ranges of properties give a term."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from refactx.nl2sparql.parsed import ParsedQuery, Pattern, iri_of, is_literal
from refactx.nl2sparql.rules.matching import TYPE
from refactx.nl2sparql.rules.rule import Finding, Names, Term

LITERAL = "literal"
"""The kind of literals, in place of a class."""
_DATATYPES = ("http://www.w3.org/2001/XMLSchema#", "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString")
_Kinds: TypeAlias = dict[str, dict[str, Pattern]]


@dataclass(frozen=True, slots=True)
class End:
    """What a property has at its ends, which the schema does not say. `subject`, `object`: a class or `literal`, empty for
    what is unknown; `value`: only of patterns with this object."""

    property: str
    subject: str = ""
    object: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class Types:
    """`types`: a term is of one kind. `disjoint`: classes of which nothing has two, each with those below it; `ends`: what
    is known of properties beside the schema."""

    disjoint: tuple[str, ...]
    ends: tuple[End, ...] = ()

    def findings(self, query: ParsedQuery, names: Names, schema: Mapping[str, Term]) -> Iterator[Finding]:
        kinds: _Kinds = {}
        for pattern in query.patterns:
            for term, class_ in self._given(pattern, schema):
                kind = LITERAL if class_ == LITERAL else self._kind(class_, schema)
                if kind is not None:
                    kinds.setdefault(term, {}).setdefault(kind, pattern)
        for term, found in kinds.items():
            if is_literal(term):
                found.setdefault(LITERAL, next(iter(found.values())))
            if set(found) == {LITERAL}:
                found.update(("resource", one) for one in query.patterns if one.subject == term)
            if len(found) > 1:
                (kind, first), (other, second) = list(found.items())[:2]
                yield Finding(
                    f"{names.short(term)} is of two kinds: {_called(kind, names)} by {names.pattern(first)}, "
                    f"{_called(other, names)} by {names.pattern(second)}",
                    "turn the pattern round that is the wrong way, or use another variable in one of them",
                )

    def _given(self, pattern: Pattern, schema: Mapping[str, Term]) -> Iterator[tuple[str, str]]:
        """Yield the terms of a pattern with the classes that it gives them."""
        if pattern.predicate == TYPE:
            yield pattern.subject, iri_of(pattern.object) or ""
            return
        known = schema.get(iri_of(pattern.predicate) or "")
        if known is not None:
            yield from ((pattern.subject, class_) for class_ in known.domain)
            yield from ((pattern.object, _range(class_)) for class_ in known.range)
        for end in self.ends:
            if end.property == pattern.predicate and end.value in ("", pattern.object):
                yield from (
                    (term, one) for term, one in ((pattern.subject, end.subject), (pattern.object, end.object)) if one
                )

    def _kind(self, class_: str, schema: Mapping[str, Term]) -> str | None:
        """Return the class among the disjoint ones that a class is, or is below."""
        seen, left = set[str](), [class_]
        while left:
            one = left.pop()
            if one in self.disjoint:
                return one
            if one not in seen and one in schema:
                seen.add(one)
                left += schema[one].parents
        return None


def _range(class_: str) -> str:
    return LITERAL if class_.startswith(_DATATYPES) else class_


def _called(kind: str, names: Names) -> str:
    return {"literal": "a text or number", "resource": "a resource"}.get(kind) or names.short(f"<{kind}>")
