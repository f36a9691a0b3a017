"""Questions that are answered by a policy other than the walk alone: SPARQL that is written, and then run by an engine."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from refactx.asking.replies import check_text
from refactx.errors import InputError
from refactx.index.index import Index
from refactx.query import QueryError, read_line, resolve, to_sparql
from refactx.query.line import is_line
from refactx.query.tree_facts import TreeFacts

if TYPE_CHECKING:
    from refactx.asking.prompt import Prompt
    from refactx.engines.loading import EngineOptions
    from refactx.sparql.engines import Result, SparqlEngine
    from refactx.sparql.policies import Policy, PolicyName, PolicyParts, Written

SECONDS = 60.0
"""The most time of a query by default."""
_ENGINES = ("auto", "tree", "store")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOptions:
    """The options of policies. `model`, `model_url`: what writes; `run_on`: what runs the query; `tau`: the least
    similarity of names; `grammar`: whether text of our engines is held to the grammar."""

    policy: "PolicyName"
    model: str | None
    model_url: str | None
    run_on: str | None
    sparql_prompt: str
    tau: float | None
    grammar: bool
    timeout: float

    @property
    def is_plain(self) -> bool:
        """Whether a query is a walk that the fact tree answers, as without options of policies."""
        return self.policy == "strict" and self.run_on is None

    def check(self) -> None:
        """Raise InputError for options that exclude each other."""
        if self.model_url is not None and self.policy in ("strict", "harvest"):
            raise InputError(
                f"--policy {self.policy} needs a model whose choices can be steered, which no server offers: give --policy "
                "open, rag or direct, or leave out --model-url"
            )
        if self.model_url is not None and self.model is None:
            raise InputError("--model-url needs the name of a model there: give --model NAME")
        if self.tau is not None and self.policy != "open":
            raise InputError(f"--tau is of names that a memory resolves, as --policy open does, not {self.policy}")


@dataclass(frozen=True, slots=True)
class PolicyReply:
    """What was written for a question, and what it gave.

    `result`: None if the query was refused or not to be run, or if the engine could not answer it, and then `failure`
    says why; `engine`: the engine's name, empty if it was not asked.
    """

    written: "Written"
    result: "Result | None" = None
    engine: str = ""
    failure: str = ""


class PolicyReplies:
    """Replies by a policy on one index. Models and engines are loaded when they are first needed, until `stack` closes.

    `prompt`: of answers, for strict and harvest; `limit`: the most rows, None for all.
    """

    def __init__(
        self,
        index: Index,
        options: PolicyOptions,
        machine: "EngineOptions",
        prompt: "Prompt",
        stack: ExitStack,
        *,
        runs: bool,
        limit: int | None,
    ) -> None:
        self._index, self._options, self._machine, self._prompt = index, options, machine, prompt
        self._stack, self._runs, self._limit = stack, runs, limit
        self.facts = TreeFacts(index)

    def to(self, text: str) -> PolicyReply:
        """Return the reply to a question, or to a walk line. Raises as the policy does, and EngineError if the engine
        cannot be asked."""
        from refactx.sparql.engines import EngineTimeoutError, QueryRefusedError, SparqlSyntaxError

        check_text(text, self._options.model is not None)
        written = self._of_line(text) if is_line(text) else self._policy.write(text.strip())
        if written.sparql is None or not self._runs:
            return PolicyReply(written)
        engine = self._engine
        try:
            result = engine.run(written.sparql, limit=self._limit, seconds=self._options.timeout)
        except (EngineTimeoutError, QueryRefusedError, SparqlSyntaxError) as error:
            return PolicyReply(written, engine=engine.name, failure=str(error))
        return PolicyReply(written, result, engine.name)

    def _of_line(self, text: str) -> "Written":
        from refactx.sparql.policies import Written

        query, _ = resolve(read_line(text), self.facts)
        try:
            sparql = to_sparql(query, self.facts)
        except QueryError as error:  # a name without an id
            return Written(policy="strict", question=text.strip(), text=text.strip(), reason=str(error))
        return Written(policy="strict", question=text.strip(), text=text.strip(), sparql=sparql)

    @cached_property
    def _policy(self) -> "Policy":
        from refactx.sparql.policies import load_sparql_prompt, make_policy

        options = self._options
        prompt = load_sparql_prompt(options.sparql_prompt)  # before the model, which takes longer
        return make_policy(options.policy, self._index, self._parts(prompt=prompt, tau=options.tau))

    def _parts(self, **others: Any) -> "PolicyParts":
        from refactx.sparql.policies import EngineTextModel, PolicyParts, model_at

        options, policy, name = self._options, self._options.policy, self._options.model or ""
        if options.model_url is not None:
            return PolicyParts(model=model_at(name, options.model_url), **others)
        from refactx.engines.loading import load_language_model

        is_free = policy in ("direct", "rag") or (policy == "open" and not options.grammar)
        loaded = load_language_model(name, None if is_free else self._index, self._machine)
        if policy == "open" and options.grammar:
            from refactx.sparql.decoding import SparqlWriter

            return PolicyParts(held=SparqlWriter(loaded, self._index).generate, **others)
        if is_free:
            return PolicyParts(model=EngineTextModel(loaded), **others)
        from refactx.asking.asker import Asker

        asker = Asker(loaded, loaded.tokenizer, self._index, self._prompt)
        if policy == "strict":
            return PolicyParts(choose=asker.query, **others)
        return PolicyParts(model=EngineTextModel(loaded), ask=lambda text: asker.ask(text).links, **others)

    @cached_property
    def _engine(self) -> "SparqlEngine":
        from refactx.sparql.engines import EndpointEngine, EngineName, open_engine

        where = self._options.run_on or "auto"
        names: dict[str, EngineName] = {"auto": "auto", "tree": "tree", "store": "store"}
        engine = open_engine(self._index, names[where]) if where in names else EndpointEngine(where)
        self._stack.callback(engine.close)
        return engine


def check_place(place: str | None) -> None:
    """Raise InputError for what is neither an engine of an index nor the URL of an endpoint."""
    if place is not None and place not in _ENGINES:
        if "://" not in place:
            raise InputError(f"--run-on {place} is no engine: give tree, store, auto or the URL of an endpoint")
        from refactx.sparql.engines.address import read_address

        read_address(place)


def labels(facts: TreeFacts) -> Callable[[Sequence[str]], dict[str, str]]:
    """Return a function that returns labels by id, of the index."""
    from refactx.query.values import bare_name

    return lambda ids: {id_: bare_name(name) for id_, name in facts.names(ids).items()}
