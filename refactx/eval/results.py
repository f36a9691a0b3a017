"""The results of questions, with the reason if an answer is not exact.

The reason is the first of these that holds:

| reason | condition |
|---|---|
| not asked | the question could not be asked, for example since it is too long |
| cut off | the limit of tokens came before the end of the final answer |
| I don't know | the answer says so |
| no final answer | the text ended without one |
| list incomplete | it is right, but gold answers are missing |
| more than asked | it is right, with other items or words |
| fact not used | a gold answer is part of a fact, but under no known name in the final answer |
| no fact | the answer has no fact, although facts could be written |
| wrong query | the answer is that of a query, which has no facts as proof |
| wrong subject | no fact is about an entity of the gold query |
| wrong predicate | facts are about such an entity, but none has a property of the gold query |
| wrong object | both are right, the answer is not |
| wrong answer | there are no ids to compare: no gold query, no ids in the knowledge base, or free text |
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refactx.eval.answers import Gold, same
from refactx.eval.metrics import NOTHING, Outcome, Score, outcome, score
from refactx.eval.question import Question

REASONS = (
    "not asked",
    "cut off",
    "I don't know",
    "no final answer",
    "list incomplete",
    "more than asked",
    "fact not used",
    "no fact",
    "wrong query",
    "wrong subject",
    "wrong predicate",
    "wrong object",
    "wrong answer",
)
AT_LEAST = "at least "
"""The words before the answer of a query that has reached a limit."""

_OF_OUTCOME: dict[Outcome, str] = {
    "failed": "not asked",
    "cut off": "cut off",
    "unknown": "I don't know",
    "none": "no final answer",
}
_ENTITY = re.compile(r"\bwd:(Q\d+)|/entity/(Q\d+)>")
_PROPERTY = re.compile(r"\b(?:wdt|p|ps|wdtn|psv):(P\d+)|/prop/(?:\w+/)*(P\d+)>")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionResult:
    """The result of one question, asked in one way.

    `answer`: the final answer; `text`: all that the model wrote; `facts`: as `refactx ask --json` prints them;
    `verdict`: the judge's, None if it gave none or there is none; `reason`: None if the answer is exact. `told`: the
    confidence in the answer, in nats; `queries`: as `refactx query --json` prints them; `holds_first`:
    whether the answer has the question's first gold answer.
    """

    question: Question
    answer: str
    text: str
    facts: tuple[Mapping[str, Any], ...]
    outcome: Outcome
    score: Score
    reason: str | None
    verdict: bool | None
    tokens: int
    forward_passes: int
    seconds: float
    told: float | None = None
    queries: tuple[Mapping[str, Any], ...] = ()
    holds_first: bool = False

    @property
    def given(self) -> bool:
        """Whether an answer was given, which counts for precision."""
        return self.outcome == "given"


def make_result(
    question: Question,
    record: Mapping[str, Any],
    *,
    grounded: bool,
    unknown: str,
    verdict: bool | None = None,
) -> QuestionResult:
    """Return the result of a record of `answers.jsonl` or `free.jsonl`. `grounded`: whether facts could be written."""
    answer = record.get("answer")
    if answer is None:
        return QuestionResult(
            question=question,
            answer="",
            text=record.get("error", ""),
            facts=(),
            outcome="failed",
            score=NOTHING,
            reason="not asked",
            verdict=None,
            tokens=0,
            forward_passes=0,
            seconds=0.0,
        )
    said, text, facts = answer["answer"], answer["text"], tuple(answer["facts"])
    # The limit cut off the answer if the text ends with the answer, or has none.
    at_limit = answer["finish_reason"] != "stop" and (not said or text.endswith(said))
    came = outcome(said, at_limit, unknown, question.answers)
    parts = [name for fact in facts for _, name in _parts(fact)]
    queries = tuple(answer.get("queries", ()))
    rows = [str(row.get("label") or row.get("literal") or "") for query in queries for row in query["rows"]]
    # The words before an incomplete list are not part of its first item.
    items = said.removeprefix(AT_LEAST) if rows else said
    scored = score(items, question.answers, [*parts, *rows]) if came == "given" else NOTHING
    return QuestionResult(
        question=question,
        answer=said,
        text=text,
        facts=facts,
        outcome=came,
        score=scored,
        reason=_reason(question, facts, queries, came, scored, grounded),
        verdict=verdict if came == "given" else None,
        tokens=answer["tokens"],
        forward_passes=answer["forward_passes"],
        seconds=answer["seconds"],
        told=told_of(answer),
        queries=queries,
        holds_first=came == "given" and score(items, _first(question), [*parts, *rows]).hit,
    )


def _first(question: Question) -> list[Gold]:
    return [gold for gold in question.answers if any(same(question.first, name) for name in gold.names)]


def told_of(answer: Mapping[str, Any]) -> float | None:
    """Return the confidence in an answer, as `refactx ask --json` prints it; that of its query if it has no other.

    >>> told_of({"told": 5.0}), told_of({"queries": [{"told": 1.0}, {"told": 3.0}]}), told_of({})
    (5.0, 3.0, None)
    """
    told = [answer.get("told"), *(query.get("told") for query in reversed(answer.get("queries", ())))]
    return next((float(value) for value in told if value is not None), None)


def _reason(
    question: Question,
    facts: Sequence[Mapping[str, Any]],
    queries: Sequence[Mapping[str, Any]],
    came: Outcome,
    scored: Score,
    grounded: bool,
) -> str | None:
    if came != "given":
        return _OF_OUTCOME[came]
    if scored.exact:
        return None
    if scored.hit:
        return "list incomplete" if 0 < scored.recall < 1 else "more than asked"
    if not grounded:
        return "wrong answer"
    facts = [*facts, *(fact for query in queries for fact in query["facts"])]
    if not facts:
        return "wrong query" if queries else "no fact"
    if _holds_gold(question, facts):
        return "fact not used"
    entities, properties = _ids(_ENTITY, question.sparql), _ids(_PROPERTY, question.sparql)
    subjects = [_id(fact.get("subject")) for fact in facts]
    if not entities or not properties or not any(subjects):
        return "wrong answer"
    about = [fact for fact, subject in zip(facts, subjects, strict=True) if subject in entities]
    if not about:
        return "wrong subject"
    return "wrong object" if any(_id(fact.get("predicate")) in properties for fact in about) else "wrong predicate"


def _holds_gold(question: Question, facts: Iterable[Mapping[str, Any]]) -> bool:
    ids = {gold.id for gold in question.answers if gold.id} | set(question.answer_ids)
    names = [name for gold in question.answers for name in gold.names]
    parts = [part for fact in facts for part in _parts(fact)]
    return any(number in ids or any(same(name, text) for name in names) for number, text in parts)


def _parts(fact: Mapping[str, Any]) -> list[tuple[str | None, str]]:
    """Return the id and the text of a fact's subject and object."""
    found = []
    for part in (fact.get("subject"), fact.get("object")):
        if isinstance(part, Mapping):
            found.append((_id(part), str(part.get("label") or part.get("literal") or "")))
    return found


def _id(part: Any) -> str | None:
    number = part.get("id") if isinstance(part, Mapping) else None
    return number if isinstance(number, str) else None


def _ids(pattern: re.Pattern[str], sparql: str) -> set[str]:
    return {number for match in pattern.finditer(sparql) for number in match.groups() if number}
