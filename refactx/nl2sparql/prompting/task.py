"""The conversation that asks a model for the query of a question."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from refactx.fact import clean_part
from refactx.nl2sparql.attempt import Attempt
from refactx.nl2sparql.pack import Pack
from refactx.nl2sparql.prompting.prologue import without_prefixes
from refactx.nl2sparql.prompting.texts import filled, translation_texts
from refactx.nl2sparql.retrieval import Retrieved
from refactx.writing.conversation import Message

ADAPTED = 0.85
"""An example with at least this score is nearly the same question: its query is to be adapted."""
SHOWN_FAILURES = 3
"""The most attempts that are shown again, the last ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a query is to be written for.

    `patterns`: those of the question, with their scores; `examples`: those to follow, the best first; `plan`: steps
    towards the answer; `explored`: properties that the data has there, as prefixed names; `failed`: earlier attempts, in
    order.
    """

    question: str
    patterns: Mapping[str, float] = field(default_factory=dict)
    examples: Sequence[Retrieved] = ()
    plan: Sequence[str] = ()
    explored: Sequence[str] = ()
    failed: Sequence[Attempt] = ()


def conversation(pack: Pack, task: Task) -> list[Message]:
    """Return the messages: what the pack says, the examples as turns, the best one last, the question, and what was
    wrong with the queries before."""
    texts = translation_texts().write
    system = filled(
        texts.system,
        title=pack.title,
        base=pack.base,
        rules="\n".join(f"* {rule.text}" for rule in pack.rules if rule.applies_to(task.patterns)),
        prefixes=", ".join(f"{name}:" for name in pack.prefixes),
    )
    turns = [("system", system)]
    for one in reversed(task.examples):
        turns.append(("user", filled(texts.user, question=one.question)))
        turns.append(("assistant", without_prefixes(one.example.sparql, pack.prefixes)))
    is_near = bool(task.examples) and task.examples[0].score >= ADAPTED
    parts = [filled(texts.adapt if is_near else texts.user, question=clean_part(task.question))]
    if task.plan:
        parts.append(filled(texts.plan, steps="\n".join(f"{n}. {step}" for n, step in enumerate(task.plan, 1))))
    if task.explored:
        parts.append(filled(texts.explored, properties=" ".join(task.explored)))
    turns.append(("user", "\n\n".join(parts)))
    for attempt in task.failed[-SHOWN_FAILURES:]:
        turns.append(("assistant", _written(attempt, pack)))
        problems = "\n".join(f"* {problem}" for problem in attempt.problems)
        turns.append(("user", filled(texts.repair, problems=problems)))
    return [{"role": role, "content": text} for role, text in turns]


def _written(attempt: Attempt, pack: Pack) -> str:
    text = attempt.text if attempt.sparql is None else without_prefixes(attempt.sparql, pack.prefixes)
    return text.strip()[:4000] or "(nothing)"
