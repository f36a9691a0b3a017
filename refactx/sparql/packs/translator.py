"""From questions to SPARQL: the translator, and the steps of a translation.

A translation is a machine of nodes that each do one thing, and say which comes next.
"""

import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from pyoxigraph import NamedNode

from refactx.ask.chat_server import TextModel
from refactx.decoding.thoughts import without_thoughts
from refactx.errors import InputError
from refactx.fact import clean_part, visible
from refactx.sparql.engines import EngineError, QueryRefusedError, Rows, SparqlEngine, SparqlSyntaxError, Term
from refactx.sparql.engines.checking import view_query
from refactx.sparql.packs.pack import Pack
from refactx.sparql.packs.prompt import (
    Meter,
    TokensSpentError,
    WritingTask,
    filled,
    translation_texts,
    with_prefixes,
    without_prefixes,
)
from refactx.sparql.packs.retrieval import PatternDetector, Retrieved, Retriever
from refactx.sparql.packs.translation import Attempt, Translation, best_of
from refactx.sparql.packs.validation import QuestionCheck, ValidationReport, validate
from refactx.sparql.packs.writers import PackWriter, PolicyWriter
from refactx.sparql.syntax.view import PatternView

Node = Literal["analyse", "plan", "retrieve", "generate", "execute", "verify", "refine", "explore", "output"]
Complexity = Literal["simple", "moderate", "complex"]
COMPLEXITY: tuple[Complexity, ...] = ("simple", "simple", "moderate", "complex")
"""How complex a question is taken to be, by the number of its patterns."""

EDGES: Mapping[Node, tuple[Node, ...]] = {
    "analyse": ("retrieve",),
    "retrieve": ("generate",),
    "generate": ("execute", "output"),
    "execute": ("verify", "refine", "explore", "output"),
    "verify": ("output", "refine"),
    "refine": ("plan", "generate", "output"),
    "plan": ("generate",),
    "explore": ("refine",),
    "output": (),
}
"""Where each node may lead. Any node may also lead to `output`, when a bound is reached."""

SAYS: Mapping[Node, str] = {
    "analyse": "which patterns the question has",
    "plan": "the steps to the answer",
    "retrieve": "examples that are like it",
    "generate": "a query",
    "execute": "syntax, rules, names; then its rows",
    "verify": "whether it asks what the question asks",
    "refine": "what was wrong",
    "explore": "which properties the data has there",
    "output": "the best query",
}
STEPS, LONGEST = 4, 120
"""The most steps of a plan, and the most letters of one."""
SHOWN_ROWS = 5
_REPLY = 120
"""The most tokens of a reply."""
_NAMED = 0.5
"""The score of a pattern that the model names."""
SHOWN = 30
"""The most properties."""
ASKED = 12
"""The most queries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a translation may take. `attempts`: queries that are written, the first included; `steps`: nodes; `tokens`:
    that models write; `seconds`: after them no node begins. Each node has a bound of its own as well: the tokens of one
    text, and `run_seconds` of a query, of which `rows` rows are read."""

    attempts: int = 4
    steps: int = 40
    tokens: int = 4000
    text_tokens: int = 400
    seconds: float = 300.0
    run_seconds: float = 30.0
    rows: int = 100


