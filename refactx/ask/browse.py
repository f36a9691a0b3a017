"""Facts of an index for people and assistants, without a model: walked from name to name, checked, and as example questions."""

import difflib
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from threading import Lock
from typing import Any

from refactx.ask.answer import fact_json
from refactx.errors import InputError
from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS, Fact, Link, LinkedFact, verbalise, written_part
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
    link = index.link(subject, facts.ids([subject]).get(subject))
    if not counts:
        return Browsed(subject=link, near=facts.near(subject, NEAR))
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


MOST = 100
"""The most facts of a text that are checked."""
NEAREST = 5
READ = 200
"""The most objects that are compared with one."""
_FACT = re.compile(r"<([^<>]+)>\s+<([^<>]+)>\s+<([^<>]+)>(?:\s*\.)?")


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

    def to_json(self) -> dict[str, Any]:
        """Return the check as a document."""
        return {
            "fact": fact_json(self.fact, self.linked),
            "span": [self.start, self.stop],
            "exists": self.exists,
            "nearest": [fact_json(fact, linked) for fact, linked in self.nearest],
        }


def check_text(index: Index, facts: TreeFacts, text: str) -> list[Checked]:
    """Return each fact in a text, `<subject> <predicate> <object>` with or without its terminator; at most `MOST`.

    `facts`: those of the index. Raises as `Index.children` does.
    """
    found = []
    for match in islice(_FACT.finditer(text), MOST):
        subject, predicate, value = (written_part(part) for part in match.groups())
        if not (subject and predicate and value):
            continue
        fact = fact_of(subject, predicate, value)
        (exists,) = facts.hold([(subject, predicate, value)])
        near = [] if exists else list(islice(_nearest(facts, fact), NEAREST))
        linked = list(index.links_of([fact, *near]))
        pairs = list(zip(near, linked[1:], strict=True))
        found.append(Checked(fact, match.start(), match.end(), exists, linked[0], pairs))
    return found


def _nearest(facts: TreeFacts, fact: Fact) -> Iterator[Fact]:
    """Yield facts like one: with another object, or else another predicate, or else another subject."""
    own = facts.predicates(fact.subject)
    if own:
        for predicate in _like(fact.predicate, list(own)):
            objects = [value for _, value in islice(facts.objects([fact.subject], predicate), READ)]
            for value in _like(fact.object, objects) if predicate == fact.predicate else objects[:1]:
                yield fact_of(fact.subject, predicate, value)
        return
    for subject in facts.near(fact.subject, NEAREST):
        for predicate in _like(fact.predicate, list(facts.predicates(subject)))[:1]:
            objects = [value for _, value in islice(facts.objects([subject], predicate), READ)]
            for value in _like(fact.object, objects)[:1]:
                yield fact_of(subject, predicate, value)


def _like(name: str, names: Sequence[str]) -> list[str]:
    """Return names, those most like one first.

    >>> _like("capitol", ["mayor", "capital"])
    ['capital', 'mayor']
    """
    matcher = difflib.SequenceMatcher(b=name.casefold())

    def likeness(other: str) -> float:
        matcher.set_seq1(other.casefold())
        return -matcher.ratio()

    return sorted(names, key=likeness)


SUBJECTS = 300
"""The subjects with most facts, among which examples are chosen: people know them."""
FEW = 3
"""The most facts that answer a question for one thing."""

_BY_PROPERTY = {
    ("P6", False): "Who is the head of government of {}?",
    ("P19", False): "Where was {} born?",
    ("P22", False): "Who is the father of {}?",
    ("P26", False): "Who is the spouse of {}?",
    ("P30", False): "On which continent is {}?",
    ("P35", False): "Who is the head of state of {}?",
    ("P36", False): "What is the capital of {}?",
    ("P38", False): "What is the currency of {}?",
    ("P50", False): "Who wrote {}?",
    ("P57", False): "Who directed {}?",
    ("P69", False): "Where did {} study?",
    ("P86", False): "Who composed the music of {}?",
    ("P112", False): "Who founded {}?",
    ("P138", False): "What is {} named after?",
    ("P159", False): "Where are the headquarters of {}?",
    ("P169", False): "Who is the chief executive officer of {}?",
    ("P170", False): "Who created {}?",
    ("P403", False): "Where does {} flow into?",
    ("P569", False): "When was {} born?",
    ("P570", False): "When did {} die?",
    ("P610", False): "What is the highest point of {}?",
    ("P1082", False): "What is the population of {}?",
}
"""Questions for properties of Wikidata; True: for a property that is read backwards."""
_MANY = {
    ("P40", False): "How many children does {} have?",
    ("P50", True): "Which books did {} write?",
    ("P57", True): "How many films did {} direct?",
    ("P166", False): "Which awards did {} receive?",
    ("P800", False): "What are the notable works of {}?",
}
"""Questions whose answers are sets."""
_NO_NOUN = re.compile(
    r"(?i)^(?:has|is|was|are|instance|subclass|described|different)\b|\b(?:of|in|by|to|at|for|from|on|as|with)$"
)


