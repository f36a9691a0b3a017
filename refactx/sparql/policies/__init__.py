"""Policies: ways from a question to SPARQL, of which a model writes more or less itself.

| policy | what the model writes | where ids come from |
|---|---|---|
| `strict` | nothing: it scores walks of the fact tree | the index |
| `harvest` | PGMR text, given the names of facts that it wrote before | these facts |
| `open` | PGMR text | the memory of the index, or the query is refused |
| `rag` | SPARQL with ids, given the 10 nearest names | the model |
| `direct` | SPARQL with ids | the model |

`make_policy` makes one of them; its `write` returns what was `Written` for a question. `TextModel` is any model that
replies to a conversation: `EngineTextModel` is one of our engines, `model_at` one on a server. The texts
of a `CancellableModel` can be ended while they are written.
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.sparql.policies.engine_model import EngineTextModel
    from refactx.sparql.policies.policy import (
        POLICIES,
        CancellableModel,
        Policy,
        PolicyName,
        SparqlPrompt,
        TextModel,
        Written,
        load_sparql_prompt,
    )
    from refactx.sparql.policies.writers import PolicyParts, make_policy, model_at

__all__ = ["POLICIES", "CancellableModel", "EngineTextModel", "Policy", "PolicyName", "PolicyParts", "SparqlPrompt"]
__all__ += ["TextModel", "Written", "load_sparql_prompt", "make_policy", "model_at"]
__getattr__ = lazy_exports(
    __name__,
    {
        "engine_model": "EngineTextModel",
        "policy": "POLICIES CancellableModel Policy PolicyName SparqlPrompt TextModel Written load_sparql_prompt",
        "writers": "PolicyParts make_policy model_at",
    },
)
