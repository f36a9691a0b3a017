"""Rules: texts for a prompt, and the checks of a parsed query."""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple, Protocol, TypeAlias

from refactx.sparql.syntax.view import (
    CallView,
    PatternView,
    QueryView,
    iri_of,
    is_blank,
    is_literal,
    is_variable,
    parts,
    variables,
)

TermKind = Literal["class", "property", "individual"]
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
LITERAL = "literal"
"""The kind of literals, in place of a class."""
_DATATYPES = ("http://www.w3.org/2001/XMLSchema#", "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString")
_Kinds: TypeAlias = dict[str, dict[str, PatternView]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaTerm:
    """A class, property or well-known individual of an endpoint. `labels`: by language; `domain`, `range`, `parents`:
    IRIs, of which a subject, an object or a superterm has one; empty if unknown; `comment`: what it means."""

    iri: str
    kind: TermKind
    labels: Mapping[str, str] = field(default_factory=dict)
    domain: tuple[str, ...] = ()
    range: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong. `text`: what was found and what is expected; `hint`: what to do."""

    text: str
    hint: str


def shorten(iri: str, prefixes: Mapping[str, str]) -> str:
    """Return an IRI as a prefixed name, by the longest prefix (IRIs by prefix) that fits; in angle brackets if none does.

    >>> shorten("http://e.org/a", {"ex": "http://e.org/"}), shorten("urn:a", {})
    ('ex:a', '<urn:a>')
    """
    fitting = [(len(base), prefix) for prefix, base in prefixes.items() if iri.startswith(base)]
    length, prefix = max(fitting, default=(0, ""))
    local = iri[length:]
    return f"{prefix}:{local}" if fitting and local.replace("_", "").replace("-", "").isalnum() else f"<{iri}>"


@dataclass(frozen=True, slots=True)
class PackNames:
    """Names of a pack, for messages. `prefixes`: IRIs by prefix."""

    prefixes: Mapping[str, str]

    def short(self, term: str) -> str:
        """Return a term as a query of the pack would have it.

        >>> PackNames({"ex": "http://e.org/"}).short("<http://e.org/a>")
        'ex:a'
        """
        if (iri := iri_of(term)) is not None:
            return shorten(iri, self.prefixes)
        return "a blank node" if is_blank(term) else term

    def pattern(self, pattern: PatternView) -> str:
        """Return a pattern as a query of the pack would have it, with `[]` for what has no name."""
        terms = ("[]" if term.startswith("_:") else self.short(term) for term in pattern.terms)
        return " ".join(terms)

    def place(self, term: str | None, kind: str = "GRAPH") -> str:
        """Return where a pattern stands: `GRAPH <...>`."""
        return "outside of any GRAPH" if term is None else f"{kind} {term}"


class Check(Protocol):
    """A check of one kind."""

    def findings(self, query: QueryView, names: PackNames, schema: Mapping[str, SchemaTerm]) -> Iterator[Finding]:
        """Yield what is wrong in a query. `schema`: terms by IRI."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule. `id`: its name; `text`: what a prompt says; `patterns`: those of questions whose prompts have the text, none
    for all prompts; `checks`: what is checked in every query; `names`: the pack's, for messages."""

    id: str
    text: str
    patterns: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    names: PackNames = PackNames({})

    def applies_to(self, patterns: Container[str]) -> bool:
        """Return whether the prompt for a question with some patterns has the text.

        >>> rule = Rule(id="r", text="...", patterns=("TRANSLATION",))
        >>> rule.applies_to({"TRANSLATION": 0.9}), rule.applies_to({})
        (True, False)
        """
        return not self.patterns or any(name in patterns for name in self.patterns)

    def findings(self, query: QueryView, schema: Mapping[str, SchemaTerm]) -> Iterator[Finding]:
        """Yield what is wrong in a query by this rule, each once. `schema`: the pack's terms, by IRI."""
        found = (one for check in self.checks for one in check.findings(query, self.names, schema))
        yield from dict.fromkeys(found)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Names of properties and classes, as terms. One that ends with `*>` stands for all that begin so.

    >>> Wanted(("<http://e.org/a>", "<http://l.org/*>")).has("<http://l.org/Lemma>")
    True
    """

    names: tuple[str, ...]

    def has(self, term: str) -> bool:
        """Return whether a term is one of them."""
        return any(term == name or (name.endswith("*>") and term.startswith(name[:-2])) for name in self.names)

    def name_of(self, pattern: PatternView) -> str | None:
        """Return the property or class by which a pattern is one of these; None if it is not."""
        found = pattern.object if pattern.predicate == TYPE else pattern.predicate
        return found if self.has(found) else None


@dataclass(frozen=True, slots=True)
class Direction:
    """`direction`: the name of a variable tells at which end of a property it stands. `subject`, `object`: such names, in
    lower case, as globs (`hypo*`); one with `subject`'s at the object, or the reverse, is the wrong way round."""

    property: str
    subject: tuple[str, ...]
    object: tuple[str, ...]

    def findings(self, query: QueryView, names: PackNames, schema: Mapping[str, SchemaTerm]) -> Iterator[Finding]:
        for pattern in query.patterns:
            if pattern.predicate != self.property:
                continue
            for end, wrong in ((pattern.subject, self.object), (pattern.object, self.subject)):
                if is_variable(end) and any(fnmatchcase(end[1:].lower(), name) for name in wrong):
                    text = f"{names.pattern(pattern)} is the wrong way round for what {end} is called"
                    hint = f"write {pattern.object} {names.short(self.property)} {pattern.subject}, or rename {end}"
                    yield Finding(text, hint)
                    break


@dataclass(frozen=True, slots=True)
class Reach:
    """`reach`: the end of a property leads to none of some values over a path. `path`: properties from that end on."""

    property: str
    at_subject: bool
    path: tuple[str, ...]
    values: tuple[str, ...]

    def findings(self, query: QueryView, names: PackNames, schema: Mapping[str, SchemaTerm]) -> Iterator[Finding]:
        for pattern, end, other in query.ends_of(self.property, at_subject=self.at_subject):
            ends = {end}
            for step in self.path:
                ends = {one.object for one in query.patterns if one.predicate == step and one.subject in ends}
            for value in sorted(ends & set(self.values)):
                yield Finding(
                    f"{end} leads to {names.short(value)}, which the {'subject' if self.at_subject else 'object'} of "
                    f"{names.short(self.property)} does not ({names.pattern(pattern)})",
                    f"turn the pattern round: {other} and {end} change places"
                    if is_variable(other)
                    else f"use another resource in place of {names.short(value)}",
                )


@dataclass(frozen=True, slots=True)
class EndValues:
    """`values`: the IRIs that an end of a property has in the data. `prefix`: how those begin that are meant; an end that
    is another IRI is none of them, and one of them at the other end is the wrong way round."""

    property: str
    at_subject: bool
    only: tuple[str, ...]

    def findings(self, query: QueryView, names: PackNames, schema: Mapping[str, SchemaTerm]) -> Iterator[Finding]:
        for pattern, end, other in query.ends_of(self.property, at_subject=self.at_subject):
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

    def findings(self, query: QueryView, names: PackNames, schema: Mapping[str, SchemaTerm]) -> Iterator[Finding]:
        seen: dict[str, list[PatternView]] = {}
        for pattern in query.patterns:
            if pattern.predicate != self.property or not query.has_to_match(pattern.group):
                continue
            around = list(query.around(pattern.group))
            for other in seen.setdefault(pattern.subject, []):
                branches = {group.union: group.number for group in query.around(other.group) if group.union is not None}
                is_apart = any(branches.get(one.union, one.number) != one.number for one in around if one.union)
                if other.object != pattern.object and not is_apart:  # in different branches of one UNION
                    yield Finding(
                        f"{pattern.subject} has two values of {names.short(self.property)}, {other.object} and "
                        f"{pattern.object}: {self.why}",
                        f"use another variable in place of {pattern.subject} for one of them",
                    )
            seen[pattern.subject].append(pattern)


@dataclass(frozen=True, slots=True)
class Apart:
    """`apart`: properties of two groups never have the same subject. `unless`: a subject with one of these is let through;
    `why`: what the two are."""

    one: Wanted
    other: Wanted
    unless: Wanted
    why: str

    def findings(self, query: QueryView, names: PackNames, schema: Mapping[str, SchemaTerm]) -> Iterator[Finding]:
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

    def findings(self, query: QueryView, names: PackNames, schema: Mapping[str, SchemaTerm]) -> Iterator[Finding]:
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


class Places(NamedTuple):
    """Places where patterns stand: terms of graphs and of services, and whether `outside` of both is one."""

    graphs: frozenset[str]
    services: frozenset[str]
    outside: bool


@dataclass(frozen=True, slots=True)
class Place:
    """`place`: patterns with these properties or classes stand only in some places, or, if there is `never`, everywhere
    but in these."""

    wanted: Wanted
    only: Places | None
    never: Places | None = None

    def findings(self, query: QueryView, names: PackNames, schema: Mapping[str, SchemaTerm]) -> Iterator[Finding]:
        for pattern in query.patterns:
            name = self.wanted.name_of(pattern)
            if name is not None and not self._is_right(pattern):
                found = names.place(pattern.service, "SERVICE") if pattern.service else names.place(pattern.graph)
                yield Finding(
                    f"{names.short(name)} stands {'in ' if found[0].isupper() else ''}{found} ({names.pattern(pattern)}), "
                    f"where the data has none",
                    self._hint(names.short(name), pattern),
                )

    def _is_right(self, pattern: PatternView) -> bool:
        graphs, services, outside = self.never or self.only or ((), (), True)
        if pattern.service is not None:
            is_there = is_variable(pattern.service) or pattern.service in services
        elif pattern.graph is not None:
            is_there = is_variable(pattern.graph) or pattern.graph in graphs
        else:
            is_there = outside
        return is_there != (self.never is not None)

    def _hint(self, name: str, pattern: PatternView) -> str:
        if self.never or self.only is None:
            return f"move the pattern with {name} out of {pattern.service or pattern.graph or 'there'}"
        blocks = [f"GRAPH {term} {{ ... }}" for term in sorted(self.only.graphs)]
        blocks += [f"SERVICE {term} {{ ... }}" for term in sorted(self.only.services)]
        ways = [f"in {' or '.join(blocks)}"] if blocks else []
        return f"write {name} {' or '.join([*ways, *(['outside of GRAPH and SERVICE'] if self.only.outside else [])])}"


@dataclass(frozen=True, slots=True)
class NoGraph:
    """`no_graph`: a SERVICE has no GRAPH within it."""

    service: str

    def findings(self, query: QueryView, names: PackNames, schema: Mapping[str, SchemaTerm]) -> Iterator[Finding]:
        for group in query.groups:
            if group.kind == "graph" and group.service == self.service:
                text = f"SERVICE {self.service} has GRAPH {group.graph} within it, and there are no such graphs there"
                yield Finding(text, "leave the GRAPH out, or move it out of the SERVICE")


@dataclass(frozen=True, slots=True)
class Shared:
    """`shared`: a SERVICE shares a variable with what stands outside of it, or its rows have nothing to do with the rest."""

    service: str

    def findings(self, query: QueryView, names: PackNames, schema: Mapping[str, SchemaTerm]) -> Iterator[Finding]:
        inside = {end for one in query.patterns if one.service == self.service for end in one.ends}
        others = [one for one in query.patterns if one.service != self.service]
        outside = {end for one in others for end in one.ends}
        if inside and others and not any(is_variable(end) for end in inside & outside):
            text = f"SERVICE {self.service} shares no variable with the patterns outside of it"
            hint = "use a variable of the SERVICE outside of it as well: resources have the same IRI in both"
            yield Finding(text, hint)


@dataclass(frozen=True, slots=True)
class NoLiteral:
    """`no_literal`: a value of these properties is a variable, which a FILTER compares, and not a written text."""

    wanted: Wanted

    def findings(self, query: QueryView, names: PackNames, schema: Mapping[str, SchemaTerm]) -> Iterator[Finding]:
        for pattern in query.patterns:
            if self.wanted.has(pattern.predicate) and is_literal(pattern.object):
                yield Finding(
                    f"{names.short(pattern.predicate)} has the text {pattern.object} as its value, and texts in the data "
                    "may have a language",
                    f"write {names.short(pattern.predicate)} ?text and FILTER(STR(?text) = {pattern.object.split('@')[0]})",
                )


@dataclass(frozen=True, slots=True)
class Compared:
    """`compared`: the text of these properties is compared as STR(?x), and by REGEX with the flag "i" if `any_case`."""

    wanted: Wanted
    any_case: bool

    def findings(self, query: QueryView, names: PackNames, schema: Mapping[str, SchemaTerm]) -> Iterator[Finding]:
        texts = {one.object for one in query.patterns if self.wanted.has(one.predicate)}
        for condition in query.conditions:
            for part in parts(condition.expression):
                if not isinstance(part, CallView):
                    continue
                bare = [one for one in part.arguments if isinstance(one, str) and one in texts]
                plain = [one for one in part.arguments if isinstance(one, str) and one[-1:] == '"']  # no language
                if part.name in ("=", "!=", "IN") and bare and plain:
                    text = f"{bare[0]} is compared with {plain[0]}, and texts in the data may have a language"
                    yield Finding(text, f"write STR({bare[0]}) in place of {bare[0]}")
                if (
                    self.any_case
                    and part.name == "REGEX"
                    and _about(part.arguments[0]) & texts
                    and "i" not in "".join(map(str, part.arguments[2:3]))
                ):
                    yield Finding(
                        f"REGEX looks at {', '.join(sorted(_about(part.arguments[0]) & texts))} in one case alone, and "
                        "labels begin with a capital",
                        'write the flag: REGEX(STR(?x), "...", "i")',
                    )


def _about(argument: object) -> set[str]:
    """Return the variable that is the text of a REGEX, alone or within STR."""
    if isinstance(argument, CallView) and argument.name == "STR":
        return _about(argument.arguments[0])
    return {argument} if isinstance(argument, str) else set()


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

    def findings(self, query: QueryView, names: PackNames, schema: Mapping[str, SchemaTerm]) -> Iterator[Finding]:
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

    def _given(self, pattern: PatternView, schema: Mapping[str, SchemaTerm]) -> Iterator[tuple[str, str]]:
        """Yield the terms of a pattern with the classes that it gives them."""
        if pattern.predicate == TYPE:
            yield pattern.subject, iri_of(pattern.object) or ""
            return
        known = schema.get(iri_of(pattern.predicate) or "")
        if known is not None:
            yield from ((pattern.subject, class_) for class_ in known.domain)
            yield from ((pattern.object, LITERAL if one.startswith(_DATATYPES) else one) for one in known.range)
        for end in self.ends:
            if end.property == pattern.predicate and end.value in ("", pattern.object):
                yield from (
                    (term, one) for term, one in ((pattern.subject, end.subject), (pattern.object, end.object)) if one
                )

    def _kind(self, class_: str, schema: Mapping[str, SchemaTerm]) -> str | None:
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


def _called(kind: str, names: PackNames) -> str:
    return {"literal": "a text or number", "resource": "a resource"}.get(kind) or names.short(f"<{kind}>")