@dataclass(slots=True, kw_only=True)
class State:
    """What is known of one question so far. `plan`: None if none was asked for; `reason`: why it ends without a right
    query; `is_cut`: whether a bound ended it; `translation`: at the end."""

    question: str
    patterns: Mapping[str, float] = field(default_factory=dict)
    complexity: Complexity = "simple"
    plan: Sequence[str] | None = None
    examples: Sequence[Retrieved] = ()
    attempts: list[Attempt] = field(default_factory=list)
    explored: Sequence[str] = ()
    has_explored: bool = False
    is_cut: bool = False
    reason: str = ""
    translation: Translation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A node that has ended. `number`: from 1; `detail`: what it found, as JSON has it; `seconds`: since the beginning;
    `tokens`: that models have written so far. The last one has the `translation`."""

    number: int
    node: Node
    detail: Mapping[str, Any]
    seconds: float
    tokens: int
    translation: Translation | None = None


def mermaid() -> str:
    """Return the nodes and the ways between them as a flow chart of Mermaid.

    >>> mermaid().splitlines()[:2]
    ['flowchart TD', '    analyse["analyse<br/><small>which patterns the question has</small>"]']
    """
    lines = [f'    {node}["{node}<br/><small>{SAYS[node]}</small>"]' for node in EDGES]
    lines += [f"    {node} --> {after}" for node, following in EDGES.items() for after in following]
    return "\n".join(["flowchart TD", *lines])


# --- What an agent asks beside queries. What a model replies is never run.


class Questions:
    """Questions to a fast model about questions to a pack's endpoint."""

    def __init__(self, model: TextModel, pack: Pack) -> None:
        self._model, self._pack = model, pack

    def patterns(self, question: str, meter: Meter) -> Mapping[str, float]:
        """Return the patterns that the model names, of the pack's."""
        kinds = "\n".join(f"{one.name}: {one.about}" for one in self._pack.patterns.values())
        if not kinds:
            return {}
        reply = self._ask("analyse", meter, kinds=kinds, question=clean_part(question))
        return {name: _NAMED for name in self._pack.patterns if re.search(rf"\b{re.escape(name)}\b", reply)}

    def plan(self, question: str, meter: Meter) -> tuple[str, ...]:
        """Return the steps that the model plans, each a short line."""
        reply = self._ask("plan", meter, question=clean_part(question))
        lines = (re.sub(r"^\W*\d*[.)]?\s*", "", visible(line)).strip() for line in reply.splitlines())
        return tuple(line[:LONGEST] for line in lines if line)[:STEPS]

    def doubt(self, question: str, attempt: Attempt, meter: Meter) -> str:
        """Return why a query is not what the question asks, in the model's words; empty if it says that it is."""
        if attempt.sparql is None or attempt.report is None:
            return ""
        reply = self._ask(
            "verify",
            meter,
            question=clean_part(question),
            sparql=without_prefixes(attempt.sparql, self._pack.prefixes),
            count=str(attempt.rows),
            rows="\n".join(
                " | ".join("" if term is None else visible(str(term))[:80] for term in row)
                for row in attempt.report.rows[:SHOWN_ROWS]
            ),
        )
        match = re.match(r"\W*no\b[\s,.:;-]*(.*)", reply.strip(), re.IGNORECASE | re.DOTALL)
        if match is None:
            return ""
        reason = visible(match[1]).partition("\n")[0].strip()[:LONGEST]
        return reason or "it does not ask what the question asks"

    def _ask(self, what: str, meter: Meter, **parts: str) -> str:
        texts = translation_texts(what)
        messages = [
            {"role": role, "content": filled(texts[role], title=self._pack.title, **parts)}
            for role in ("system", "user")
        ]
        return without_thoughts(meter.generate(self._model, messages, _REPLY))


def explore(sparql: str, engine: SparqlEngine, pack: Pack, seconds: float) -> list[str]:
    """Return properties, as prefixed names, of what a query asks about: IRIs alone, never text from the data.

    Of each subject, those patterns count that match something by themselves. Failures of the engine leave them out.
    """
    search = _Probe(engine, seconds)
    by_subject: defaultdict[tuple[str, str | None, str | None], list[PatternView]] = defaultdict(list)
    for pattern in view_query(sparql).patterns:
        by_subject[pattern.subject, pattern.graph, pattern.service].append(pattern)
    found: dict[str, None] = {}
    for (subject, graph, service), patterns in by_subject.items():
        alone = [
            one.text
            for one in patterns
            if subject.startswith("?") and search.matches(_within(one.text, graph, service))
        ]
        if not alone and subject.startswith("?"):
            continue
        body = " . ".join([*alone, f"{subject} ?property ?value"])
        found |= dict.fromkeys(search.properties(_within(body, graph, service)))
    return [pack.shorten(iri) for iri in list(found)[:SHOWN]]


def _within(body: str, graph: str | None, service: str | None) -> str:
    if graph is not None:
        body = f"GRAPH {graph} {{ {body} }}"
    return body if service is None else f"SERVICE {service} {{ {body} }}"


