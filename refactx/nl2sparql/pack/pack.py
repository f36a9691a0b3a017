"""What a pack is: all that translating questions for one SPARQL endpoint needs to know about it, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from refactx.nl2sparql.rules import Rule

THRESHOLD = 0.35
"""The least score of a detected pattern, where a pack says nothing else."""
TermKind = Literal["class", "property", "individual"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A kind of thing that a question asks for, and the words by which it is detected, by language.

    `words`: one of them is enough, and gives the pattern `weight`; `hints`: two different ones are; `unless`: parts of a
    question in which neither is looked for; `phrases`: whole questions, which an encoder compares with the question;
    `implies`: other patterns that come with this one, with the share of its score that they get. A word may end or begin
    with `*`; `...` stands for up to three words, and `^` before the first word for the beginning of the question.
    """

    name: str
    about: str = ""
    weight: float = 1.0
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    hints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unless: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    phrases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    implies: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A question with its query. `variants`: the same question in other words, by language; `patterns`: those that the
    query has, each with how much of it, from 0 to 1."""

    id: str
    question: str
    sparql: str
    variants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    patterns: Mapping[str, float] = field(default_factory=dict)

    @property
    def questions(self) -> tuple[str, ...]:
        """The question and its variants.

        >>> Example(id="1", question="Count", sparql="", variants={"it": ("Conta",)}).questions
        ('Count', 'Conta')
        """
        return (self.question, *(text for texts in self.variants.values() for text in texts))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """A domain pack; `load_pack` returns one.

    `name`, `title`: as people call it; `version`: of the file format; `languages`: of questions, the main one first;
    `endpoint`: its URL, if there is one; `base`: the prompt's text that is always there; `graphs`, `services`,
    `prefixes`: IRIs by name; `gives`: by service, endings of variables to which it gives values; `vocabularies`: prefixes
    whose names are all in `schema`, so that another is a mistake; `threshold`: the least score of a detected pattern;
    `patterns`, `schema`: by name and by IRI; `rules`: what prompts say of the data and what is checked in queries;
    `source`, `licence`: where the data is from; `fingerprint`: equal only for the same files; `folder`: where they are.
    """

    name: str
    title: str
    version: int
    languages: tuple[str, ...]
    base: str
    endpoint: str | None = None
    graphs: Mapping[str, str] = field(default_factory=dict)
    services: Mapping[str, str] = field(default_factory=dict)
    gives: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    prefixes: Mapping[str, str] = field(default_factory=dict)
    vocabularies: tuple[str, ...] = ()
    threshold: float = THRESHOLD
    patterns: Mapping[str, Pattern] = field(default_factory=dict)
    examples: tuple[Example, ...] = ()
    schema: Mapping[str, SchemaTerm] = field(default_factory=dict)
    rules: "tuple[Rule, ...]" = ()
    source: str = ""
    licence: str = ""
    fingerprint: str = ""
    folder: Path | None = None

    def expand(self, name: str) -> str | None:
        """Return the IRI of a prefixed name (`wdt:P31`), or None if the pack has no such prefix.

        >>> Pack(name="x", title="x", version=1, languages=("en",), base="", prefixes={"ex": "http://e.org/"}).expand("ex:a")
        'http://e.org/a'
        """
        prefix, colon, local = name.partition(":")
        return self.prefixes[prefix] + local if colon and prefix in self.prefixes else None

    def shorten(self, iri: str) -> str:
        """Return an IRI as a prefixed name, by the longest prefix that fits; in angle brackets if none does."""
        fitting = [(len(base), prefix) for prefix, base in self.prefixes.items() if iri.startswith(base)]
        if not fitting:
            return f"<{iri}>"
        length, prefix = max(fitting)
        local = iri[length:]
        return f"{prefix}:{local}" if local.replace("_", "").replace("-", "").isalnum() else f"<{iri}>"
