"""A server of the tiny model for the tests of a module."""

from collections.abc import Iterator

import pytest
from support.server.running import Running, running
from support.tiny_model import one_thread

__all__ = ["one_thread"]


@pytest.fixture(scope="module")
def tiny() -> Iterator[Running]:
    with running() as server:
        yield server
