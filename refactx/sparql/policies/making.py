"""Policies on an open index, by name, and models at a URL."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from refactx.fact import LinkedFact
from refactx.index import Index
from refactx.query.pgmr import IndexNames
from refactx.query.tree_facts import TreeFacts
from refactx.sparql.memory import FactFeasibility, Memory, MemoryResolver, Thresholds, open_memory
from refactx.sparql.names import Names
from refactx.sparql.policies.direct import DirectPolicy, RagPolicy
from refactx.sparql.policies.harvest import HarvestPolicy
from refactx.sparql.policies.held import HeldModel, HeldPolicy
from refactx.sparql.policies.open import OpenPolicy
from refactx.sparql.policies.policy import Policy, PolicyName, TextModel
from refactx.sparql.policies.prompt import SparqlPrompt, load_sparql_prompt
from refactx.sparql.policies.retrieval import retriever_of
from refactx.sparql.policies.strict import ChosenQueries, StrictPolicy
from refactx.writing.chat_server import ChatServer, ServerRole

KEY_VARIABLE = "REFACTX_MODEL_KEY"
"""The environment variable with the key for a model's server."""
_SERVER = ServerRole(name="the model", option="--model-url", key=KEY_VARIABLE, extra="sparql")
_Part = TypeVar("_Part")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyParts:
    """What policies are made of. Not all need all.

    `model`: writes text; `held`: writes text that is held to the grammar, for open in place of `model`; `ask`: returns the
    facts of an answer (harvest); `choose`: returns the queries that a question may ask (strict); `memory`: by default that
    of the index; `tau`: as of `MemoryResolver`; `prompt`: by default the built-in one.
    """

    model: TextModel | None = None
    held: HeldModel | None = None
    ask: Callable[[str], Sequence[LinkedFact]] | None = None
    choose: Callable[[str], ChosenQueries] | None = None
    memory: Memory | None = None
    tau: float | Thresholds | None = None
    prompt: SparqlPrompt | None = None


def make_policy(name: PolicyName, index: Index, parts: PolicyParts) -> Policy:
    """Return a policy on an open index.

        make_policy("direct", index, PolicyParts(model=EngineTextModel(load_language_model("demo"))))

    Raises ValueError if a part is missing that the policy needs; InputError if a package is not installed; and as
    `open_memory` does.
    """
    if name == "strict":
        return StrictPolicy(_needed(parts.choose, "choose"), TreeFacts(index))
    prompt = parts.prompt or load_sparql_prompt()
    if name == "open" and parts.held is not None:
        return HeldPolicy(parts.held, prompt, Names(index))
    model = _needed(parts.model, "model")
    if name == "direct":
        return DirectPolicy(model, prompt, index.names_of)
    feasible = FactFeasibility(index)
    if name == "harvest":
        return HarvestPolicy(_needed(parts.ask, "ask"), model, prompt, IndexNames(index), feasible)
    memory = open_memory(index) if parts.memory is None else parts.memory
    if name == "rag":
        return RagPolicy(model, prompt, index.names_of, retriever_of(memory, feasible, prompt.function))
    return OpenPolicy(model, prompt, MemoryResolver(memory, tau=parts.tau, feasible=feasible, must_match=True))


def model_at(name: str, url: str) -> TextModel:
    """Return a model on a server with an OpenAI-compatible API. Its key is $REFACTX_MODEL_KEY. Raises InputError for
    what is no URL."""
    return ChatServer(name, url, _SERVER)


def _needed(part: _Part | None, name: str) -> _Part:
    if part is None:
        raise ValueError(f"this policy needs {name}: give PolicyParts({name}=...)")
    return part
