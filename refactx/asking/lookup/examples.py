"""Questions that facts of an index answer, for people who do not know yet what it has."""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS
from refactx.index.index import Index
from refactx.query import TreeFacts

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