@dataclass(frozen=True, slots=True)
class Example:
    """A question, and the subject and predicate of the facts that answer it."""

    question: str
    subject: str
    predicate: str

    def to_json(self) -> dict[str, str]:
        """Return the example as a document."""
        return {"question": self.question, "subject": self.subject, "predicate": self.predicate}


class Examples:
    """Examples from one index. `facts`: those of the index. It is safe to share between threads."""

    def __init__(self, index: Index, facts: TreeFacts) -> None:
        self._index, self._facts, self._reading = index, facts, Lock()
        self._known: dict[str, list[tuple[bool, Example]]] = {}

    def some(self, limit: int, seed: int | None = None) -> list[Example]:
        """Return at most `limit` questions about different subjects, each for another predicate; none if the names are in
        another language than English, in which the questions are.

        `seed`: the same one chooses the same examples of an unchanged index. Those for well-known properties come first.
        Raises as `Index.children` does.
        """
        languages = (self._index.entry.report.get("selection") or {}).get("languages") or ["en"]
        if next((one for one in languages if one != "mul"), "en").partition("-")[0] != "en":
            return []
        chance = random.Random(seed)  # noqa: S311 - not for secrets
        subjects = list(self._subjects)
        chance.shuffle(subjects)
        found: dict[str, Example] = {}
        spare: dict[str, Example] = {}
        for subject in subjects:
            if len(found) >= limit:
                break
            questions = list(self._asked(subject))
            chance.shuffle(questions)
            for is_known, example in questions:
                chosen = found if is_known else spare
                if example.predicate not in chosen:
                    chosen[example.predicate] = example
                    break
        of_subjects = {example.subject for example in found.values()}
        more = [example for example in spare.values() if example.subject not in of_subjects]
        return [*found.values(), *more][:limit]

    @property
    def _subjects(self) -> list[str]:
        with self._reading:
            return self._widest

    @cached_property
    def _widest(self) -> list[str]:
        """The subjects with most facts whose plain names are clear."""
        names = [text.removeprefix("<").removesuffix(">") for text, _ in self._index.complete("<", SUBJECTS)]
        return [name for name in names if not name.endswith(ALIAS)]

    def _asked(self, subject: str) -> list[tuple[bool, Example]]:
        if subject not in self._known:
            self._known[subject] = list(self._questions(subject))
        return self._known[subject]

    def _questions(self, subject: str) -> Iterator[tuple[bool, Example]]:
        """Yield questions about a subject, and whether each is for a well-known property."""
        name = plain_name(subject)
        if name != subject and len(self._index.complete(f"<{name} (", 2)) > 1:
            return  # two things have this name
        counts = self._facts.predicates(subject)
        described = self._facts.describe(list(counts))
        for predicate, count in counts.items():
            known = described.get(predicate)
            key = (known.id or "", known.inverse) if known else ("", False)
            template = (_BY_PROPERTY if count <= FEW else _MANY).get(key)
            if template:
                yield True, Example(template.format(name), subject, predicate)
            elif count <= FEW and not key[1] and is_noun(predicate):
                yield False, Example(f"What is the {predicate} of {name}?", subject, predicate)


def plain_name(name: str) -> str:
    """Return the name of an entity without its description.

    >>> plain_name("Alaska (state of the United States of America)"), plain_name("(500) Days")
    ('Alaska', '(500) Days')
    """
    if not name.endswith(")"):
        return name
    depth = 0
    for at in range(len(name) - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(name[at], 0)
        if not depth:
            return name[:at].rstrip() or name
    return name


def is_noun(predicate: str) -> bool:
    """Return whether "What is the ... of ...?" may be asked with a predicate.

    >>> is_noun("official language"), is_noun("located in"), is_noun("has part"), is_noun("description")
    (True, False, False, False)
    """
    return predicate not in (*DESCRIPTIONS, ALIAS_OF) and not _NO_NOUN.search(predicate)
