"""The states of a translation and the ways between them: a machine whose every step is an event."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from refactx.nl2sparql.attempt import Attempt, Translation
from refactx.nl2sparql.retrieval import Retrieved

Node = Literal["analyse", "plan", "retrieve", "generate", "execute", "verify", "refine", "explore", "output"]
Complexity = Literal["simple", "moderate", "complex"]

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

    def to_json(self) -> dict[str, Any]:
        """Return the event as `refactx translate --stream --json` prints it."""
        return {
            "step": self.number,
            "node": self.node,
            "seconds": round(self.seconds, 3),
            "tokens": self.tokens,
            **self.detail,
        }


def mermaid() -> str:
    """Return the nodes and the ways between them as a flow chart of Mermaid.

    >>> mermaid().splitlines()[:2]
    ['flowchart TD', '    analyse["analyse<br/><small>which patterns the question has</small>"]']
    """
    lines = [f'    {node}["{node}<br/><small>{SAYS[node]}</small>"]' for node in EDGES]
    lines += [f"    {node} --> {after}" for node, following in EDGES.items() for after in following]
    return "\n".join(["flowchart TD", *lines])
