"""`refactx ask --model-url`: a model on a server, one that scores ids and one that only chats."""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.ingest.tiny import ingest_tiny
from support.served import Stub, serving
from support.sparql.text_models import chat_stub
from support.tiny_asker import LAST_MESSAGE, chat_tokenizer
from support.tiny_model import tiny_fact_tokenizer, tiny_model

import refactx
from refactx.ask.chat_server import ChatServer, ServerRole
from refactx.ask.checked import CheckedAsker
from refactx.ask.prompt import GREEDY, Prompt
from refactx.cli.main import cli
from refactx.cli.views import Asking, TerminalView, terminal

FACTS = ["<Ann> <p> <b>", "<Ann> <p> <c>", "<Bé> <p> <in>"]


@pytest.fixture(scope="module")
def db(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    file = tmp_path_factory.mktemp("facts") / "facts.txt"
    file.write_text("".join(f"{fact} .\n" for fact in FACTS))
    ingest_tiny(module_url, file)
    yield module_url


def ask(db: str, url: str, question: str = "a Fact:", *options: str) -> Result:
    given = ["ask", question, "--model", "tiny", "--model-url", url, "--db", db, "--max-new-tokens", "12", *options]
    return CliRunner().invoke(cli, given)


def stub() -> Stub:
    model, tokenizer, own = tiny_model(), chat_tokenizer(LAST_MESSAGE), tiny_fact_tokenizer()

    def logits(ids: Any) -> Any:
        import torch

        with torch.no_grad():
            return model(torch.tensor([list(ids)])).logits[0].numpy()

    def converse(said: Any) -> list[int]:
        found: list[int] = tokenizer.apply_chat_template(said, return_dict=False)
        return found

    return Stub("vllm", logits, ends=[tokenizer.eos_token_id], decode=own.decode, encode=own.encode, converse=converse)


def test_ask_uses_a_model_on_a_server_and_tells_what_was_asked(db: str) -> None:
    with serving(stub()) as url:
        done = ask(db, url, "a Fact:", "--no-channel")
    assert done.exit_code == 0, done.output
    assert "prompt tokens" in done.stderr
    assert any(fact in done.stdout for fact in FACTS)


def test_ask_checks_the_facts_of_a_model_that_only_chats(db: str) -> None:
    with chat_stub() as server:
        server.reply = lambda _: "Fact: <Ann> <p> <b> .\nFact: <Ann> <p> <x> .\nAnswer: b"
        done = ask(db, server.url, "what is ann?")
    assert done.exit_code == 0, done.output
    assert "only chats" in done.stderr
    assert "<Ann> <p> <x> . (not found)" in done.stdout
    assert "<Ann> <p> <b> . (not found)" not in done.stdout


def test_a_server_that_only_chats_is_found_without_the_end_of_its_url(db: str) -> None:
    with chat_stub() as server:
        server.reply = lambda _: "Fact: <Ann> <p> <b> .\nAnswer: b"
        done = ask(db, server.url.removesuffix("/v1"), "what is ann?")
    assert done.exit_code == 0, done.output
    assert server.paths == ["/v1/chat/completions"]


def test_on_a_terminal_a_checked_text_is_shown_when_it_is_whole(db: str) -> None:
    role, shown = ServerRole(name="the model", option="--model-url", key="NO_KEY", extra="client"), io.StringIO()
    with chat_stub() as server, refactx.open_index(db=db) as index:
        server.reply = lambda _: "Fact: <Ann> <p> <b> .\nFact: <Ann> <p> <x> .\nAnswer: b"
        asker = CheckedAsker(ChatServer("tiny", server.url, role), index, Prompt(system="Be true."))
        view = TerminalView(Asking(asker=asker, options=GREEDY, free=False, marker="Answer:"))
        view._console = terminal(file=shown, force_terminal=True, width=90, color_system=None)
        assert view.ask("what is ann?").answer == "b"
    text = re.sub("\x1b[^a-zA-Z]*[a-zA-Z]", "", shown.getvalue())
    assert text.index("Answer: b") < text.index("Ann\n  p\n    b")
    assert "<x>" not in text, "that is no fact"


def test_a_model_that_only_chats_takes_no_options_of_choice(db: str) -> None:
    with chat_stub() as server:
        for option in (("--max-facts", "2"), ("--fact-beams", "2"), ("--think", "on"), ("--no-channel",)):
            done = ask(db, server.url, "what is ann?", *option)
            name = option[0].removeprefix("--").removeprefix("no-").replace("-", "_")
            assert f"{name} was given, and this server only chats" in str(done.exception) + done.output


def test_a_model_that_only_chats_is_evaluated_with_its_facts_checked(db: str, tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "What is Ann?", "answers": ["b"]}\n')
    with chat_stub() as server:
        server.reply = lambda _: "Fact: <Ann> <p> <b> .\nFact: <Ann> <p> <x> .\nAnswer: b"
        given = ["eval", questions, "--model", "tiny", "--model-url", server.url, "--db", db, "--out", tmp_path / "run"]
        done = CliRunner().invoke(cli, [*map(str, given), "--free"])
    assert done.exit_code == 0, done.output
    assert "only chats: its facts are checked" in done.stderr
    (grounded,) = map(json.loads, (tmp_path / "run" / "grounded.jsonl").read_text().splitlines())
    assert grounded["answer"]["answer"] == "b"
    assert [fact["text"] for fact in grounded["answer"]["facts"]] == ["<Ann> <p> <b> ."]


def test_a_model_that_only_chats_cannot_be_told_to_think(db: str) -> None:
    with chat_stub() as server:
        given = ["serve", "--model", "tiny", "--model-url", server.url, "--db", db, "--port", "0", "--think", "on"]
        done = CliRunner().invoke(cli, given)
    assert done.exit_code != 0
    assert "only chats: its facts are checked" in done.output
    assert "the model cannot be told to think before it answers: leave out think" in str(done.exception) + done.output


def test_a_server_that_is_not_there_is_one_line(db: str) -> None:
    done = ask(db, "gpu:8000")
    assert done.exit_code != 0
    assert "not the URL of a server" in str(done.exception) + done.output
