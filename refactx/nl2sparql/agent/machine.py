"""The machine of translation: nodes that each do one thing, and say which comes next."""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from refactx.nl2sparql.agent.exploring import explore
from refactx.nl2sparql.agent.metered import Meter, TokensSpentError
from refactx.nl2sparql.agent.questions import Questions
from refactx.nl2sparql.agent.state import EDGES, Bounds, Complexity, Event, Node, State
from refactx.nl2sparql.attempt import Attempt, Translation, best_of
from refactx.nl2sparql.pack import Example, Pack
from refactx.nl2sparql.prompting import Task
from refactx.nl2sparql.retrieval import Retrieved
from refactx.nl2sparql.validation import Report
from refactx.sparql.engines import SparqlEngine
from refactx.sparql.syntax import tokens_of

_SHORTEST_NAME = 3
"""Letters of a name, at least: shorter texts are flags and languages."""
Written = tuple[str, str | None]
"""What a model wrote, and the query in it, None if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a machine works with.

    `detect`: returns the patterns of a question; `retrieve`: examples for a question with its patterns; `write`: a query
    for a task, of at most so many tokens; `validate`: its report, within so many seconds (0: not run), None for none; `ask`:
    questions to the fast model, None to ask none; `engine`: for exploring; `confidence`: of a translation;
    `cancelled`: ends the texts of models that can be cancelled once it returns True.
    """

    pack: Pack
    detect: Callable[[str], Mapping[str, float]]
    retrieve: Callable[[str, Mapping[str, float]], tuple[Retrieved, ...]]
    write: Callable[[Task, Meter, int], Written]
    validate: Callable[[str, float], Report] | None = None
    ask: Questions | None = None
    engine: SparqlEngine | None = None
    confidence: Callable[[Translation], float | None] = field(default=lambda _: None)
    cancelled: Callable[[], bool] | None = None


