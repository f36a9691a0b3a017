"""Checks of where patterns stand: in which GRAPH, in which SERVICE, or in neither."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from refactx.nl2sparql.parsed import ParsedQuery, Pattern, is_variable
from refactx.nl2sparql.rules.matching import Wanted
from refactx.nl2sparql.rules.rule import Finding, Names, Term


@dataclass(frozen=True, slots=True)
class Place:
    """`place`: patterns with these properties or classes stand only in some places. `graphs`, `services`: their terms;
    `outside`: whether they may stand outside of GRAPH and SERVICE; `never`: whether these are the places where they may
    not stand."""

    wanted: Wanted
    graphs: frozenset[str]
    services: frozenset[str]
    outside: bool
    never: bool = False

    def findings(self, query: ParsedQuery, names: Names, schema: Mapping[str, Term]) -> Iterator[Finding]:
        for pattern in query.patterns:
            name = self.wanted.name_of(pattern)
            if name is not None and not self._is_right(pattern):
                found = names.place(pattern.service, "SERVICE") if pattern.service else names.place(pattern.graph)
                yield Finding(
                    f"{names.short(name)} stands {'in ' if found[0].isupper() else ''}{found} ({names.pattern(pattern)}), "
                    f"where the data has none",
                    self._hint(names.short(name), names, pattern),
                )

    def _is_right(self, pattern: Pattern) -> bool:
        if pattern.service is not None:
            is_there = is_variable(pattern.service) or pattern.service in self.services
        elif pattern.graph is not None:
            is_there = is_variable(pattern.graph) or pattern.graph in self.graphs
        else:
            is_there = self.outside
        return is_there != self.never

    def _hint(self, name: str, names: Names, pattern: Pattern) -> str:
        if self.never:
            return f"move the pattern with {name} out of {pattern.service or pattern.graph or 'there'}"
        blocks = [f"GRAPH {term} {{ ... }}" for term in sorted(self.graphs)]
        blocks += [f"SERVICE {term} {{ ... }}" for term in sorted(self.services)]
        ways = [f"in {' or '.join(blocks)}"] if blocks else []
        return f"write {name} {' or '.join([*ways, *(['outside of GRAPH and SERVICE'] if self.outside else [])])}"


@dataclass(frozen=True, slots=True)
class NoGraph:
    """`no_graph`: a SERVICE has no GRAPH within it."""

    service: str

    def findings(self, query: ParsedQuery, names: Names, schema: Mapping[str, Term]) -> Iterator[Finding]:
        for group in query.groups:
            if group.kind == "graph" and group.service == self.service:
                yield Finding(
                    f"SERVICE {self.service} has GRAPH {group.graph} within it, and there are no such graphs there",
                    "leave the GRAPH out, or move it out of the SERVICE",
                )


@dataclass(frozen=True, slots=True)
class Shared:
    """`shared`: a SERVICE shares a variable with what stands outside of it, or its rows have nothing to do with the rest."""

    service: str

    def findings(self, query: ParsedQuery, names: Names, schema: Mapping[str, Term]) -> Iterator[Finding]:
        inside = {end for one in query.patterns if one.service == self.service for end in one.ends}
        others = [one for one in query.patterns if one.service != self.service]
        outside = {end for one in others for end in one.ends}
        if inside and others and not any(is_variable(end) for end in inside & outside):
            yield Finding(
                f"SERVICE {self.service} shares no variable with the patterns outside of it",
                "use a variable of the SERVICE outside of it as well: resources have the same IRI in both",
            )
