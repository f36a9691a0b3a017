"""Engines with twins that compute the same without caches: a table in numpy, and tiny models of Transformers.

To test another engine, write a function that returns `Twins`, and enter it in `ENGINES` (the calls of the protocol) and
in `WRITERS` (what writes texts with it).
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import GPTNeoConfig, GPTNeoForCausalLM

from refactx.engines.engine import Engine, Logits
from refactx.engines.served.engine import ServedEngine
from refactx.engines.served.servers import find_server
from refactx.engines.transformers.engine import PackedEngine
from refactx.engines.transformers.internals import CACHE
from refactx.engines.transformers.rows import RowsEngine, takes_masks
from refactx.selection.scores import log_sum
from support.served import KINDS, Direct, Stub
from support.table_engine import TableEngine
from support.tiny_model import tiny_fact_tokenizer, tiny_model

VOCABULARY = 20
"""The ids of `ENGINES` are less than this."""


@dataclass(frozen=True)
class Twins:
    """An engine without sequences, and functions that compute the same from all ids of a text.

    `add`: reads prompts, together if the engine can, and returns their sequences; `logits`: returns those after each of
    the ids, float32[ids, vocabulary], without the engine's caches; `held`: returns how many sequences and trees the
    engine has; `tolerance`: by how much logits may differ, since engines add in another order.
    """

    engine: Engine
    add: Callable[[Sequence[list[int]]], list[int]]
    logits: Callable[[Sequence[int]], Logits]
    held: Callable[[], int]
    tolerance: float = 1e-4


def table_twins(size: int = VOCABULARY, seed: int = 0, offset: float = 1.0) -> Twins:
    """The twins of a random table; `offset`: the deviation of what ids before the last one add."""
    random = np.random.default_rng(seed)
    table = random.normal(size=(size, size)).astype(np.float32)
    engine = TableEngine(table, random.normal(scale=offset, size=(997, size)).astype(np.float32))
    return Twins(
        engine,
        lambda prompts: [engine.prefill(ids) for ids in prompts],
        lambda ids: engine.logits(ids, len(ids)),
        lambda: len(engine.read) + len(engine._trees),
    )


def transformers_twins(model: Any, kind: Callable[[Any], PackedEngine | RowsEngine]) -> Twins:
    """The twins over a model: several prompts are the rows of a batch, padded on the left; one is prefilled."""
    engine = kind(model)

    def add(prompts: Sequence[list[int]]) -> list[int]:
        if len(prompts) == 1:
            return [engine.prefill(prompts[0])]
        width = max(map(len, prompts))
        ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        inputs = {"attention_mask": mask, "position_ids": (mask.cumsum(-1) - 1).clamp_min(0), "use_cache": True}
        cache = getattr(model(input_ids=ids, **inputs), CACHE)
        return engine.add_cache(inputs | {CACHE: cache}, (len(prompts), width))

    @torch.no_grad()
    def logits(ids: Sequence[int]) -> Logits:
        found: Logits = model(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0].numpy()
        return found

    def held() -> int:
        sequences = engine._sequences if isinstance(engine, PackedEngine) else engine._batches
        cells = engine._cells.taken if isinstance(engine, PackedEngine) else 0
        assert sequences or not cells, "no cells are held by nobody"
        return len(sequences) + len(engine._trees)

    return Twins(engine, add, logits, held)


def llamacpp_twins(seed: int = 0, architecture: str = "llama") -> Twins:
    """The twins over a tiny GGUF model. The test is skipped if llama.cpp is not installed."""
    from support.llamacpp.twins import llamacpp_twins

    engine, add, logits = llamacpp_twins(seed=seed, architecture=architecture)
    own: Any = engine
    tolerance = 0.005 if architecture == "gemma2" else 1e-4  # GELU by a table of half precision
    return Twins(engine, add, lambda ids: logits(list(ids)), lambda: len(own._sequences) + len(own._trees), tolerance)


@cache
def prefix_folder() -> Path:
    """A folder of prefixes for all engines of this process."""
    return Path(tempfile.mkdtemp(prefix="refactx-prefixes-"))


def loading_twins() -> Twins:
    """The twins over a tiny GGUF model, which load the prefixes that one of them has read."""
    twins = llamacpp_twins()
    from refactx.engines.llamacpp.prefixes import Prefixes, StateFiles

    own: Any = twins.engine
    own._prefixes = Prefixes(own._context, StateFiles(prefix_folder()), "tiny", least=1)
    return twins


@cache
def masked_model(seed: int = 2) -> Any:
    model = tiny_model(seed)
    assert takes_masks(model)
    return model


@cache
def unmasked_model() -> Any:
    """A model whose attention takes no masks of four dimensions: its trees are rows of a batch."""
    torch.manual_seed(0)
    config = GPTNeoConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        num_layers=2,
        num_heads=2,
        attention_types=[[["global", "local"], 1]],
        initializer_range=0.5,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = GPTNeoForCausalLM(config).eval()
    assert not takes_masks(model)
    return model


def served_twins(kind: str, seed: int = 0, size: int = VOCABULARY) -> Twins:
    """The twins over a server of a kind that computes with a random table, and tells the scores of all its ids."""
    table = table_twins(size, seed, offset=0.2 if size > VOCABULARY else 1.0)
    connection: Any = Direct(Stub(kind, table.logits))
    server: Any = find_server(connection)
    assert server is not None
    server._likeliest = server._candidates = size  # all of them: texts are compared with those of all logits
    engine = ServedEngine(server, size=size, ends=[0])

    def logits(ids: Sequence[int]) -> Logits:
        found = table.logits(ids)
        return np.stack([row - log_sum(row) for row in found])

    return Twins(
        engine,
        lambda prompts: [engine.prefill(ids) for ids in prompts],
        logits,
        lambda: len(engine._sequences) + len(engine._trees),
    )


ENGINES: dict[str, Callable[[], Twins]] = {
    "table": table_twins,
    "transformers, packed": lambda: transformers_twins(masked_model(), PackedEngine),
    "transformers, rows": lambda: transformers_twins(unmasked_model(), RowsEngine),
    "llama.cpp": llamacpp_twins,
    "llama.cpp, windows": partial(llamacpp_twins, architecture="gemma2"),
    "llama.cpp, recurrent": partial(llamacpp_twins, architecture="mamba"),
    "llama.cpp, hybrid": partial(llamacpp_twins, architecture="lfm2"),
    "llama.cpp, prefixes on disk": loading_twins,
    **{f"served by {kind}": partial(served_twins, kind) for kind in KINDS},
}

WRITERS: dict[str, Callable[[int], Twins]] = {
    "table": lambda seed: table_twins(len(tiny_fact_tokenizer().token_bytes), seed, offset=0.2),
    "transformers, packed": lambda seed: transformers_twins(masked_model(seed), PackedEngine),
    "transformers, rows": lambda seed: transformers_twins(masked_model(seed), RowsEngine),
    "llama.cpp": lambda seed: llamacpp_twins(seed % 4),
    "llama.cpp, hybrid": lambda seed: llamacpp_twins(seed % 4, "lfm2"),
}
"""Engines over the vocabulary of the tiny tokenizer, random by a seed. The table's offsets are small, so that draft
tokens are often right."""
