"""Checks of how patterns hang together: by one variable where there have to be two, or by none."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from refactx.nl2sparql.parsed import ParsedQuery, is_blank, is_variable
from refactx.nl2sparql.parsed.query import variables
from refactx.nl2sparql.rules.matching import Wanted
from refactx.nl2sparql.rules.rule import Finding, Names, Term


@dataclass(frozen=True, slots=True)
class Apart:
    """`apart`: properties of two groups never have the same subject. `unless`: a subject with one of these is let through;
    `why`: what the two are."""

    one: Wanted
    other: Wanted
    unless: Wanted
    why: str

    def findings(self, query: ParsedQuery, names: Names, schema: Mapping[str, Term]) -> Iterator[Finding]:
        by_subject: dict[str, set[str]] = {}
        for pattern in query.patterns:
            by_subject.setdefault(pattern.subject, set()).add(pattern.predicate)
        for subject, properties in by_subject.items():
            pair = [sorted(filter(group.has, properties)) for group in (self.one, self.other)]
            if all(pair) and not any(map(self.unless.has, properties)):
                yield Finding(
                    f"{subject} has {names.short(pair[0][0])} and {names.short(pair[1][0])}: {self.why}",
                    f"use another variable in place of {subject} for one of them, which joins the same lemma or resource",
                )


@dataclass(frozen=True, slots=True)
class Connected:
    """`connected`: the patterns of a query hang together by variables, and by resources that are a subject and an object."""

    def findings(self, query: ParsedQuery, names: Names, schema: Mapping[str, Term]) -> Iterator[Finding]:
        links, joints = _Links(), {one.subject for one in query.patterns} & {one.object for one in query.patterns}
        for pattern in query.patterns:
            if query.has_to_match(pattern.group):
                terms = [pattern.subject, pattern.object, pattern.predicate, pattern.graph or "", pattern.service or ""]
                links.join(term for term in terms if is_variable(term) or is_blank(term) or term in joints)
        for condition in query.conditions:
            if condition.kind in ("filter", "bind"):
                seen = query.in_scope(condition.group)
                used = [name for name in variables(condition.expression) if name in seen]
                links.join([*used, *([condition.variable] if condition.variable else [])])
        for data in query.data:
            links.join(data.variables)
        roots: dict[str, str] = {}
        for pattern in query.patterns:
            if pattern.ends and query.has_to_match(pattern.group):
                roots.setdefault(links.root(pattern.ends[0]), names.pattern(pattern))
        if len(roots) > 1:
            first, second = list(roots.values())[:2]
            yield Finding(
                f"the patterns fall into {len(roots)} parts without a common variable: {first} has none with {second}",
                "use a variable of the one part in the other: one may be misspelt, or a pattern may be missing",
            )


class _Links:
    """Sets of names that are joined (union-find)."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}

    def root(self, name: str) -> str:
        while (above := self._above.setdefault(name, name)) != name:
            name = above
        return name

    def join(self, names: Iterable[str]) -> None:
        roots = [self.root(name) for name in names]
        for root in roots[1:]:
            self._above[self.root(root)] = self.root(roots[0])
