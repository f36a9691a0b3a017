"""A server of chat completions for tests of policies."""

from collections.abc import Iterator

import pytest
from support.sparql.text_models import ChatStub, chat_stub


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatStub]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with chat_stub() as stub:
        yield stub
