"""The PGMR texts of a run, read once and resolved many times."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from refactx.eval.intervals import mean, proportion
from refactx.eval.policies.execution import has_answer, row_f1
from refactx.eval.policies.scores import is_same
from refactx.eval.question import Question
from refactx.query.language import QueryError
from refactx.query.pgmr import PgmrQuery, read_pgmr
from refactx.sparql.engines import QueryRefusedError, SparqlSyntaxError
from refactx.sparql.ids import ids_of
from refactx.sparql.memory import Feasible, Memory, MemoryResolver, Pattern, Resolved, Thresholds, patterns_of
from refactx.sparql.policies.policy import pgmr_in
from refactx.sparql.policies.writers import ids_within
from refactx.sparql.syntax import check_query


@dataclass(frozen=True, slots=True, kw_only=True)
class PgmrText:
    """A text of the policy open. `query`: None if it cannot be read, and is refused whatever the memory has; `needed`: the
    ids of the gold query; `gold`: the line of that."""

    question: Question
    gold: Mapping[str, Any]
    query: PgmrQuery | None = None
    patterns: Sequence[Pattern] = ()

    @property
    def needed(self) -> frozenset[str]:
        """The ids of the gold query."""
        return ids_of(self.question.sparql).all

    def resolved(self, resolver: MemoryResolver) -> str | None:
        """Return the query with ids; None if it is refused."""
        if self.query is None:
            return None
        found = resolver.resolve_mentions(self.query.mentions, self.patterns)
        return self.query.with_ids(found.ids) if isinstance(found, Resolved) else None


def read_texts(
    questions: Sequence[Question], records: Sequence[Mapping[str, Any]], golds: Sequence[Mapping[str, Any]]
) -> list[PgmrText]:
    """Return the texts of lines of the policy open, with the lines of their gold queries."""
    return [
        _read(question, record.get("text") or "", gold)
        for question, record, gold in zip(questions, records, golds, strict=True)
    ]


def _read(question: Question, text: str, gold: Mapping[str, Any]) -> PgmrText:
    written = pgmr_in(text)
    try:
        query = None if written is None else read_pgmr(written)
        if query is None or ids_within(query.sparql):
            return PgmrText(question=question, gold=gold)
        check_query(query.sparql)
        return PgmrText(question=question, gold=gold, query=query, patterns=patterns_of(query))
    except (QueryError, QueryRefusedError, SparqlSyntaxError):
        return PgmrText(question=question, gold=gold)


@dataclass
class Resolving:
    """What resolves texts by memories, and scores the queries. `run`: returns the result of a query, as `run_query`.

    The same query is run and compared once.
    """

    run: Callable[[str], Mapping[str, Any]]
    feasible: Feasible | None = None
    tau: float | Thresholds | None = None
    _results: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _scores: dict[tuple[str, str], tuple[bool, bool, float | None]] = field(default_factory=dict)

    def resolver(
        self, memory: Memory, *, tau: float | Thresholds | None = None, feasible: Feasible | None = None
    ) -> MemoryResolver:
        """Return the resolver of a memory, as the policy open has it. `tau`, `feasible`: in place of the own ones."""
        feasible = feasible or self.feasible
        return MemoryResolver(memory, tau=self.tau if tau is None else tau, feasible=feasible, must_match=True)

    def scores(self, texts: Sequence[PgmrText], queries: Sequence[str | None]) -> dict[str, Any]:
        """Return SQM in both modes, execution F1 and the share refused of some texts, given their queries."""
        scored = [self._score(text, sparql) for text, sparql in zip(texts, queries, strict=True)]
        compared = [f1 for _, _, f1 in scored if f1 is not None]
        return {
            "sqm_strict": proportion(sum(strict for strict, _, _ in scored), len(scored)).to_json(),
            "sqm_paper": proportion(sum(paper for _, paper, _ in scored), len(scored)).to_json(),
            "f1": mean(compared).to_json(),
            "refused": proportion(sum(sparql is None for sparql in queries), len(scored)).to_json(),
        }

    def _score(self, text: PgmrText, sparql: str | None) -> tuple[bool, bool, float | None]:
        key = (text.question.key, sparql or "")
        if key not in self._scores:
            gold, wanted = text.question.sparql, text.gold["result"]
            f1 = None
            if wanted is not None and has_answer(wanted):
                f1 = 0.0 if sparql is None else row_f1(wanted, self._result(sparql))
            self._scores[key] = is_same(sparql, gold, "strict"), is_same(sparql, gold, "paper"), f1
        return self._scores[key]

    def _result(self, sparql: str) -> Mapping[str, Any]:
        if sparql not in self._results:
            self._results[sparql] = self.run(sparql)
        return self._results[sparql]
