"""Questions for all objects of a subject and a predicate, drawn from the facts of an index."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from refactx.fact import ALIAS_OF, DESCRIPTIONS, split_fact
from refactx.index.index import Index
from refactx.linking.names import bare_name
from refactx.walks.language import TERMINATOR, FactSet, Hop, Query, QueryError, write_line
from refactx.walks.sparql_text import to_sparql

SMALLEST, LARGEST = 25, 1000
"""How many values a question has."""

DRAWS = 2000
"""The most facts that are drawn for each question: an index of small lists has none."""

_FORWARDS = (
    "What are all {predicate} of {subject}?",
    "List every {predicate} of {subject}.",
    "Give me the complete list: {predicate} of {subject}.",
)
_BACKWARDS = ("What is {subject} the {predicate}?", "List all that {subject} is the {predicate}.")
"""For predicates such as `director of`."""


@dataclass(frozen=True, slots=True)
class ListQuestion:
    """A question for all objects of a subject and a predicate. `values`: these, as names of the index or literals."""

    text: str
    subject: str
    predicate: str
    values: tuple[str, ...]

    @property
    def query(self) -> Query:
        """The gold walk."""
        return Query("list", self.subject, (Hop(self.predicate),))


def draw_questions(index: Index, facts: FactSet, count: int, seed: int) -> list[ListQuestion]:
    """Return at most `count` questions. A pair's chance is its share of the facts.

    The values are read by completing the text of a fact, and not by the walks that the questions measure.
    """
    chance, found = random.Random(seed), dict[tuple[str, str], ListQuestion | None]()
    questions = list[ListQuestion]()
    for subject, predicate in _pairs(index, chance, DRAWS * count):
        if len(questions) == count:
            break
        if (subject, predicate) in found:
            continue
        found[subject, predicate] = None
        if SMALLEST <= facts.counts([subject], predicate)[0] <= LARGEST:
            values = tuple(_values(index, subject, predicate))
            template = chance.choice(_BACKWARDS if predicate.endswith((" of", " by", " in", " for")) else _FORWARDS)
            text = template.format(
                subject=bare_name(subject), predicate=predicate.removeprefix("has ").removesuffix(" (inverse)")
            )
            questions.append(ListQuestion(text, subject, predicate, values))
    return questions


def record_of(question: ListQuestion, facts: FactSet) -> dict[str, Any]:
    """Return a question in the format of `refactx eval`, with its walk."""
    ids = facts.ids([question.subject, question.predicate, *question.values])
    try:
        sparql = to_sparql(question.query, facts)
    except QueryError:  # a name without an id
        sparql = ""
    return {
        "id": f"list-{ids.get(question.subject, question.subject)}-{question.predicate}",
        "source": "generated",
        "question": question.text,
        "answers": list(dict.fromkeys(bare_name(value) for value in question.values)),
        "answer_ids": [ids[value] for value in question.values if value in ids],
        "kind": "list",
        "sparql": sparql,
        "walk": f"{write_line(question.query)}{TERMINATOR}",
    }


def _pairs(index: Index, chance: random.Random, most: int) -> Iterator[tuple[str, str]]:
    """Yield subjects and predicates of random facts: a child is chosen in proportion to its leaves."""
    for _ in range(most):
        prefix: tuple[int, ...] = ()
        while True:
            below = index.children(prefix)
            at = chance.randrange(below.total) - below.terminal
            if at < 0:
                break
            prefix = (*prefix, int(below.tokens[int((below.leaves.cumsum() > at).argmax())]))
        parts = split_fact(f"{index.tokenizer.decode(prefix)} .")
        if parts is not None and parts[1] not in (*DESCRIPTIONS, ALIAS_OF):
            yield parts[0], parts[1]


def _values(index: Index, subject: str, predicate: str) -> Sequence[str]:
    facts = (split_fact(f"{text} .") for text, _ in index.complete(f"<{subject}> <{predicate}> <", LARGEST + 1))
    return [fact[2] for fact in facts if fact is not None]