class _Probe:
    def __init__(self, engine: SparqlEngine, seconds: float) -> None:
        self._engine, self._end, self._left = engine, time.monotonic() + seconds, ASKED

    def matches(self, body: str) -> bool:
        return bool(list(self._rows(f"SELECT * {{ {body} }} LIMIT 1")))

    def properties(self, body: str) -> Iterator[str]:
        for row in self._rows(f"SELECT DISTINCT ?property {{ {body} }} LIMIT {SHOWN}"):
            if isinstance(row[0], NamedNode):
                yield row[0].value

    def _rows(self, query: str) -> Iterator[tuple[Term | None, ...]]:
        left = self._end - time.monotonic()
        if self._left == 0 or left <= 0:
            return
        self._left -= 1
        try:
            result = self._engine.run(query, limit=SHOWN, seconds=left)
        except (EngineError, QueryRefusedError, SparqlSyntaxError):
            return
        if isinstance(result, Rows):
            yield from result.rows


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
    """Translates questions to SPARQL: for the endpoint of a pack, or by a writer on an index.

        translator = Translator(load_pack("liita"), model_at("gpt-5", "https://api.example.org/v1"))
        translation = translator.translate("Quali lemmi esprimono tristezza?")
        translation.sparql, translation.valid, translation.rows

    `pack`: what is known of the endpoint; without one, a query is written once, and not checked; `model`: writes queries by
    the pack; `writer`: writes them in another way, such as by walks of an index (`make_writer`); `fast`: a model for the
    agent's other questions, by default the same; `engine`: runs queries, None to run none; `retriever`: by default one
    without an encoder; `confidence`: of a translation, as a calibration has it. Threads may share it if they may share these.
    """

    def __init__(
        self,
        pack: Pack | None = None,
        model: TextModel | None = None,
        *,
        writer: PolicyWriter | None = None,
        fast: TextModel | None = None,
        engine: SparqlEngine | None = None,
        retriever: Retriever | None = None,
        confidence: Callable[[Translation], float | None] = lambda _: None,
        options: TranslateOptions | None = None,
    ) -> None:
        self.pack, self.engine, self.options = pack, engine, options or TranslateOptions()
        if writer is None:
            if pack is None or model is None:
                raise ValueError("give a pack and a model, or a writer of queries")
            writer = PackWriter(pack, model, self.options.bounds.text_tokens)
        self.writer, self.confidence, self._fast = writer, confidence, fast or model
        self.validates = self.options.validates and pack is not None
        self.questions: Questions | None = None
        self._retriever = retriever
        if pack is not None:
            self._retriever = retriever or Retriever(pack)
            self._detector = PatternDetector(pack, self._retriever.encoder)
            if self.options.agent and self._fast is not None:
                self.questions = Questions(self._fast, pack)

    def changed(self, *, agent: bool, runs: bool = True) -> "Translator":
        """Return one with the same models and examples. `agent`: as of `TranslateOptions`; `runs`: whether it runs queries,
        if this one does."""
        return Translator(
            self.pack,
            writer=self.writer,
            fast=self._fast,
            engine=self.engine if runs else None,
            retriever=self._retriever,
            confidence=self.confidence,
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
    ) -> "Iterator[Event]":
        """Yield the events of a translation, as they happen; the last one has the translation. Raises as `translate`.

        `cancelled`: asked in any thread; once it returns True, a text that is being written ends with a ModelError, if its
        model can be cancelled.
        """
        if not clean_part(question):
            raise InputError("the question is empty: ask something, in quotes")
        yield from TranslationRun(
            question if self.pack is None else clean_part(question), self, without, cancelled
        ).events()

    # --- What the machine asks for

    def detect(self, question: str) -> Mapping[str, float]:
        """Return the patterns of a question."""
        return {} if self.pack is None else self._detector.detect(question)

    def retrieve(self, question: str, patterns: Mapping[str, float], without: Collection[str]) -> tuple[Retrieved, ...]:
        """Return the examples for a question with some patterns."""
        if self._retriever is None or not self.options.examples:
            return ()
        return self._retriever.retrieve(question, self.options.examples, patterns=patterns, without=without)

    def validate(self, sparql: str, question: QuestionCheck, seconds: float) -> ValidationReport:
        """Return what is wrong with a query, which is run for at most so many seconds; with 0, it is not run."""
        if self.pack is None:
            raise ValueError("queries are checked by a pack")
        engine, rows = self.engine if seconds > 0 else None, self.options.bounds.rows
        return validate(sparql, self.pack, engine, question=question, seconds=seconds, rows=rows)


