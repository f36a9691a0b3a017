"""The figures of a server: the tokens of its texts, and one line for each figure."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.ingest.tiny import ingest_tiny
from support.server.running import running
from support.tiny_asker import save_tiny

from bench.serving.__main__ import main
from bench.serving.streams import stream_all


def test_streams_count_the_tokens_and_passes_of_all_texts() -> None:
    with running() as server:
        found = stream_all(server.url, "tiny", ["hello Fact:", "a b Fact:", "who"], tokens=20, clients=3)
        usages = [
            server.post("/v1/chat/completions", {"model": "tiny", "messages": message, "max_tokens": 20}).json()
            for message in ([{"role": "user", "content": text}] for text in ("hello Fact:", "a b Fact:", "who"))
        ]
    assert found.tokens == sum(usage["usage"]["completion_tokens"] for usage in usages)
    assert found.passes == sum(usage["choices"][0]["message"]["refactx"]["forward_passes"] for usage in usages)
    assert found.rate == found.tokens / found.seconds


def test_an_error_in_a_stream_is_no_figure() -> None:
    with running(max_tokens=600) as server, pytest.raises(Exception, match="400"):
        stream_all(server.url, "tiny", ["long " * 2000], tokens=20, clients=1)


@pytest.mark.long
def test_the_command_prints_both_ratios_and_the_overhead(
    module_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "facts.txt"
    file.write_text("".join(f"<Ann> <p{n}> <b{n}> .\n<Bo> <p{n}> <b{n}> .\n" for n in range(6)))
    ingest_tiny(module_url, file)
    monkeypatch.setenv("REFACTX_DB", module_url)
    model = save_tiny(tmp_path / "model")
    done = CliRunner().invoke(main, [str(model), "--clients", "2", "--tokens", "5", "--lookups", "3"])
    assert done.exit_code == 0, done.output
    questions, free, facts, lookups = done.output.splitlines()
    assert questions == "2 questions, at most 5 tokens each"
    for title, line in (("free", free), ("with facts", facts)):
        assert re.fullmatch(
            rf"{title}: [\d.]+ tokens/s by 2 clients over [\d.]+ by one: [\d.]+ \(10 tokens in \d+ passes\)", line
        )
    assert re.fullmatch(r"GET /v1/facts: p50 [\d.]+ ms, without a server [\d.]+ ms: overhead -?[\d.]+ ms", lookups)
