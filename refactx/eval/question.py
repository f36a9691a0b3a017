"""Questions of an evaluation: a text, its gold answers, and the half of a question set to which it belongs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Literal

from refactx.errors import InputError
from refactx.eval.answers import Gold

Split = Literal["all", "tune", "report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question and its gold answers.

    `kind`: its category in the data set (`single`, `multi`, `count`, ...). `answer_ids`: ids of the answers, in any
    order, for answers whose `Gold` has none. `sparql`: the gold query, empty if there is none. `first`: the gold answer
    that comes first, if they have an order, as those of superlatives do; else empty. `key`: unique in a run;
    the id, or `source/id` if an id occurs twice (see `assign_keys`).
    """

    id: str
    source: str
    text: str
    answers: tuple[Gold, ...]
    kind: str = "all"
    answer_ids: tuple[str, ...] = ()
    sparql: str = ""
    first: str = ""
    key: str = ""


def hash_of(question: Question) -> bytes:
    """Return the SHA-256 of the id, which decides the order and the half."""
    return sha256(question.id.encode()).digest()


def half_of(question: Question) -> Split:
    """Return the half to which a question belongs.

    >>> half_of(Question(id="WebQTrn-13", source="wwq/train", text="Which countries border the US?", answers=()))
    'report'
    """
    return "tune" if hash_of(question)[-1] % 2 == 0 else "report"


def assign_keys(questions: Sequence[Question]) -> list[Question]:
    """Return the questions with their keys. Raise InputError if two have the same source and id."""
    ids = Counter(question.id for question in questions)
    named = [replace(q, key=q.id if ids[q.id] == 1 else f"{q.source}/{q.id}") for q in questions]
    twice = [key for key, n in Counter(q.key for q in named).items() if n > 1]
    if twice:
        raise InputError(f"{len(twice)} ids occur twice, such as {twice[0]!r}: give each question an id of its own")
    return named
