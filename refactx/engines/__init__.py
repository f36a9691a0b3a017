"""Engines: language models that read sequences of token ids, and the scheduler that writes texts with them.

| names | what they are |
|---|---|
| `Engine`, `Feed`, `FeedTree` | the protocol of a model with its key-value cache; ids to read; continuations to read |
| `Scheduler`, `Job` | the writing of many texts with one engine, and one of its texts |
| `Row`, `TextWriter`, `Hooks`, `Picker` | a text, its writing as a generator of requests, and what that calls |
| `FactChooser`, `ScoreReading`, `Choice` | the protocol of choosing facts, and what a chooser takes and returns |

`refactx.engines.transformers` is the engine over Transformers, `refactx.engines.llamacpp` over llama.cpp.
`refactx.engines.vllm` has logits processors for vLLM, which runs loops of its own. This package itself loads neither torch
nor Transformers.
"""

from refactx.engines.engine import (
    Choice,
    Engine,
    FactChooser,
    Feed,
    FeedTree,
    IdPath,
    Logits,
    ScoreReading,
    TreeLogits,
    TreeReading,
)
from refactx.engines.scheduler import Job, Scheduler
from refactx.engines.writer import Capabilities, Hooks, Picker, Row, TextWriter

__all__ = ["Capabilities", "Choice", "Engine", "FactChooser", "Feed", "FeedTree", "Hooks", "IdPath", "Job", "Logits"]
__all__ += ["Picker", "Row", "Scheduler", "ScoreReading", "TextWriter", "TreeLogits", "TreeReading"]
