"""What is appended and forgotten while an index is served is seen, and texts that are being written stay whole."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.ingest.living_index import LivingIndex
from support.server.running import PROMPT, Gate, Running, eventually, running, said
from support.tiny_asker import chat_tokenizer
from support.tiny_model import tiny_model

import refactx

FIRST = [f"Ann p b{n}" for n in range(6)]
BODY = {"model": "tiny", "messages": said("hello Fact:"), "max_tokens": 60}


@pytest.fixture
def living(db_url: str, tmp_path: Path) -> LivingIndex:
    made = LivingIndex(db_url, tmp_path)
    made.ingest(*FIRST)
    return made


@pytest.fixture
def gated(living: LivingIndex) -> Iterator[tuple[Running, Gate]]:
    gate = Gate()
    with living.open(cache_bytes=0) as index, running(gate.model, index=index, refresh=0.05) as server:
        assert eventually(lambda: server.service.is_warm)
        yield server, gate


def shown(server: Running) -> set[str]:
    reply = server.get("/v1/facts?prefix=<Ann> <p> <")
    return {one["text"].strip("<>").rpartition("<")[2].removesuffix(">") for one in reply.json()["completions"]}


def text_of(living: LivingIndex) -> str:
    with living.open() as index:
        return refactx.Asker(tiny_model(), chat_tokenizer(), index, PROMPT).ask("hello Fact:", max_new_tokens=60).text


def written(reply: Any) -> str:
    assert reply.status_code == 200, reply.text
    return str(reply.json()["choices"][0]["message"]["content"])


def test_appended_facts_are_shown_and_forgotten_ones_are_not(living: LivingIndex, gated: tuple[Running, Gate]) -> None:
    server, _ = gated
    assert len(shown(server)) == 6
    living.append("Ann p new", "Bo q Ann")
    assert eventually(lambda: len(shown(server)) == 7)
    assert server.get("/v1/facts?subject=Bo").json()["facts"]
    living.forget(*FIRST)
    assert eventually(lambda: len(shown(server)) == 1)
    assert written(server.post("/v1/chat/completions", BODY)) == text_of(living)
    assert "b1" not in text_of(living)


@pytest.mark.long
def test_a_text_whose_facts_are_forgotten_meanwhile_is_as_if_nothing_had_changed(
    living: LivingIndex, gated: tuple[Running, Gate]
) -> None:
    server, gate = gated
    before = text_of(living)
    assert "<Ann> <p> <b" in before
    with ThreadPoolExecutor(1) as pool:
        gate.close_at(2)
        running_text = pool.submit(server.post, "/v1/chat/completions", BODY)
        gate.wait_until_reached()
        living.append("Ann p new")
        living.forget(*FIRST)
        assert eventually(lambda: len(shown(server)) == 1)
        gate.open()
        assert written(running_text.result()) == before
    assert written(server.post("/v1/chat/completions", BODY)) == text_of(living) != before


@pytest.mark.long
def test_it_continues_after_a_compaction(living: LivingIndex, gated: tuple[Running, Gate]) -> None:
    server, gate = gated
    with ThreadPoolExecutor(1) as pool:
        gate.close_at(2)
        running_text = pool.submit(server.post, "/v1/chat/completions", BODY)
        gate.wait_until_reached()
        before = text_of(living)
        living.append("Cleo p b")
        living.forget("Cleo p b")
        living.compact()
        gate.open()
        assert written(running_text.result()) == before
    assert eventually(lambda: server.get("/health").status_code == 200)
    assert len(shown(server)) == 6


def test_a_dropped_index_is_reported_and_the_server_stays(living: LivingIndex, gated: tuple[Running, Gate]) -> None:
    server, _ = gated
    living.ingest("Ann p other", replace=True)
    assert eventually(lambda: server.post("/v1/chat/completions", BODY).status_code == 503)
    assert server.get("/metrics").status_code == 200
