"""Which facts in a text an index has; for one that it does not have, the nearest that it has."""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from refactx.asking.answer import fact_json
from refactx.asking.lookup.browsing import fact_of
from refactx.fact import Fact, LinkedFact, written_part
from refactx.index.index import Index
from refactx.query import TreeFacts

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
