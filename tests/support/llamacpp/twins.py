"""An engine over llama.cpp, and a function that computes the same logits by a plain pass in another context."""

import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from refactx.engines.engine import Engine, Logits
from refactx.engines.llamacpp.engine import LlamaCppEngine, StatesEngine
from support.llamacpp.tiny_gguf import write_tiny_gguf

if TYPE_CHECKING:
    from refactx.engines.llamacpp import Context, LlamaCppModel

IDS_A_PASS, ROWS_A_PASS = 5, 3
"""So few that a step of a test takes several passes."""
SLOTS = 64


def llamacpp_twins(
    slots: int = SLOTS, cells: int = 1024, seed: int = 0, architecture: str = "llama"
) -> tuple[Engine, Callable[[Sequence[list[int]]], list[int]], Callable[[list[int]], Logits]]:
    """Return an engine with small passes, how prompts are added to it, and the logits after each id of a text.

    `seed`, `architecture`: of the random model. The test is skipped if llama.cpp is not installed.
    """
    pytest.importorskip("llama_cpp")

    context, given = tiny_context(slots, cells, seed, architecture), tiny_llamacpp(seed, architecture).engine
    passes = {"ids": IDS_A_PASS, "rows": ROWS_A_PASS}
    engine: Engine = (
        StatesEngine(context, **passes)
        if isinstance(given, StatesEngine)
        else LlamaCppEngine(context, can_forget=given.can_forget, **passes)
    )
    return (
        engine,
        lambda prompts: [engine.prefill(ids) for ids in prompts],
        lambda ids: plain_logits(ids, seed, architecture),
    )


def tiny_context(slots: int, cells: int, seed: int = 0, architecture: str = "llama") -> "Context":
    """A context of the tiny model that rounds nothing, since it is compared with others."""
    from refactx.engines.llamacpp import Context

    weights = tiny_llamacpp(seed, architecture).weights
    return Context(*weights, cells=cells, threads=1, slots=slots, ids=max(slots, 64), exact=True)


@cache
def tiny_llamacpp(seed: int = 0, architecture: str = "llama") -> "LlamaCppModel":
    """The tiny model, loaded once for a process."""
    from refactx.engines.llamacpp import load

    folder = Path(tempfile.mkdtemp(prefix="refactx-gguf-"))
    path = write_tiny_gguf(folder / "tiny.gguf", seed=seed, architecture=architecture)
    return load(path, context=512, threads=1, keep_prefixes=False)


@cache
def plain_context(seed: int, architecture: str) -> "Context":
    """The context of plain passes, which is empty before each."""
    return tiny_context(slots=256, cells=256, seed=seed, architecture=architecture)


def plain_logits(ids: list[int], seed: int = 0, architecture: str = "llama") -> Logits:
    """The logits after each id of a text, float32[ids, vocabulary], by one pass in an empty context."""
    from refactx.engines.llamacpp.library import Entry

    context = plain_context(seed, architecture)
    context.remove(0)
    assert context.decode([Entry(number, n, (0,), True) for n, number in enumerate(ids)]) == 0
    return context.logits(len(ids)).copy()
