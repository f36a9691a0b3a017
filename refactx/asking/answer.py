"""What a model made of a question, and its form as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from refactx.fact import Fact
from refactx.index.links import Link, LinkedFact

FinishReason = Literal["stop", "length", "interrupted"]

SEPARATOR = ";"
"""Stands between what an answer names, as the prompts' examples have it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model made of a question.

    `text`: all that it wrote, without special tokens. `answer`: what it gave as its final answer, empty if it came to
    none (see `final_answer`). `facts`: the facts it wrote, in order; their `token_span`s count from the start of the
    prompt. `links`: the same facts with their ids. `tokens`: how many ids it generated, the end of sequence included;
    `forward_passes`: how often the model ran; `seconds`: from the question to the answer. (Of a batch, `forward_passes`
    are those of all its rows together, and `seconds` are shared out evenly; threads that share a model count each
    other's passes.) `finish_reason`: the model came to its end, was cut off, or was told to end. `turns_left_out`: so many
    earlier turns of a conversation there was no room for.
    """

    question: str
    answer: str
    text: str
    facts: tuple[Fact, ...]
    links: tuple[LinkedFact, ...]
    tokens: int
    forward_passes: int
    seconds: float
    finish_reason: FinishReason = "stop"
    turns_left_out: int = 0

    def to_json(self) -> dict[str, Any]:
        """The answer as `refactx ask --json` prints it."""
        return {
            "question": self.question,
            "answer": self.answer,
            "text": self.text,
            "facts": [_fact_json(fact, linked) for fact, linked in zip(self.facts, self.links, strict=True)],
            "tokens": self.tokens,
            "forward_passes": self.forward_passes,
            "seconds": round(self.seconds, 3),
            "finish_reason": self.finish_reason,
            "turns_left_out": self.turns_left_out,
        }


def _fact_json(fact: Fact, linked: LinkedFact) -> dict[str, Any]:
    return {
        "text": fact.text,
        "subject": _link_json(linked.subject),
        "predicate": _link_json(linked.predicate),
        "object": _link_json(linked.object) if isinstance(linked.object, Link) else {"literal": linked.object},
        "inverse": linked.inverse,
    }


def _link_json(link: Link) -> dict[str, str | None]:
    return {"label": link.label, "id": link.id, "url": link.url}


def final_answer(text: str, marker: str, facts: Sequence[Fact] = ()) -> str:
    """What stands behind the last `marker` of a text, up to the end of the line; "" if there is none.

    A marker inside one of `facts` doesn't count. Asterisks around the marker or the answer go: chat models set them. What a
    list names several times is named once.

    >>> final_answer("Answer: no\\nSo **Answer:** Bern.\\nDone", "Answer:")
    'Bern.'
    >>> final_answer("Answer: Rome; Oslo; Oslo;", "Answer:")
    'Rome; Oslo'
    """
    for fact in facts:
        text = text.replace(fact.text, "")
    _, found, behind = text.rpartition(marker)
    line = behind.lstrip(" \t*").partition("\n")[0].strip().rstrip("*").rstrip() if found else ""
    named = [name.strip() for name in line.split(SEPARATOR)]
    return (
        line if len(set(named)) == len(named) else f"{SEPARATOR} ".join(name for name in dict.fromkeys(named) if name)
    )
