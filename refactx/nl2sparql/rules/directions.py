"""Checks of which way round a pattern is, and of the constants at its ends."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from refactx.nl2sparql.parsed import ParsedQuery, Pattern, iri_of, is_variable
from refactx.nl2sparql.rules.rule import Finding, Names, Term


@dataclass(frozen=True, slots=True)
class Direction:
    """`direction`: the name of a variable tells at which end of a property it stands. `subject`, `object`: such names, in
    lower case, as globs (`hypo*`); one with `subject`'s at the object, or the reverse, is the wrong way round."""

    property: str
    subject: tuple[str, ...]
    object: tuple[str, ...]

    def findings(self, query: ParsedQuery, names: Names, schema: Mapping[str, Term]) -> Iterator[Finding]:
        for pattern in query.patterns:
            if pattern.predicate != self.property:
                continue
            for end, wrong in ((pattern.subject, self.object), (pattern.object, self.subject)):
                if is_variable(end) and any(fnmatchcase(end[1:].lower(), name) for name in wrong):
                    yield Finding(
                        f"{names.pattern(pattern)} is the wrong way round for what {end} is called",
                        f"write {pattern.object} {names.short(self.property)} {pattern.subject}, or rename {end}",
                    )
                    break


@dataclass(frozen=True, slots=True)
class Reach:
    """`reach`: the end of a property leads to none of some values over a path. `path`: properties from that end on."""

    property: str
    at_subject: bool
    path: tuple[str, ...]
    values: frozenset[str]

    def findings(self, query: ParsedQuery, names: Names, schema: Mapping[str, Term]) -> Iterator[Finding]:
        for pattern in query.patterns:
            if pattern.predicate != self.property:
                continue
            end, other = (pattern.subject, pattern.object) if self.at_subject else (pattern.object, pattern.subject)
            ends = {end}
            for step in self.path:
                ends = {one.object for one in query.patterns if one.predicate == step and one.subject in ends}
            for value in sorted(ends & self.values):
                yield Finding(
                    f"{end} leads to {names.short(value)}, which the {'subject' if self.at_subject else 'object'} of "
                    f"{names.short(self.property)} does not ({names.pattern(pattern)})",
                    f"turn the pattern round: {other} and {end} change places"
                    if is_variable(other)
                    else f"use another resource in place of {names.short(value)}",
                )


@dataclass(frozen=True, slots=True)
class Values:
    """`values`: the IRIs that an end of a property has in the data. `prefix`: how those begin that are meant; an end that
    is another IRI is none of them, and one of them at the other end is the wrong way round."""

    property: str
    at_subject: bool
    only: tuple[str, ...]

    def findings(self, query: ParsedQuery, names: Names, schema: Mapping[str, Term]) -> Iterator[Finding]:
        for pattern in query.patterns:
            if pattern.predicate != self.property:
                continue
            end, other = (pattern.subject, pattern.object) if self.at_subject else (pattern.object, pattern.subject)
            if iri_of(other) is not None and iri_of(end) is None:
                yield Finding(
                    f"{names.short(other)} is at the wrong end of {names.short(self.property)} ({names.pattern(pattern)})",
                    f"write {pattern.object} {names.short(self.property)} {names.short(pattern.subject)}",
                )
            elif iri_of(end) is not None and end not in self.only:
                yield Finding(
                    f"{names.short(self.property)} has no {'subject' if self.at_subject else 'value'} {names.short(end)}",
                    f"use one of {', '.join(map(names.short, self.only))}",
                )


@dataclass(frozen=True, slots=True)
class Once:
    """`once`: a subject has one value of a property alone: for two values, there are two subjects."""

    property: str
    why: str

    def findings(self, query: ParsedQuery, names: Names, schema: Mapping[str, Term]) -> Iterator[Finding]:
        seen: dict[str, list[Pattern]] = {}
        for pattern in query.patterns:
            if pattern.predicate != self.property or not query.has_to_match(pattern.group):
                continue
            for other in seen.setdefault(pattern.subject, []):
                if other.object != pattern.object and not _apart(query, other.group, pattern.group):
                    yield Finding(
                        f"{pattern.subject} has two values of {names.short(self.property)}, {other.object} and "
                        f"{pattern.object}: {self.why}",
                        f"use another variable in place of {pattern.subject} for one of them",
                    )
            seen[pattern.subject].append(pattern)


def _apart(query: ParsedQuery, one: int, other: int) -> bool:
    """Return whether two groups are in different branches of one UNION."""
    branches = {group.union: group.number for group in query.around(one) if group.union is not None}
    return any(branches.get(group.union, group.number) != group.number for group in query.around(other) if group.union)
