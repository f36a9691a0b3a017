"""A generation whose server is killed ends with the same text if the server comes back, otherwise with an error."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from support.postgres.embedded_server import FACTS, kill_server
from support.tiny_asker import chat_tokenizer
from support.tiny_model import tiny_model, tiny_tokenizer
from torch.nn.modules.module import register_module_forward_hook
from transformers import LlamaForCausalLM

import refactx
from refactx.ask.answer import Answer
from refactx.ask.asker import Asker
from refactx.ask.prompt import Prompt
from refactx.cli.main import main
from refactx.errors import DatabaseError, RefactxError
from refactx.postgres.embedded import server as embedded
from refactx.postgres.entry import Limits

MODEL = 259  # the seed of one that writes several facts
OPTIONS: list[dict[str, Any]] = [{}, {"num_beams": 2}, {"fact_beams": 2}]


def act_at_id(number: int, act: Callable[[], object]) -> Callable[[Any], bool]:
    """Return a criterion for `until` that calls `act` after the id of that number and never ends the text."""
    seen = 0

    def count(ids: Any) -> bool:
        nonlocal seen
        seen += 1
        if seen == number:
            act()
        return False

    return count


@contextmanager
def open_asker(url: str, limits: Limits) -> Iterator[Asker]:
    """A tiny model with the index, which is read from the database at every step."""
    with refactx.open_index(db=url, cache_bytes=0, limits=limits) as index:
        yield Asker(tiny_model(MODEL), chat_tokenizer(), index, Prompt(system="Be true."))


class KillingStreamer:
    """A streamer that kills the server of a home at the id of that number."""

    def __init__(self, home: Path, number: int) -> None:
        self.home, self.left = home, number

    def put(self, ids: Any) -> None:
        self.left -= 1
        if self.left == 0:
            kill_server(self.home)

    def end(self) -> None:
        """Do nothing: there is no buffer."""


@pytest.mark.long
@pytest.mark.parametrize("options", OPTIONS[:2])
def test_a_restart_of_the_server_does_not_change_the_text(
    indexed_home: Path, indexed_url: str, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with open_asker(indexed_url, Limits(outage=60)) as asker:
        undisturbed = asker.ask("Fact:", max_new_tokens=40, **options)
        assert undisturbed.facts

        def restart() -> None:
            kill_server(indexed_home)
            threading.Timer(1.0, lambda: embedded.start(indexed_home).close()).start()

        disturbed = asker.ask("Fact:", max_new_tokens=40, until=act_at_id(9, restart), **options)
    assert (disturbed.text, disturbed.facts, disturbed.links) == (
        undisturbed.text,
        undisturbed.facts,
        undisturbed.links,
    )
    assert [record.message for record in caplog.records if record.name == "refactx.postgres.database"] == [
        "the database went away: waiting for it for at most 60 s",
        "the database is back",
    ]


@pytest.mark.parametrize("options", OPTIONS)
def test_a_server_that_stays_away_is_an_error_with_the_text_so_far(
    indexed_home: Path, indexed_url: str, options: dict[str, Any]
) -> None:
    with open_asker(indexed_url, Limits(outage=0.3)) as asker:
        whole = asker.ask("Fact:", max_new_tokens=40, **options)
        with pytest.raises(DatabaseError, match=r"went away and was not back within 0\.3 s") as caught:
            asker.ask("Fact:", max_new_tokens=40, until=act_at_id(14, lambda: kill_server(indexed_home)), **options)
        partial = caught.value.partial
        assert partial is not None
        (answer,) = partial.answers
        assert answer.text
        if not options.get("num_beams"):  # the best beam so far need not be the best in the end
            assert whole.text.startswith(answer.text)
            assert answer.facts == whole.facts[: len(answer.facts)]
        assert answer.facts
        assert all(fact.text in FACTS for fact in answer.facts)
        assert answer.finish_reason == "interrupted"


@pytest.mark.parametrize("options", [{}, {"fact_beams": 2}])
def test_of_a_batch_each_question_keeps_its_text(indexed_home: Path, indexed_url: str, options: dict[str, Any]) -> None:
    questions = ["Fact:", "Why? Fact:", "So: Fact:"]
    with open_asker(indexed_url, Limits(outage=0.3)) as asker:
        whole = list(asker.ask_all(questions, batch_size=3, max_new_tokens=40, **options))
        # Of 120 ids, in whatever order the three questions get them: at least one fact is whole by then.
        until = act_at_id(70 if options else 60, lambda: kill_server(indexed_home))
        with pytest.raises(DatabaseError) as caught:
            list(asker.ask_all(questions, batch_size=3, max_new_tokens=40, until=until, **options))
    partial = caught.value.partial
    assert partial is not None
    assert [answer.question for answer in partial.answers] == questions
    assert any(answer.facts for answer in partial.answers)
    for begun, complete in zip(partial.answers, whole, strict=True):
        assert isinstance(complete, Answer)
        assert complete.text.startswith(begun.text)
        assert complete.facts[: len(begun.facts)] == begun.facts


def test_an_outage_after_the_last_token_keeps_the_whole_text(indexed_home: Path, indexed_url: str) -> None:
    with open_asker(indexed_url, Limits(outage=0)) as asker:
        whole = asker.ask("Fact:", max_new_tokens=40)
        with pytest.raises(RefactxError) as caught:
            asker.ask("Fact:", max_new_tokens=40, until=act_at_id(40, lambda: kill_server(indexed_home)))
    assert caught.value.partial is not None
    (answer,) = caught.value.partial.answers
    assert (answer.text, answer.facts) == (whole.text, whole.facts)


def test_the_command_prints_the_text_so_far_and_then_the_error(
    indexed_home: Path,
    indexed_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tiny_model(MODEL).save_pretrained(tmp_path / "model")
    chat_tokenizer().save_pretrained(tmp_path / "model")
    (tmp_path / "prompt.toml").write_text('system = "Be true."\n')
    files = ["--model", tmp_path / "model", "--prompt", tmp_path / "prompt.toml"]
    arguments = ["ask", "Fact:", *files, "--db", indexed_url]
    monkeypatch.setattr(sys, "argv", ["refactx", *map(str, arguments), "--max-new-tokens", "30", "--json"])
    monkeypatch.setenv("REFACTX_OUTAGE_SECONDS", "0.3")
    passes = 0

    def count(module: object, *_: object) -> None:
        nonlocal passes
        passes += isinstance(module, LlamaForCausalLM)
        if passes == 3 and isinstance(module, LlamaForCausalLM):
            kill_server(indexed_home)

    hook = register_module_forward_hook(count)
    capsys.readouterr()
    try:
        with pytest.raises(SystemExit) as end:
            main()
    finally:
        hook.remove()
    assert end.value.code == 2
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document["text"].startswith("<Ann> <p> <")
    assert document["facts"][0]["subject"]["label"] == "Ann"
    assert "was not back within 0.3 s" in document["error"]
    assert err.strip().splitlines()[-1].startswith("refactx: the database")


def test_partial_ids_are_those_of_the_prompt_and_the_text(indexed_home: Path, indexed_url: str) -> None:
    """The error also has them in the library, without an `Asker`."""
    with refactx.open_index(db=indexed_url, cache_bytes=0, limits=Limits(outage=0)) as index:
        grounded = refactx.ground(tiny_model(MODEL), tiny_tokenizer(), index)
        prompt = tiny_tokenizer()("Be true. Fact: ", return_tensors="pt")["input_ids"]
        whole = grounded.generate(prompt, max_new_tokens=40, do_sample=False)
        streamer = KillingStreamer(indexed_home, 15)
        with pytest.raises(DatabaseError) as caught:
            grounded.generate(prompt, max_new_tokens=40, do_sample=False, streamer=streamer)
        partial = caught.value.partial
        assert partial is not None
        assert torch.equal(partial.ids[0], whole[0, : partial.lengths[0]])
        assert partial.lengths[0] >= prompt.shape[1] + 12
        assert partial.facts[0]
        assert partial.answers == ()
