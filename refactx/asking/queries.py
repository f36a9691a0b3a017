"""The choice of a query for a question by the noisy channel of a model, without the text of an answer."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from refactx.choosing.channel import Channel
from refactx.choosing.queries.answering import QueryAnswers, first_answer
from refactx.choosing.queries.candidate import Candidate
from refactx.choosing.queries.mentions import Mentions
from refactx.decoding.machine import Machine
from refactx.engines.engine import TreeReading
from refactx.engines.job import Job
from refactx.engines.language_model import LanguageModel
from refactx.engines.requests import Steps
from refactx.engines.scheduler import run_jobs
from refactx.errors import InputError, ModelError
from refactx.fact import clean_part
from refactx.query.answered import AnsweredQuery
from refactx.query.budget import Limits
from refactx.query.denote import DEFAULT_LIMITS
from refactx.query.fact_set import FactSet
from refactx.query.line import write_line
from refactx.query.walk import Head
from refactx.writing.shared import SharedEngine, share
from refactx.writing.writer import TREE_IDS


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryChoice:
    """The queries that a question may ask. `question`: its text as it was read, on one line.

    `heads`: what its words ask for; `mentions`: the entities, predicates and numbers that they name; `candidates`:
    queries with their scores in nats, the likeliest first, empty if the words name no entity; `without`: the score of no
    query; `tells`: how much likelier than that a query has to make the question, to count as what it asks.
    """

    question: str
    heads: tuple[Head, ...]
    mentions: Mentions
    candidates: tuple[Candidate, ...]
    without: float
    tells: float
    facts: FactSet = field(repr=False)

    def told(self, candidate: Candidate) -> float:
        """Return how much likelier than no query a candidate makes the question, in nats."""
        return candidate.score - self.without

    def answer(self, limits: Limits = DEFAULT_LIMITS) -> AnsweredQuery | None:
        """Return the likeliest candidate that has an answer, with it; None if there is none.

        After the first, only those that count as what the question asks are tried (`tells`).
        """
        asked = [one for place, one in enumerate(self.candidates) if not place or self.told(one) >= self.tells]
        return first_answer(((one.query, self.told(one)) for one in asked), self.facts, limits)

    def to_json(self) -> dict[str, Any]:
        """Return the choice as `refactx query --explain --json` prints it."""
        return {
            "heads": list(self.heads),
            "names": {
                "entities": [
                    {
                        "words": self.question[one.start : one.stop],
                        "name": one.name,
                        "called": one.called,
                        "share": round(one.share, 3),
                    }
                    for one in self.mentions.entities
                ],
                "predicates": sorted(self.mentions.predicates),
                "numbers": list(self.mentions.numbers),
            },
            "candidates": [
                {"query": write_line(one.query), "score": round(one.score, 3), "told": round(self.told(one), 3)}
                for one in self.candidates
            ],
        }


def choose_query(
    question: str,
    channel: Channel | None,
    machine: Machine,
    model: LanguageModel,
    cancelled: Callable[[], bool] | None = None,
) -> QueryChoice:
    """Return the queries that a question may ask, scored by a model. `channel`: that of the question; `cancelled`: asked
    before each pass of the model, ends the choice once it returns True.

    Raises InputError if the prompt has no examples of queries, or for a choice that was cancelled, ModelError for a model
    that cannot score them, and as `refactx.Index.children` does.
    """
    if channel is None or channel.queries is None:
        raise InputError(
            "queries for questions need an index in PostgreSQL, and a prompt with `channel`, `queries` and [words]: "
            "leave out --prompt, or add them to its file"
        )
    if model.engine is None or model.engine.trees < TreeReading.ROWS:
        raise ModelError(
            "queries for questions need a decoder-only model with position ids and a dynamic cache of keys and values "
            "without a sliding window: give another model, or write the query as a line"
        )
    return _run(question, channel, channel.queries, machine, share(model), cancelled)


def _run(
    question: str,
    channel: Channel,
    queries: QueryAnswers,
    machine: Machine,
    shared: SharedEngine,
    cancelled: Callable[[], bool] | None,
) -> QueryChoice:
    """Run the search as a job of the engine's scheduler, beside the texts that others write."""
    engine, found = shared.scheduler.engine, list[QueryChoice]()

    def search() -> Steps[None]:
        asked = yield from queries.search(machine, engine.trees)
        candidates: dict[Any, Candidate] = {}
        for head in queries.heads:
            for one in (yield from asked.candidates(head)):
                candidates.setdefault(one.query, one)
        choice = QueryChoice(
            question=clean_part(question),
            heads=tuple(queries.heads),
            mentions=asked.mentions,
            candidates=tuple(sorted(candidates.values(), key=lambda one: -one.score)),
            without=(yield from asked.without()),
            tells=queries.tells,
            facts=queries.facts,
        )
        found.append(choice)

    def begin() -> int:
        job.examples = shared.continued(job, channel.examples)
        shared.make_room()
        return engine.prefill(())

    job = Job(steps=search(), begin=begin, children=machine.source.children, room=TREE_IDS)
    if cancelled is not None:
        job.cancelled = cancelled
    run_jobs(shared.scheduler, [job])
    if not found:
        raise InputError("the choice of a query was cancelled")
    return found[0]
