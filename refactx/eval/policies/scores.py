"""The scores of what a policy wrote for one question, from its line in the run's folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from refactx.eval.policies.execution import has_answer, row_f1
from refactx.eval.question import Question
from refactx.eval.sparql import Mode, same_query
from refactx.query.language import QueryError
from refactx.sparql.ids import ids_of


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryScore:
    """The scores of one query.

    `sparql`: None if none was written, and then `refused`, `broken` (it is not SPARQL) or `unasked` says why; `f1`: of
    its rows, None if the gold query has none here; `answerable`: the index has all names that the gold query needs;
    `made_up`: the query has an id that the index does not have; `fails`: the engine could not run it; `names`: how
    many were resolved.
    """

    question: Question
    sparql: str | None
    answerable: bool
    f1: float | None
    refused: bool
    broken: bool
    unasked: bool
    fails: bool
    sqm_strict: bool
    sqm_paper: bool
    qid_em: bool
    pid_em: bool
    made_up: bool
    names: int
    writing: float
    resolving: float
    running: float
    reason: str = ""


def is_same(sparql: str | None, gold: str, mode: Mode) -> bool:
    """Return whether a query is the gold query (`same_query`). Queries with other ids are not parsed."""
    if sparql is None or ids_of(sparql) != ids_of(gold):
        return False
    try:
        return same_query(sparql, gold, mode)
    except QueryError:
        return False


def score_record(question: Question, record: Mapping[str, Any], gold: Mapping[str, Any]) -> QueryScore:
    """Return the scores of a policy's line for a question, against the line of its gold query."""
    sparql, result = record.get("sparql"), record.get("result")
    found, wanted = ids_of(sparql or ""), ids_of(question.sparql)
    seconds = record.get("seconds") or {}
    compared = gold["result"] is not None and has_answer(gold["result"])
    return QueryScore(
        question=question,
        sparql=sparql,
        answerable=not gold["unknown"],
        f1=row_f1(gold["result"], result) if compared else None,
        refused=sparql is None and not record.get("broken") and "error" not in record,
        broken=bool(record.get("broken")),
        unasked="error" in record,
        fails=result is not None and "error" in result,
        sqm_strict=is_same(sparql, question.sparql, "strict"),
        sqm_paper=is_same(sparql, question.sparql, "paper"),
        qid_em=sparql is not None and found.entities == wanted.entities,
        pid_em=sparql is not None and found.properties == wanted.properties,
        made_up=bool(record.get("unknown")),
        names=record.get("mentions", 0),
        writing=seconds.get("writing", 0.0),
        resolving=seconds.get("resolving", 0.0),
        running=seconds.get("running", 0.0),
        reason=record.get("reason") or record.get("error") or (result or {}).get("error") or "",
    )
