"""The choice of a query for a question by the noisy channel of a model, without the text of an answer."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from refactx.ask.writer import TREE_IDS, SharedEngine, share
from refactx.decoding.machine import Machine
from refactx.engines.engine import LanguageModel, Steps, TreeReading
from refactx.engines.scheduler import Job, run_jobs
from refactx.errors import InputError, ModelError
from refactx.fact import clean_part
from refactx.index.index import Index
from refactx.linking.linker import LinkedName
from refactx.selection.channel import Channel
from refactx.selection.mentions import Mentions
from refactx.selection.query_answers import QueryAnswers, first_answer
from refactx.selection.query_lines import Candidate
from refactx.walks import (
    AnsweredQuery,
    Query,
    QueryError,
    answer_query,
    read_line,
    resolve,
    to_sparql,
    write_line,
)
from refactx.walks.checks import check_start
from refactx.walks.evaluate import DEFAULT_LIMITS
from refactx.walks.facts import TreeFacts
from refactx.walks.language import FactSet, Head, is_line
from refactx.walks.sets import WalkLimits

EXAMPLE = "count <Louisiana> <nickname>"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryChoice:
    """The queries that a question may ask. `question`: its text as it was read, on one line.

    `heads`: what its words ask for; `mentions`: the entities, predicates and numbers that they name; `candidates`:
    queries with their scores in nats, the likeliest first, empty if the words name no entity; `without`: the score of no
    query; `min_confidence`: how much likelier than that a query has to make the question, to count as what it asks.
    """

    question: str
    heads: tuple[Head, ...]
    mentions: Mentions
    candidates: tuple[Candidate, ...]
    without: float
    min_confidence: float
    facts: FactSet = field(repr=False)

    def confidence(self, candidate: Candidate) -> float:
        """Return how much likelier than no query a candidate makes the question, in nats."""
        return candidate.score - self.without

    def answer(self, limits: WalkLimits = DEFAULT_LIMITS) -> AnsweredQuery | None:
        """Return the likeliest candidate that has an answer, with it; None if there is none.

        After the first, only those that count as what the question asks are tried (`min_confidence`).
        """
        asked = [
            one for place, one in enumerate(self.candidates) if not place or self.confidence(one) >= self.min_confidence
        ]
        return first_answer(((one.query, self.confidence(one)) for one in asked), self.facts, limits)


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
            "queries for questions need a decoder-only model whose state is in a cache that can be copied: give another "
            "model, or write the query as a line"
        )
    return _run(question, channel, QueryAnswers(machine, channel, channel.queries), share(model), cancelled)


def _run(
    question: str,
    channel: Channel,
    queries: QueryAnswers,
    shared: SharedEngine,
    cancelled: Callable[[], bool] | None,
) -> QueryChoice:
    """Run the search as a job of the engine's scheduler, beside the texts that others write."""
    engine, found = shared.scheduler.engine, list[QueryChoice]()

    def search() -> Steps[None]:
        asked = queries.search(engine.trees)
        tables = yield from queries.tables(asked).candidates()
        candidates: dict[Any, Candidate] = {one.query: one for one in tables}
        for head in asked.heads:
            for one in (yield from asked.candidates(head)):
                candidates.setdefault(one.query, one)
        [without] = yield from asked.likelihoods("")
        choice = QueryChoice(
            question=clean_part(question),
            heads=tuple(asked.heads),
            mentions=asked.mentions,
            candidates=tuple(sorted(candidates.values(), key=lambda one: -one.score)),
            without=without,
            min_confidence=channel.weights.min_confidence,
            facts=queries.facts,
        )
        found.append(choice)

    def begin() -> int:
        job.examples = shared.continued(job, channel.examples)
        shared.make_room()
        return engine.prefill(())

    job = Job(steps=search(), begin=begin, room=TREE_IDS)
    if cancelled is not None:
        job.cancelled = cancelled
    run_jobs(shared.scheduler, [job])
    if not found:
        raise InputError("the choice of a query was cancelled")
    return found[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryReply:
    """The query of a text, with its answer unless it was not to be run.

    `choice`, `confidence`: the choice of it and the confidence in it, if a model chose it; `resolved`: the labels and aliases
    that were replaced.
    """

    question: str
    query: Query
    sparql: str | None
    answered: AnsweredQuery | None
    choice: "QueryChoice | None" = None
    confidence: float | None = None
    resolved: tuple[LinkedName, ...] = ()

    @property
    def notes(self) -> Iterator[str]:
        """What the user should know besides."""
        for one in self.resolved:
            yield one.note
        if self.choice is not None and self.confidence is not None and self.confidence < self.choice.min_confidence:
            yield f"the confidence in this query is low ({self.confidence:.1f}): it may be wrong"
        if self.sparql is None:
            yield "the query has no SPARQL, since not all of its names have ids, or it compares text as numbers or dates"

    @property
    def line(self) -> str:
        """The text of the query."""
        return write_line(self.query)


def check_text(text: str, has_model: bool) -> None:
    """Raise InputError for a text without visible characters, and for a question in words if there is no model."""
    if not text.strip():
        raise InputError(f"the question is empty: give one in words, or a query such as `{EXAMPLE}`")
    if not has_model and not is_line(text):
        raise InputError(
            f"{text.strip()!r} is a question in words, which needs a model: give --model MODEL, or write a query such "
            f"as `{EXAMPLE}`"
        )


class Replies:
    """Replies on one index.

    `choose`: returns the choice of a query for a question in words; None: there is no model. `runs`: whether queries are
    answered; `facts`: how many facts are to be shown, None: as many as usual.
    """

    def __init__(
        self, index: Index, choose: "Callable[[str], QueryChoice] | None", *, runs: bool, facts: int | None
    ) -> None:
        self._facts, self._choose, self._runs = TreeFacts(index), choose, runs
        self._limits = replace(DEFAULT_LIMITS, facts=max(DEFAULT_LIMITS.facts, facts or 0))

    def to(self, text: str) -> QueryReply:
        """Return the reply to a text. Raises InputError if there is none."""
        check_text(text, self._choose is not None)
        if self._choose is None or is_line(text):
            query, replaced = resolve(read_line(text), self._facts)
            answered = answer_query(query, self._facts, self._limits) if self._runs else None
            return self._reply(text, query, answered, resolved=replaced)
        choice = self._choose(text)
        if not choice.candidates:
            raise InputError(
                f"{text.strip()!r} names no entity of the index that a query can start from: use names that it has (see "
                f"`refactx facts`), or write a query such as `{EXAMPLE}`"
            )
        best = choice.candidates[0]
        if not self._runs:
            return self._reply(text, best.query, None, choice=choice, confidence=choice.confidence(best))
        answered = choice.answer(self._limits)
        if answered is None:
            raise InputError(
                f"no query that {text.strip()!r} may ask has an answer; the likeliest is `{write_line(best.query)}` (see "
                "--explain --no-run)"
            )
        return self._reply(text, answered.query, answered, choice=choice, confidence=answered.confidence)

    def _reply(self, text: str, query: Query, answered: AnsweredQuery | None, **more: Any) -> QueryReply:
        sparql = self._sparql(query) if answered is None else answered.sparql
        return QueryReply(question=text.strip(), query=query, sparql=sparql, answered=answered, **more)

    def _sparql(self, query: Query) -> str | None:
        """Return a query that is not answered as SPARQL; None if a name of it has no id."""
        check_start(self._facts, query.start)
        try:
            return to_sparql(query, self._facts)
        except QueryError:
            return None
