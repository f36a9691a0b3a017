"""What a rule is: text for a prompt, and checks of a parsed query."""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from refactx.nl2sparql.parsed import ParsedQuery, Pattern, iri_of


class Term(Protocol):
    """What checks know of a class or property: IRIs of its domain, range and parents."""

    @property
    def domain(self) -> tuple[str, ...]: ...
    @property
    def range(self) -> tuple[str, ...]: ...
    @property
    def parents(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong. `text`: what was found and what is expected; `hint`: what to do."""

    text: str
    hint: str


@dataclass(frozen=True, slots=True)
class Names:
    """Names of a pack, for messages. `prefixes`: IRIs by prefix; `places`: names of graphs and services by IRI."""

    prefixes: Mapping[str, str]
    places: Mapping[str, str]

    def short(self, term: str) -> str:
        """Return a term as a query of the pack would have it.

        >>> Names({"ex": "http://e.org/"}, {}).short("<http://e.org/a>")
        'ex:a'
        """
        iri = iri_of(term)
        fitting = [(len(base), prefix) for prefix, base in self.prefixes.items() if iri and iri.startswith(base)]
        if iri is None or not fitting:
            return "a blank node" if term.startswith("_:") else term
        length, prefix = max(fitting)
        return f"{prefix}:{iri[length:]}"

    def pattern(self, pattern: Pattern) -> str:
        """Return a pattern as a query of the pack would have it, with `[]` for what has no name."""
        terms = ("[]" if term.startswith("_:") else self.short(term) for term in pattern.terms)
        return " ".join(terms)

    def place(self, term: str | None, kind: str = "GRAPH") -> str:
        """Return where a pattern stands: `GRAPH <...>`."""
        return "outside of any GRAPH" if term is None else f"{kind} {term}"


class Check(Protocol):
    """A check of one kind."""

    def findings(self, query: ParsedQuery, names: Names, schema: Mapping[str, Term]) -> Iterator[Finding]:
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
    names: Names = Names({}, {})

    def applies_to(self, patterns: Container[str]) -> bool:
        """Return whether the prompt for a question with some patterns has the text.

        >>> rule = Rule(id="r", text="...", patterns=("TRANSLATION",))
        >>> rule.applies_to({"TRANSLATION": 0.9}), rule.applies_to({})
        (True, False)
        """
        return not self.patterns or any(name in patterns for name in self.patterns)

    def findings(self, query: ParsedQuery, schema: Mapping[str, Term]) -> Iterator[Finding]:
        """Yield what is wrong in a query by this rule, each once. `schema`: the pack's terms, by IRI."""
        found = (one for check in self.checks for one in check.findings(query, self.names, schema))
        yield from dict.fromkeys(found)
