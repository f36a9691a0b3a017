"""Engines: language models that read sequences of token ids, and the loop that writes texts with them.

| names | what they are |
|---|---|
| `Engine`, `Feed`, `TokenTree` | the protocol of a model with its key-value caches; ids to read; continuations |
| `TextLoop`, `Row`, `Hooks`, `Picker` | the loop that writes texts, one of its texts, and what it calls |
| `FactChooser`, `Reading`, `Chosen` | the protocol of choosing facts, and what a chooser takes and returns |

`refactx.engines.hf` is the engine over Transformers. `refactx.engines.vllm` has logits processors for vLLM, which runs
loops of its own. This package itself loads neither torch nor Transformers.
"""

from refactx.engines.chooser import Chosen, FactChooser, Reading, TreeReading
from refactx.engines.engine import Engine, Feed, IdPath, Logits, TokenTree
from refactx.engines.loop import Hooks, Picker, Row, TextLoop

__all__ = [
    "Chosen",
    "Engine",
    "FactChooser",
    "Feed",
    "Hooks",
    "IdPath",
    "Logits",
    "Picker",
    "Reading",
    "Row",
    "TextLoop",
    "TokenTree",
    "TreeReading",
]
