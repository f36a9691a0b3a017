"""Facts of an index for people and assistants, without a model: walked from name to name, and checked."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from refactx.errors import InputError
from refactx.fact import Fact, Link, LinkedFact, Qualifiers, qualifiers_of, split_fact, verbalise, written_part
from refactx.index.index import Index
from refactx.linking import LinkedName, Suggestion, alike, named_among
from refactx.walks import TreeFacts

NEAR = 5
"""The most names that are like one that the index does not have."""
MOST = 100
"""The most facts of a text that are checked."""
NEAREST = 5
READ = 200
"""The most objects that are compared with one."""
_FACT = re.compile(
    r"(?P<fact><[^<>]+>(?:\s+<[^<>]+>){2})(?:(?P<pairs>(?:[ \t]+<[^<>]+>[ \t]+<[^<>]+>)+)(?![ \t]*<))?(?:\s*\.)?"
)
"""A fact in a text: its qualifiers stand in its line, and nothing else in brackets after them."""


@dataclass(frozen=True, slots=True)
class Property:
    """A predicate of a subject, with the number of its facts; `inverse`: it reads its property backwards."""

    predicate: Link
    inverse: bool
    facts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Browsed:
    """What was found. `completions`: texts that begin with a prefix, with their numbers of facts, those with most first.

    `properties`: of the subject; `facts`: with their ids; `near`: if the index has no such subject, or the subject no such
    predicate, names like it; `truncated`: whether there is more; `resolved`: the label or alias that was given for the
    subject, if it is no name of the index or that of others too.
    """

    subject: Link | None = None
    completions: Sequence[tuple[str, int]] = ()
    properties: Sequence[Property] = ()
    facts: Sequence[tuple[Fact, LinkedFact]] = ()
    near: Sequence[Suggestion] = ()
    truncated: bool = False
    resolved: LinkedName | None = None


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
    asked = facts.linker.predicate(predicate) if predicate else None
    meant = facts.linker.entity(subject, () if asked is None else (asked.name,))
    if meant is None or not facts.predicates(meant.name):
        link = index.link(subject, facts.ids([subject]).get(subject))
        return Browsed(subject=link, near=facts.linker.suggestions(subject, NEAR))
    subject = meant.name
    counts = facts.predicates(subject)
    link = index.link(subject, facts.ids([subject]).get(subject))
    predicate = _own_predicate(facts, predicate, subject) if predicate else ""
    names = [predicate] if predicate else list(counts)
    described = facts.describe(names)
    properties = [
        Property(
            index.link(name, described[name].id if name in described else None),
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
        near=[Suggestion(one) for one in alike(predicate, counts, NEAR)] if predicate not in ("", *counts) else (),
        truncated=len(some) > limit or len(properties) > limit,
        resolved=None if meant.is_as_written else meant,
    )


def _own_predicate(facts: TreeFacts, predicate: str, subject: str) -> str:
    """Return the predicate that a name means for a subject; the name itself if it means none."""
    found = facts.linker.predicate(predicate, [subject])
    return predicate if found is None else found.name


def _as_meant(facts: TreeFacts, subject: str, predicate: str, value: str) -> tuple[str, str, str]:
    """Return a fact in the index's own names, as far as its parts are names that people write for them."""
    known = facts.linker.predicate(predicate)
    meant = facts.linker.entity(subject, (predicate if known is None else known.name,))
    if meant is None:
        return subject, predicate, value
    predicate = _own_predicate(facts, predicate, meant.name)
    values = (one for _, one in islice(facts.objects([meant.name], predicate), READ))
    return meant.name, predicate, named_among(value, values) or value


def _facts(facts: TreeFacts, subject: str, predicates: Sequence[str]) -> Iterator[Fact]:
    """Yield the facts of a subject with some predicates, while they are taken; of a plain fact that others continue, these."""
    for predicate in predicates:
        if not facts.has_statements:
            yield from (fact_of(subject, predicate, value) for _, value in facts.objects([subject], predicate))
            continue
        plain: Fact | None = None
        for _, value, qualifiers in facts.statements([subject], predicate):
            if plain is not None and (not qualifiers or plain.object != value):
                yield plain
            plain = None if qualifiers else fact_of(subject, predicate, value)
            if qualifiers:
                yield fact_of(subject, predicate, value, qualifiers)
        if plain is not None:
            yield plain


def fact_of(subject: str, predicate: str, value: str, qualifiers: Qualifiers = ()) -> Fact:
    """Return a fact that stands in no text.

    >>> fact_of("Alaska", "capital", "Juneau").text
    '<Alaska> <capital> <Juneau> .'
    """
    text = f"{verbalise(subject, predicate, value, qualifiers).lstrip()} ."
    return Fact(subject, predicate, value, text, (0, 0), qualifiers)


@dataclass(frozen=True, slots=True)
class Checked:
    """A fact in a text. `start`, `stop`: where it stands, in code points; `exists`: whether the index has it; `linked`: it
    with its ids; `nearest`: if it does not exist, facts of the index that are like it, the most similar first."""

    fact: Fact
    start: int
    stop: int
    exists: bool
    linked: LinkedFact
    nearest: Sequence[tuple[Fact, LinkedFact]]


def check_text(index: Index, facts: TreeFacts, text: str) -> list[Checked]:
    """Return each fact in a text, `<subject> <predicate> <object>` with or without qualifiers and its terminator; at most
    `MOST`.

    One whose names are as people write them, not as the index does, is returned as the index has it.

    `facts`: those of the index. Raises as `Index.children` does.
    """
    found = []
    for match in islice(_FACT.finditer(text), MOST):
        subject, predicate, value = map(written_part, split_fact(match["fact"]) or ("", "", ""))
        if not (subject and predicate and value):
            continue
        qualifiers = qualifiers_of(match[0])
        fact = fact_of(subject, predicate, value, qualifiers)
        exists = fact.text in index
        if not exists:
            meant = fact_of(*_as_meant(facts, subject, predicate, value), qualifiers)
            exists = meant.text in index
            fact = meant if exists or qualifiers else fact
        near = [] if exists else list(islice(_nearest(facts, fact), NEAREST))
        linked = list(index.links_of([fact, *near]))
        pairs = list(zip(near, linked[1:], strict=True))
        found.append(Checked(fact, match.start(), match.end(), exists, linked[0], pairs))
    return found


def _nearest(facts: TreeFacts, fact: Fact) -> Iterator[Fact]:
    """Yield facts like one: with other qualifiers, or else another object, predicate or subject."""
    if fact.qualifiers and (near := facts.qualifiers(fact.subject, fact.predicate, fact.object)):
        for qualifiers in sorted(near, key=lambda one: -len({*one} & {*fact.qualifiers})):
            yield fact_of(fact.subject, fact.predicate, fact.object, qualifiers)
        return
    own = facts.predicates(fact.subject)
    if own:
        for predicate in alike(fact.predicate, own, least=0):
            objects = [value for _, value in islice(facts.objects([fact.subject], predicate), READ)]
            for value in alike(fact.object, objects, least=0) if predicate == fact.predicate else objects[:1]:
                yield fact_of(fact.subject, predicate, value)
        return
    for subject in (one.name for one in facts.linker.suggestions(fact.subject, NEAREST)):
        for predicate in alike(fact.predicate, facts.predicates(subject), 1, least=0):
            objects = [value for _, value in islice(facts.objects([subject], predicate), READ)]
            for value in alike(fact.object, objects, 1, least=0):
                yield fact_of(subject, predicate, value)
