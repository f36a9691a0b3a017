"""The tiny model over a graph of a few facts."""

from typing import Any

import pytest
from support.tiny_model import FACTS, MemoryIndex, tiny_index, tiny_model, tiny_tokenizer

from refactx.ask.grounded import GroundedModel, ground


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_model()


@pytest.fixture(scope="module")
def index() -> MemoryIndex:
    return tiny_index(FACTS)


@pytest.fixture(scope="module")
def grounded(model: Any, index: MemoryIndex) -> GroundedModel:
    return ground(model, tiny_tokenizer(), index)
