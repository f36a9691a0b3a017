"""Common parts of the tests of fact beams: two graphs, and the tiny model over them."""

from functools import cache
from typing import Any

from refactx.ask.grounded import GroundedModel, ground
from support.tiny_model import FACTS, MemoryIndex, tiny_index, tiny_model, tiny_tokenizer, whole_facts

INDEX = tiny_index(FACTS)
MORE = tiny_index([f"<{s}> <{p}> <{o}>" for s in ("Ann", "Bo") for p in "pq" for o in ("b", "bb", "c.")])
ALL = len(whole_facts(MORE))
"""As many beams as the larger tree has leaves."""


@cache
def llama(seed: int) -> Any:
    return tiny_model(seed)


@cache
def grounded(index: MemoryIndex = INDEX, seed: int = 0) -> GroundedModel:
    return ground(llama(seed), tiny_tokenizer(), index)
