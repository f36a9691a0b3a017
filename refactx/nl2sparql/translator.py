"""From questions to SPARQL by a domain pack: the parts put together."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

from refactx.ask.answer import SEPARATOR, Answer
from refactx.errors import InputError
from refactx.fact import clean_part
from refactx.nl2sparql.agent import Bounds, Event, Machine, Meter, Parts, Questions, Written
from refactx.nl2sparql.attempt import Translation
from refactx.nl2sparql.pack import Pack
from refactx.nl2sparql.patterns import PatternDetector
from refactx.nl2sparql.prompting import Task, conversation, with_prefixes
from refactx.nl2sparql.retrieval import Retrieved, Retriever
from refactx.nl2sparql.validation import Report, validate
from refactx.query import Hop, Query, QueryError, to_sparql
from refactx.query.language import FactSet
from refactx.query.values import bare_name
from refactx.sparql.engines import SparqlEngine
from refactx.sparql.policies import TextModel
from refactx.sparql.policies.policy import query_in
from refactx.sparql.policies.writers import ChosenQueries, StrictPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslateOptions:
    """How questions are translated.

    `agent`: plan, verify and explore as well, by the fast model; `validates`: check queries, and write those again that
    are wrong; `examples`: how many the model is shown; `bounds`: what one translation may take.
    """

    agent: bool = False
    validates: bool = True
    examples: int = 5
    bounds: Bounds = field(default_factory=Bounds)


class Translator:
    """Translates questions to SPARQL for the endpoint of a pack.

        translator = Translator(load_pack("liita"), model_at("gpt-5", "https://api.example.org/v1"))
        translation = translator.translate("Quali lemmi esprimono tristezza?")
        translation.sparql, translation.valid, translation.rows

    `model`: writes queries; `fast`: for the agent's other questions, by default the same; `engine`: runs queries, None to
    run none; `retriever`: by default one without an encoder; `write`: takes a task and writes its query in another way,
    such as by walks of an index; `confidence`: of a translation, as a calibration has it. Threads may share it if they may
    share these.
    """

    def __init__(
        self,
        pack: Pack,
        model: TextModel | None = None,
        *,
        fast: TextModel | None = None,
        engine: SparqlEngine | None = None,
        retriever: Retriever | None = None,
        write: Callable[[Task], str | None] | None = None,
        confidence: Callable[[Translation], float | None] = lambda _: None,
        options: TranslateOptions | None = None,
    ) -> None:
        if model is None and write is None:
            raise ValueError("give a model, or a function that writes queries")
        self.pack, self.options = pack, options or TranslateOptions()
        self._model, self._write, self.engine = model, write, engine
        self._retriever = retriever or Retriever(pack)
        self._asked, self._confidence = fast or model, confidence
        self._parts = Parts(
            pack=pack,
            detect=PatternDetector(pack, self._retriever.encoder).detect,
            retrieve=self._retrieve,
            write=self._written,
            validate=self._validate if self.options.validates else None,
            ask=Questions(self._asked, pack) if self.options.agent and self._asked is not None else None,
            engine=engine,
            confidence=confidence,
        )

    def changed(self, *, agent: bool, runs: bool = True) -> "Translator":
        """Return one with the same models and examples. `agent`: as of `TranslateOptions`; `runs`: whether it runs queries,
        if this one does."""
        return Translator(
            self.pack,
            self._model,
            fast=self._asked,
            engine=self.engine if runs else None,
            retriever=self._retriever,
            write=self._write,
            confidence=self._confidence,
            options=replace(self.options, agent=agent),
        )

    def translate(self, question: str, *, without: Collection[str] = ()) -> Translation:
        """Return the translation of a question. `without`: ids of examples that the model is not shown.

        Raises InputError for a question without visible text, or that is too long for the model; and as the model does.
        """
        *_, last = self.stream(question, without=without)
        if last.translation is None:
            raise RuntimeError("a translation ended without a result")
        return last.translation

    def stream(
        self, question: str, *, without: Collection[str] = (), cancelled: Callable[[], bool] | None = None
    ) -> Iterator[Event]:
        """Yield the events of a translation, as they happen; the last one has the translation. Raises as `translate`.

        `cancelled`: asked in any thread; once it returns True, a text that is being written ends with a ModelError, if its
        model can be cancelled.
        """
        if not clean_part(question):
            raise InputError("the question is empty: ask something, in quotes")
        parts = replace(self._parts, retrieve=partial(self._retrieve, without=without), cancelled=cancelled)
        yield from Machine(clean_part(question), parts, self.options.bounds).events()

    def _retrieve(
        self, question: str, patterns: Mapping[str, float], without: Collection[str] = ()
    ) -> tuple[Retrieved, ...]:
        if not self.options.examples:
            return ()
        return self._retriever.retrieve(question, self.options.examples, patterns=patterns, without=without)

    def _written(self, task: Task, meter: Meter, tokens: int) -> Written:
        if self._write is not None:
            text = self._write(task) or ""
            return text, with_prefixes(text, self.pack.prefixes) if text else None
        if self._model is None:
            raise ValueError("there is no model to write queries")
        text = meter.generate(self._model, conversation(self.pack, task), tokens)
        query = query_in(text)
        return text, None if query is None else with_prefixes(query, self.pack.prefixes)

    def _validate(self, sparql: str, seconds: float) -> Report:
        engine = self.engine if seconds > 0 else None
        return validate(sparql, self.pack, engine, seconds=seconds, rows=self.options.bounds.rows)


_KEPT = 16
"""For how many questions the scores are kept, so that a third attempt needs no model."""


class WalkWriter:
    """Writes the queries of a `Translator` as walks of an index: first the one that an answer with facts comes from, then
    those that the policy `strict` finds likely. One with rows stays, even if it is doubted: those after it are less
    likely, and do not learn from the doubt.

    `ask`: answers a question with facts and queries, such as `refactx.Asker.ask`; `choose`: returns the walks that it may
    ask, such as `refactx.Asker.query`; `facts`: of the index. Threads may share it if they may share these.
    """

    def __init__(self, ask: Callable[[str], Answer], choose: Callable[[str], ChosenQueries], facts: FactSet) -> None:
        self._ask, self._facts = ask, facts
        self._policy = StrictPolicy(lru_cache(_KEPT)(choose), facts)

    def write(self, task: Task) -> str | None:
        """Return the next walk that is not among the failed attempts, as SPARQL; None if there is none, or if one has rows."""
        if task.failed:
            if any(one.rows for one in task.failed):
                return None
            return self._policy.another(task.question, {one.text for one in task.failed})
        query = query_behind(self._ask(task.question), self._facts)
        try:
            return to_sparql(query, self._facts) if query is not None else self._policy.write(task.question).sparql
        except QueryError:  # of a name without an id
            return self._policy.write(task.question).sparql


def query_behind(answer: Answer, facts: FactSet) -> Query | None:
    """Return the query that has an answer's items as rows: its own, or the walk along its last fact that has one of them.

    None if there is neither. With the answer `Bern` after `<Switzerland> <capital> <Bern (city)>`, it is
    `list <Switzerland> <capital>`; with the answer `Switzerland`, `list <Bern (city)> <capital of>`.
    """
    if answer.queries:
        return answer.queries[-1].query
    items = {item.strip().casefold() for item in answer.answer.split(SEPARATOR)}
    for fact in reversed(answer.facts):
        if bare_name(fact.object).casefold() in items:
            return Query("list", fact.subject, (Hop(fact.predicate),))
        if bare_name(fact.subject).casefold() in items:
            inverse = facts.inverse_of(fact.predicate)
            if inverse is not None:
                return Query("list", fact.object, (Hop(inverse),))
    return None
