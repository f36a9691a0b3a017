"""The run's folder: what each policy wrote for each question, with its rows, so that a stopped run can continue.

`run.json` has the options. `gold.jsonl` has a line for each gold query with its rows, and `POLICY.jsonl` one for each
question (`POLICY.2-of-8.jsonl` for those of a shard): what the model wrote, the query, what its names were resolved to,
its rows, and the seconds of each part. All policies are asked a question before the next one, so that other processes on
the machine slow all of them equally.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tqdm import tqdm

from refactx.errors import InputError
from refactx.eval.logs import WHOLE, RunLog, Shard
from refactx.eval.policies.execution import run_query
from refactx.eval.policies.making import TimedPolicy, TimedQuery
from refactx.eval.policies.syntax import count_mentions, is_broken
from refactx.eval.question import Question
from refactx.sparql.engines import QueryRefusedError, SparqlEngine, SparqlSyntaxError
from refactx.sparql.ids import ids_of
from refactx.sparql.memory import Choice
from refactx.sparql.policies.writers import Known
from refactx.sparql.syntax import check_query

GOLD = "gold"

Record = dict[str, Any]
"""A line of a file of the run."""


def count_missing(
    folder: Path, questions: Sequence[Question], names: Sequence[str], shard: Shard = WHOLE
) -> dict[str, int]:
    """Return how many lines the log of each policy, or of gold queries (`GOLD`), lacks."""
    missing = {}
    for name in names:
        with RunLog(folder, name, shard) as log:
            missing[name] = sum(question.key not in log.records for question in questions)
    return missing


def read_records(folder: Path, questions: Sequence[Question], name: str) -> list[Record]:
    """Return the records of the questions, in their order. Raise InputError if one is missing."""
    with RunLog(folder, name) as log:
        lacking = sum(question.key not in log.records for question in questions)
        if lacking:
            raise InputError(f"{log.path} lacks {lacking} questions: run the same command again")
        return [log.records[question.key] for question in questions]


def check_engine(folder: Path, name: str, shard: Shard = WHOLE) -> None:
    """Raise InputError if the gold queries of the run were run on another engine than that with this name."""
    with RunLog(folder, GOLD, shard) as log:
        others = {record["engine"] for record in log.records.values()} - {name}
    if others:
        raise InputError(
            f"{folder} has results of the {min(others)}, now queries would be run on the {name}: give another --out"
        )


class PolicyRun:
    """What asks questions and runs queries. `known`: returns the ids that exist; `seconds`: the most of a query;
    `held`: whether open text is held to the grammar."""

    def __init__(self, engine: SparqlEngine, known: Known, *, seconds: float, held: bool) -> None:
        self._engine, self._known, self._seconds, self._held = engine, known, seconds, held

    def ask_all(
        self, folder: Path, questions: Sequence[Question], policies: Mapping[str, TimedPolicy], shard: Shard = WHOLE
    ) -> None:
        """Run the gold queries, and ask the questions, that have no line yet. `shard`: the one whose logs get the lines.

        A question that cannot be asked has a line with the error. After any exception, also KeyboardInterrupt, the lines
        so far are stored, and the next call continues.
        """
        with ExitStack() as stack:
            logs = {name: stack.enter_context(RunLog(folder, name, shard)) for name in (GOLD, *policies)}
            left = [(q, name) for q in questions for name, log in logs.items() if q.key not in log.records]
            whole = len(questions) * len(logs)
            with tqdm(total=whole, initial=whole - len(left), desc="queries", disable=None, leave=False) as bar:
                for question, name in left:
                    policy = policies.get(name)
                    record = self.gold(question) if policy is None else self.ask(question, name, policy)
                    logs[name].add(question.key, record)
                    bar.update()

    def gold(self, question: Question) -> Record:
        """Return the line of a gold query: whether it is SPARQL, its rows, and ids that do not exist."""
        sparql = question.sparql
        try:
            check_query(sparql)
        except (SparqlSyntaxError, QueryRefusedError) as error:
            return {"sparql": sparql, "fault": str(error), "unknown": [], "engine": self._engine.name, "result": None}
        return {
            "sparql": sparql,
            "fault": None,
            "unknown": self._unknown(sparql),
            "engine": self._engine.name,
            "result": run_query(self._engine, sparql, self._seconds),
        }

    def ask(self, question: Question, name: str, policy: TimedPolicy) -> Record:
        """Return the line of a question that a policy is asked."""
        try:
            timed = policy.write(question.text)
        except InputError as error:
            return {"error": str(error)}
        sparql, started = timed.written.sparql, time.perf_counter()
        result = None if sparql is None else run_query(self._engine, sparql, self._seconds)
        running = time.perf_counter() - started if sparql is not None else 0.0
        return self._line(name, timed) | {
            "unknown": [] if sparql is None else self._unknown(sparql),
            "seconds": _seconds(timed, running),
            "result": result,
        }

    def _line(self, name: str, timed: TimedQuery) -> Record:
        written = timed.written
        mentions = count_mentions(name, written.text, held=self._held and name == "open")
        broken = written.sparql is None and is_broken(name, written.text, held=self._held and name == "open")
        return {
            "text": written.text,
            "sparql": written.sparql,
            "reason": written.reason or None,
            "broken": broken,
            "mentions": mentions,
            "names": {placeholder: _name(choice) for placeholder, choice in written.choices.items()},
            "told": written.told,
        }

    def _unknown(self, sparql: str) -> list[str]:
        ids = sorted(ids_of(sparql).all)
        existing = set(self._known(ids)) if ids else set()
        return [id_ for id_ in ids if id_ not in existing]


def _seconds(timed: TimedQuery, running: float) -> dict[str, float]:
    parts = {"writing": timed.writing, "resolving": timed.resolving, "running": running}
    return {name: round(seconds, 6) for name, seconds in parts.items()}


def _name(choice: Choice) -> dict[str, Any]:
    return {
        "id": choice.entry.id,
        "label": choice.entry.text,
        "similarity": round(choice.similarity, 4),
        "how": choice.how,
    }