class Machine:
    """One translation. `events` runs it; a machine is used once."""

    def __init__(self, question: str, parts: Parts, bounds: Bounds) -> None:
        self._parts, self._bounds, self._state = parts, bounds, State(question=question)
        self._meter, self._begun = Meter(bounds.tokens, parts.cancelled), time.monotonic()
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

    # --- Nodes: each returns the next one and what the event says

    def _analyse(self) -> tuple[Node, Mapping[str, Any]]:
        state, ask = self._state, self._parts.ask
        state.patterns = self._parts.detect(state.question)
        if not state.patterns and ask is not None:
            state.patterns = ask.patterns(state.question, self._meter)
        state.complexity = complexity_of(len(state.patterns))
        detail = {"patterns": dict(state.patterns), "complexity": state.complexity}
        return "retrieve", detail

    def _retrieve(self) -> tuple[Node, Mapping[str, Any]]:
        state = self._state
        state.examples = self._parts.retrieve(state.question, state.patterns)
        return "generate", {"examples": [[one.example.id, round(one.score, 3)] for one in state.examples]}

    def _generate(self) -> tuple[Node, Mapping[str, Any]]:
        state = self._state
        task = Task(
            question=state.question,
            patterns=state.patterns,
            examples=state.examples,
            plan=state.plan or (),
            explored=state.explored,
            failed=tuple(state.attempts),
        )
        text, sparql = self._parts.write(task, self._meter, self._bounds.text_tokens)
        if sparql is not None and any(one.sparql == sparql for one in state.attempts):
            state.reason = "the model wrote the same query again"
            return "output", {"sparql": sparql, "repeated": True}
        if not text and state.attempts:
            state.reason = "no other query was written"
            return "output", {"sparql": None}
        state.attempts.append(Attempt(text=text, sparql=sparql))
        return "execute", {"sparql": sparql}

    def _execute(self) -> tuple[Node, Mapping[str, Any]]:
        state, validate = self._state, self._parts.validate
        attempt = state.attempts[-1]
        if attempt.sparql is not None and validate is not None:
            left = max(0.0, self._bounds.seconds - self._seconds)
            report = validate(attempt.sparql, min(left, self._bounds.run_seconds))
            attempt = self._replace(Attempt(text=attempt.text, sparql=attempt.sparql, report=report))
        detail = {"valid": attempt.is_valid, "rows": attempt.rows, "problems": list(attempt.problems)}
        if attempt.report is not None and attempt.report.failure:
            state.reason = f"the query could not be run: {attempt.report.failure}"
            return "output", detail | {"failure": attempt.report.failure}
        if validate is None:
            return "output", detail
        if not attempt.is_valid:
            return "refine", detail
        if attempt.rows == 0 and self._parts.ask is not None and not state.has_explored:
            return "explore", detail
        return ("refine" if attempt.rows == 0 else "verify"), detail

    def _verify(self) -> tuple[Node, Mapping[str, Any]]:
        state, ask = self._state, self._parts.ask
        attempt = state.attempts[-1]
        doubt = copied_name(attempt.sparql or "", state.question, [one.example for one in state.examples])
        if not doubt and ask is not None and attempt.rows is not None:
            doubt = ask.doubt(state.question, attempt, self._meter)
        if not doubt:
            return "output", {"right": True}
        self._replace(Attempt(text=attempt.text, sparql=attempt.sparql, report=attempt.report, doubt=doubt))
        return "refine", {"right": False, "doubt": doubt}

    def _explore(self) -> tuple[Node, Mapping[str, Any]]:
        state, bounds = self._state, self._bounds
        sparql = state.attempts[-1].sparql
        state.has_explored = True
        if sparql is not None and self._parts.engine is not None:
            left = min(max(0.0, bounds.seconds - self._seconds), bounds.run_seconds)
            state.explored = explore(sparql, self._parts.engine, self._parts.pack, left)
        return "refine", {"properties": list(state.explored)}

    def _refine(self) -> tuple[Node, Mapping[str, Any]]:
        state = self._state
        detail = {"attempt": len(state.attempts), "problems": list(state.attempts[-1].problems)}
        if len(state.attempts) >= self._bounds.attempts:
            state.reason = f"{len(state.attempts)} queries were written, as many as may be"
            return "output", detail
        # The examples alone come first: a plan leads a small model away from a query that it only has to adapt.
        plans = self._parts.ask is not None and state.complexity != "simple" and state.plan is None
        return ("plan" if plans else "generate"), detail

    def _plan(self) -> tuple[Node, Mapping[str, Any]]:
        state, ask = self._state, self._parts.ask
        state.plan = () if ask is None else ask.plan(state.question, self._meter)
        return "generate", {"plan": list(state.plan)}

    def _output(self) -> tuple[None, Mapping[str, Any]]:
        state, validate = self._state, self._parts.validate
        last = state.attempts[-1] if state.attempts else None
        if last is not None and last.sparql is not None and last.report is None and validate is not None:
            self._replace(Attempt(text=last.text, sparql=last.sparql, report=validate(last.sparql, 0.0)))
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
            reason="" if is_right else state.reason,
        )
        confidence = self._parts.confidence(found)
        self._state.translation = found.with_confidence(confidence)
        return None, {"translation": self._state.translation.to_json()}

    def _replace(self, attempt: Attempt) -> Attempt:
        self._state.attempts[-1] = attempt
        return attempt


def complexity_of(patterns: int) -> Complexity:
    """Return how complex a question with so many patterns is taken to be.

    >>> [complexity_of(n) for n in (0, 1, 2, 3)]
    ['simple', 'simple', 'moderate', 'complex']
    """
    kinds: tuple[Complexity, ...] = ("simple", "simple", "moderate", "complex")
    return kinds[min(patterns, 3)]


def copied_name(sparql: str, question: str, examples: Sequence[Example]) -> str:
    """Return a doubt about a query with a text of an example's question that the question itself has not; else nothing.

    Small models copy an example with its name. A text that a translation of the example's question has not is a word that
    the data has in one language, and may be right for a question in another.
    """
    for token in tokens_of(sparql):
        text = token.text.strip("\"'")
        if token.kind != "string" or len(text) < _SHORTEST_NAME:
            continue
        name = re.compile(rf"(?<!\w){re.escape(text)}(?!\w)", re.IGNORECASE)
        if not name.search(question) and any(all(map(name.search, one.questions)) for one in examples):
            return f"{token.text} is a name of an example, and the question does not have it: use the question's names"
    return ""
