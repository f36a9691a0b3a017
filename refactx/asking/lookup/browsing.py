"""What an index has below a prefix, a subject, or a subject and a predicate."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from refactx.asking.answer import fact_json
from refactx.errors import InputError
from refactx.fact import Fact, Link, LinkedFact, verbalise, written_part
from refactx.index.index import Index
from refactx.query import TreeFacts

NEAR = 5
"""The most names that are like one that the index does not have."""


@dataclass(frozen=True, slots=True)
class Property:
    """A predicate of a subject, with the number of its facts; `inverse`: it reads its property backwards."""

    predicate: Link
    inverse: bool
    facts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Browsed:
    """What was found. `completions`: texts that begin with a prefix, with their numbers of facts, those with most first.

    `properties`: of the subject; `facts`: with their ids; `near`: if the index has no such subject, names like it;
    `truncated`: whether there is more.
    """

    subject: Link | None = None
    completions: Sequence[tuple[str, int]] = ()
    properties: Sequence[Property] = ()
    facts: Sequence[tuple[Fact, LinkedFact]] = ()
    near: Sequence[str] = ()
    truncated: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return what was found as a document."""
        return {
            "subject": None if self.subject is None else _link(self.subject),
            "completions": [{"text": text, "facts": count} for text, count in self.completions],
            "properties": [
                {**_link(one.predicate), "inverse": one.inverse, "facts": one.facts} for one in self.properties
            ],
            "facts": [fact_json(fact, linked) for fact, linked in self.facts],
            "near": list(self.near),
            "truncated": self.truncated,
        }


def browse(
    index: Index, facts: TreeFacts, *, prefix: str = "", subject: str = "", predicate: str = "", limit: int = 20
) -> Browsed:
    """Return what an index has. `facts`: those of the index; `limit`: the most completions, properties and facts each.

    `prefix`: the beginning of a fact, such as `<Danny Boyle> <`; or else a `subject`, and maybe a `predicate`. Raises
    InputError for a prefix together with one of the others, and as `Index.children` does.
    """
    subject, predicate = written_part(subject), written_part(predicate)
    if (prefix and (subject or predicate)) or (predicate and not subject):
        raise InputError("give a prefix, or a subject, or a subject with a predicate")
    if not subject:
        found = index.complete(prefix or "<", limit + 1)
        return Browsed(completions=found[:limit], truncated=len(found) > limit)
    counts = facts.predicates(subject)
    link = Link(subject, facts.ids([subject]).get(subject))
    if not counts:
        return Browsed(subject=link, near=facts.near(subject, NEAR))
    names = [predicate] if predicate else list(counts)
    described = facts.describe(names)
    properties = [
        Property(
            Link(name, described[name].id if name in described else None),
            name in described and described[name].inverse,
            counts.get(name, 0),
        )
        for name in names
    ]
    some = list(islice(_facts(facts, subject, names), limit + 1))
    linked = list(index.links_of(some[:limit]))
    return Browsed(
        subject=link,
        properties=properties[:limit],
        facts=list(zip(some[:limit], linked, strict=True)),
        truncated=len(some) > limit or len(properties) > limit,
    )


def _facts(facts: TreeFacts, subject: str, predicates: Sequence[str]) -> Iterator[Fact]:
    """Yield the facts of a subject with some predicates, while they are taken."""
    for predicate in predicates:
        for _, value in facts.objects([subject], predicate):
            yield fact_of(subject, predicate, value)


def fact_of(subject: str, predicate: str, value: str) -> Fact:
    """Return a fact that stands in no text.

    >>> fact_of("Alaska", "capital", "Juneau").text
    '<Alaska> <capital> <Juneau> .'
    """
    return Fact(subject, predicate, value, f"{verbalise(subject, predicate, value).lstrip()} .", (0, 0))


def _link(link: Link) -> dict[str, str | None]:
    return {"label": link.label, "id": link.id, "url": link.url}
