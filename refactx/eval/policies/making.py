"""Policies of one model on one index, which time the model and the rest apart."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, TypeVar

from refactx.ask.chat import Message
from refactx.engines.engine import LanguageModel
from refactx.eval.policies.options import PolicyEvaluationOptions
from refactx.index import Index
from refactx.sparql.policies import (
    EngineTextModel,
    Policy,
    PolicyName,
    PolicyParts,
    SparqlPrompt,
    TextModel,
    Written,
    load_sparql_prompt,
    make_policy,
    model_at,
)

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Stopwatch:
    """The seconds that some functions take together."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """Return a function that does the same, and whose time counts."""

        def call(*given: _P.args, **named: _P.kwargs) -> _R:
            started = time.perf_counter()
            try:
                return function(*given, **named)
            finally:
                self.seconds += time.perf_counter() - started

        return call


@dataclass(frozen=True, slots=True)
class TimedModel:
    """A `TextModel` whose time counts."""

    model: TextModel
    watch: Stopwatch

    def generate(self, messages: Sequence[Message], max_new_tokens: int) -> str:
        """Return the model's reply."""
        return self.watch.timed(self.model.generate)(messages, max_new_tokens)


@dataclass(frozen=True, slots=True)
class TimedQuery:
    """What was written for a question; `writing`: the seconds of the model; `resolving`: those of all else."""

    written: Written
    writing: float
    resolving: float


class TimedPolicy:
    """A policy whose time is split into that of the model and the rest. `make`: makes it with its parts timed."""

    def __init__(self, make: Callable[[Stopwatch], Policy]) -> None:
        self._watch = Stopwatch()
        self._policy = make(self._watch)

    def write(self, question: str) -> TimedQuery:
        """Return the query of a question. Raises as the policy does."""
        started, before = time.perf_counter(), self._watch.seconds
        written = self._policy.write(question)
        writing = self._watch.seconds - before
        return TimedQuery(written, writing, max(0.0, time.perf_counter() - started - writing))


def make_policies(
    options: PolicyEvaluationOptions, index: Index, names: Collection[PolicyName]
) -> dict[str, TimedPolicy]:
    """Return some policies of the model of an evaluation, which is loaded once."""
    prompt = load_sparql_prompt(options.sparql_prompt)  # before the model, which takes longer
    if options.model_url is not None:
        model = model_at(options.model, options.model_url)
        return {name: _of_text(name, index, model, prompt, options.tau) for name in names}
    return _of_engine(options, index, names, prompt)


def _of_text(name: PolicyName, index: Index, model: TextModel, prompt: SparqlPrompt, tau: float | None) -> TimedPolicy:
    return TimedPolicy(
        lambda watch: make_policy(name, index, PolicyParts(model=TimedModel(model, watch), prompt=prompt, tau=tau))
    )


def _of_engine(
    options: PolicyEvaluationOptions, index: Index, names: Collection[PolicyName], prompt: SparqlPrompt
) -> dict[str, TimedPolicy]:
    from refactx.engines.loading import load_language_model

    is_free = all(name in ("direct", "rag") or (name == "open" and not options.is_held) for name in names)
    loaded = load_language_model(options.model, None if is_free else index, options.engine)
    parts = _steered_parts(options, index, loaded, names)
    model = EngineTextModel(loaded) if set(names) - {"strict"} else None

    def make(name: PolicyName, watch: Stopwatch) -> Policy:
        steered = parts.get(name, PolicyParts())
        timed = PolicyParts(
            model=None if model is None else TimedModel(model, watch),
            held=None if steered.held is None else watch.timed(steered.held),
            ask=None if steered.ask is None else watch.timed(steered.ask),
            choose=None if steered.choose is None else watch.timed(steered.choose),
            prompt=prompt,
            tau=options.tau,
        )
        return make_policy(name, index, timed)

    return {name: TimedPolicy(partial(make, name)) for name in names}


def _steered_parts(
    options: PolicyEvaluationOptions, index: Index, loaded: LanguageModel, names: Collection[PolicyName]
) -> dict[PolicyName, PolicyParts]:
    """Return the functions of policies that steer the model, by policy."""
    parts: dict[PolicyName, PolicyParts] = {}
    if "open" in names and options.is_held:
        from refactx.sparql.decoding import SparqlWriter

        parts["open"] = PolicyParts(held=SparqlWriter(loaded, index).generate)
    if "strict" in names or "harvest" in names:
        from refactx.ask.asker import Asker
        from refactx.ask.prompt import load_prompt

        asker = Asker(loaded, loaded.tokenizer, index, load_prompt(options.prompt))
        parts["strict"] = PolicyParts(choose=asker.query)
        parts["harvest"] = PolicyParts(ask=lambda text: asker.ask(text).links)
    return parts
