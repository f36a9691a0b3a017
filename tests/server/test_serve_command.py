"""The command as typed: it serves, survives the death of its database, and ends in good order at SIGTERM."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from support.command import complains
from support.postgres.embedded_server import ingest_facts, kill_server
from support.server.running import eventually, said
from support.servers import new_home, remove_home
from support.sparql.text_models import chat_stub
from support.tiny_asker import save_tiny

from refactx.postgres.embedded.server import start

FACTS = [f"<Ann> <p> <{n}> ." for n in range(60)]


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A home with an index of `FACTS`."""
    folder = new_home()
    with start(folder) as server:
        ingest_facts(server.url, folder, FACTS)
    yield folder
    remove_home(folder)


@contextmanager
def serving(
    home: Path, model: Path, log: Path, *options: str, names: str = "tiny is"
) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """A server of the tiny model, as typed; its URL and its process."""
    import os

    command = [str(Path(sys.executable).with_name("refactx")), "serve", "--model", str(model), "--name", "tiny"]
    environment = {**os.environ, "REFACTX_HOME": str(home)}
    with log.open("w") as errors:
        process = subprocess.Popen(
            [*command, "--port", "0", *options], env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    try:
        assert process.stdout
        line = process.stdout.readline()
        assert line.startswith(f"{names} served at http://127.0.0.1:"), log.read_text()
        yield line.split(" at ")[1].split(" ")[0], process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.long
def test_a_model_that_only_chats_is_served_with_its_facts_checked(home: Path, tmp_path: Path) -> None:
    with chat_stub() as stub:
        stub.reply = lambda _: "Fact: <Ann> <p> <7> .\nFact: <Ann> <p> <x> .\nAnswer: 7"
        given = "--model-url", stub.url
        with serving(home, Path("any"), tmp_path / "log", *given) as (url, process):
            reply: Any = httpx2.post(
                f"{url}/v1/chat/completions", json={"model": "tiny", "messages": said("p of Ann?")}
            )
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
    message = reply.json()["choices"][0]["message"]
    assert message["content"] == "Fact: <Ann> <p> <7> .\nFact: <Ann> <p> <x> . (not found)\nAnswer: 7"
    assert [fact["text"] for fact in message["refactx"]["facts"]] == ["<Ann> <p> <7> ."]
    assert f"{stub.url} only chats: its facts are checked" in (tmp_path / "log").read_text()


@pytest.mark.long
def test_it_serves_through_the_death_of_its_database_and_ends_in_good_order(
    home: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model, log = save_tiny(tmp_path_factory.mktemp("model")), tmp_path / "log"
    keys = tmp_path / "keys"
    keys.write_text("# of the tests\nsecret\n")
    pack = write_pack(tmp_path)
    with serving(home, model, log, "--api-key-file", str(keys), "--pack", str(pack)) as (url, process):
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="secret", max_retries=8)
        asked: dict[str, Any] = {"model": "tiny", "messages": said("hello Fact:"), "max_tokens": 40}
        before: Any = client.chat.completions.create(**asked).choices[0].message
        assert {f"{fact['text']}" for fact in before.refactx["facts"]} <= set(FACTS)
        for _ in range(2):
            kill_server(home)
            again: Any = client.chat.completions.create(**asked).choices[0].message
            assert (again.content, again.refactx["facts"]) == (before.content, before.refactx["facts"])
            assert eventually(lambda: httpx2.get(f"{url}/health").status_code == 200)
        done = subprocess.run(
            ["curl", "-sN", "-H", "Authorization: Bearer secret", "-H", "Content-Type: application/json"]
            + ["-d", json.dumps(asked | {"stream": True}), f"{url}/v1/chat/completions"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert done.stdout.endswith("data: [DONE]\n\n")
        translated = httpx2.post(
            f"{url}/v1/translate",
            json={"question": "Which dogs are there?"},
            headers={"Authorization": "Bearer secret"},
            timeout=60,
        ).json()
        assert (translated["pack"], translated["steps"][-1]["node"]) == ("kennel", "output")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert {"ready", "request", "stopping"} <= {line["event"] for line in lines}
    assert "hello" not in log.read_text()
    assert "secret" not in log.read_text()


@pytest.mark.long
def test_a_model_is_served_with_each_index_of_its_tokenizer(
    home: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model = save_tiny(tmp_path_factory.mktemp("tiny"))
    with start(home) as server:
        ingest_facts(server.url, home, ["<Bo> <q> <Zoe> ."], "second")
    several = ("--index", "default", "--index", "second")
    with serving(home, model, tmp_path / "log", *several, names="tiny@default, tiny@second are") as (url, _):
        for index, subject in (("default", "Ann"), ("second", "Bo")):
            found = httpx2.get(f"{url}/v1/facts?prefix=<&index={index}", timeout=60).json()["completions"]
            assert [one["text"] for one in found] == [f"<{subject}>"]


def write_pack(folder: Path) -> Path:
    """A small pack without an endpoint."""
    (folder / "pack.toml").write_text(
        'version = 1\nname = "kennel"\ntitle = "a kennel"\nlanguages = ["en"]\nbase = "Dogs."\n'
        '[prefixes]\nex = "http://e.org/"\n'
    )
    return folder


@pytest.mark.long
def test_mistakes_are_one_line(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("# none\n")
    assert "could ask this model: give --api-key-file FILE, or --no-auth" in complains(
        "serve", "--model", "demo", "--host", "0.0.0.0"
    )
    assert "add --pack" in complains("serve", "--model", "demo", "--run-on", "store")
    assert "has no key" in complains("serve", "--model", "demo", "--api-key-file", empty)
    assert "--allow-host 'http://a' is no name" in complains("serve", "--model", "demo", "--allow-host", "http://a")
    assert "--allow-origin 'app.example.org' is no site" in complains(
        "serve", "--model", "demo", "--allow-origin", "app.example.org"
    )
    assert "--root-path 'kb' is no path" in complains("serve", "--model", "demo", "--root-path", "kb")
    assert "cannot listen at" in complains("serve", "--model", "demo", "--host", "203.0.113.7", "--no-auth")