class TranslationRun:
    """One translation. `events` runs it; a machine is used once."""

    def __init__(
        self,
        question: str,
        translator: Translator,
        without: Collection[str] = (),
        cancelled: Callable[[], bool] | None = None,
    ) -> None:
        self._translator, self._without, self._bounds = translator, without, translator.options.bounds
        self._state, self._meter = State(question=question), Meter(self._bounds.tokens, cancelled)
        self._begun = time.monotonic()
        self._nodes: Mapping[Node, Callable[[], tuple[Node | None, Mapping[str, Any]]]] = {
            "analyse": self._analyse,
            "plan": self._plan,
            "retrieve": self._retrieve,
            "generate": self._generate,
            "execute": self._execute,
            "verify": self._verify,
            "refine": self._refine,
            "explore": self._explore,
            "output": self._output,
        }

    def events(self) -> Iterator[Event]:
        """Yield an event after each node; the last one is `output`, with the translation. Raises as the models do."""
        node: Node = "analyse"
        for number in range(1, self._bounds.steps + 1):
            reached = self._reached(number)
            if reached and node != "output":
                self._state.reason, self._state.is_cut, node = reached, True, "output"
            try:
                following, detail = self._nodes[node]()
            except TokensSpentError as spent:
                following, detail = "output", {}
                self._state.reason, self._state.is_cut = str(spent), True
            yield Event(
                number=number,
                node=node,
                detail=detail,
                seconds=self._seconds,
                tokens=self._meter.spent,
                translation=self._state.translation,
            )
            if following is None:
                return
            if following not in EDGES[node] and following != "output":
                raise AssertionError(f"{node} does not lead to {following}")
            node = following

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._begun

    def _reached(self, number: int) -> str:
        bounds = self._bounds
        if number == bounds.steps:
            return f"{bounds.steps} steps were made, as many as may be"
        if self._seconds >= bounds.seconds:
            return f"{bounds.seconds:g} seconds have passed, as many as may be"
        return ""

    @cached_property
    def _question(self) -> QuestionCheck:
        """The question as queries are checked by it."""
        pack, engine, examples = self._translator.pack, self._translator.engine, self._state.examples
        if pack is None:
            raise ValueError("queries are checked by a pack")
        return QuestionCheck(self._state.question, pack, engine, [one.example for one in examples])

    # --- Nodes: each returns the next one and what the event says

    def _analyse(self) -> tuple[Node, Mapping[str, Any]]:
        state, ask = self._state, self._translator.questions
        state.patterns = self._translator.detect(state.question)
        if not state.patterns and ask is not None:
            state.patterns = ask.patterns(state.question, self._meter)
        state.complexity = COMPLEXITY[min(len(state.patterns), 3)]
        detail = {"patterns": dict(state.patterns), "complexity": state.complexity}
        return "retrieve", detail

    def _retrieve(self) -> tuple[Node, Mapping[str, Any]]:
        state = self._state
        state.examples = self._translator.retrieve(state.question, state.patterns, self._without)
        return "generate", {"examples": [[one.example.id, round(one.score, 3)] for one in state.examples]}

    def _generate(self) -> tuple[Node, Mapping[str, Any]]:
        state = self._state
        task = WritingTask(
            question=state.question,
            patterns=state.patterns,
            examples=state.examples,
            plan=state.plan or (),
            explored=state.explored,
            failed=tuple(state.attempts),
            meter=self._meter,
        )
        attempt, pack = self._translator.writer.write(task), self._translator.pack
        if attempt.sparql is not None and pack is not None:
            attempt = replace(attempt, sparql=with_prefixes(attempt.sparql, pack.prefixes))
        sparql = attempt.sparql
        if sparql is not None and any(one.sparql == sparql for one in state.attempts):
            state.reason = "the model wrote the same query again"
            return "output", {"sparql": sparql, "repeated": True}
        if not attempt.text and state.attempts:
            state.reason = "no other query was written"
            return "output", {"sparql": None}
        state.attempts.append(attempt)
        return "execute", {"sparql": sparql}

    def _execute(self) -> tuple[Node, Mapping[str, Any]]:
        state, translator = self._state, self._translator
        attempt = state.attempts[-1]
        if attempt.sparql is not None and translator.validates:
            left = max(0.0, self._bounds.seconds - self._seconds)
            report = translator.validate(attempt.sparql, self._question, min(left, self._bounds.run_seconds))
            attempt = state.attempts[-1] = replace(attempt, report=report)
        detail = {"valid": attempt.is_valid, "rows": attempt.rows, "problems": list(attempt.problems)}
        if attempt.report is not None and attempt.report.failure:
            state.reason = f"the query could not be run: {attempt.report.failure}"
            return "output", detail | {"failure": attempt.report.failure}
        if not translator.validates:
            return "output", detail
        if not attempt.is_valid:
            return "refine", detail
        if attempt.rows == 0 and translator.questions is not None and not state.has_explored:
            return "explore", detail
        return ("refine" if attempt.rows == 0 else "verify"), detail

    def _verify(self) -> tuple[Node, Mapping[str, Any]]:
        state, ask = self._state, self._translator.questions
        attempt = state.attempts[-1]
        doubt = ask.doubt(state.question, attempt, self._meter) if ask is not None and attempt.rows is not None else ""
        if not doubt:
            return "output", {"right": True}
        state.attempts[-1] = replace(attempt, doubt=doubt)
        return "refine", {"right": False, "doubt": doubt}

    def _explore(self) -> tuple[Node, Mapping[str, Any]]:
        state, bounds, translator = self._state, self._bounds, self._translator
        sparql = state.attempts[-1].sparql
        state.has_explored = True
        if sparql is not None and translator.engine is not None and translator.pack is not None:
            left = min(max(0.0, bounds.seconds - self._seconds), bounds.run_seconds)
            state.explored = explore(sparql, translator.engine, translator.pack, left)
        return "refine", {"properties": list(state.explored)}

    def _refine(self) -> tuple[Node, Mapping[str, Any]]:
        state = self._state
        detail = {"attempt": len(state.attempts), "problems": list(state.attempts[-1].problems)}
        if len(state.attempts) >= self._bounds.attempts:
            state.reason = f"{len(state.attempts)} queries were written, as many as may be"
            return "output", detail
        # The examples alone come first: a plan leads a small model away from a query that it only has to adapt.
        plans = self._translator.questions is not None and state.complexity != "simple" and state.plan is None
        return ("plan" if plans else "generate"), detail

    def _plan(self) -> tuple[Node, Mapping[str, Any]]:
        state, ask = self._state, self._translator.questions
        state.plan = () if ask is None else ask.plan(state.question, self._meter)
        return "generate", {"plan": list(state.plan)}

    def _output(self) -> tuple[None, Mapping[str, Any]]:
        state, translator = self._state, self._translator
        last = state.attempts[-1] if state.attempts else None
        if last is not None and last.sparql is not None and last.report is None and translator.validates:
            state.attempts[-1] = replace(last, report=translator.validate(last.sparql, self._question, 0.0))
        best = best_of(state.attempts)
        was_run = best is not None and (best.report is None or not best.report.failure)
        is_right = best is not None and best.is_valid and not best.problems and was_run and not state.is_cut
        found = Translation(
            question=state.question,
            sparql=None if best is None else best.sparql,
            valid=best is not None and best.is_valid,
            rows=None if best is None else best.rows,
            evidence=tuple(state.examples),
            patterns=state.patterns,
            attempts=tuple(state.attempts),
            reason="" if is_right else state.reason or ("" if best is None else best.reason),
            writing=self._meter.seconds,
        )
        state.translation = replace(found, confidence=translator.confidence(found))
        return None, {}
