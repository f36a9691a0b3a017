"""A real server that is killed, frozen, locked or restarted under a generation: the same text, or an error that keeps it."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
import torch
from conftest import new_home, remove_home
from psycopg.conninfo import make_conninfo
from support.tiny_model import tiny_model, tiny_tokenizer
from torch.nn.modules.module import register_module_forward_hook
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

import refactx
from refactx.asking.answer import Answer
from refactx.asking.asker import Asker
from refactx.asking.prompt import Prompt
from refactx.cli.main import main
from refactx.errors import DatabaseError, InputError, RefactxError
from refactx.fact import Fact
from refactx.ingest.new_index import Options, ingest
from refactx.postgres.database import Database, open_session
from refactx.postgres.embedded import server as embedded
from refactx.postgres.limits import Limits, limits_of_environment
from refactx.tokenizer import FactTokenizer

MODEL = 259  # the seed of one that writes several facts
FACTS = [f"<Ann> <p> <{n}>" for n in range(60)]


def tokenizer_with_template() -> PreTrainedTokenizerFast:
    """The tiny tokenizer with a chat template that ends right behind the question."""
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tiny_tokenizer().backend_tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] + ' ' }}{% endfor %}"
    return tokenizer


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A home with a server of its own, to be killed, and an index in it."""
    folder = new_home()
    with embedded.start(folder) as server:
        file = folder / "facts.txt"
        file.write_text("".join(f"{fact} .\n" for fact in FACTS))
        opened = Database(server.url)
        options = Options("default", FactTokenizer.from_transformers(tiny_tokenizer()), "tiny", quiet=True)
        ingest([file], opened, folder / "work", options)
        opened.close()
        yield folder
        with embedded.start(folder):
            pass
    remove_home(folder)


@pytest.fixture
def url(home: Path) -> Iterator[str]:
    """The address of that server, which runs when the test begins."""
    with embedded.start(home) as server:
        yield server.url


def kill(home: Path) -> None:
    """Kill the server; returns when nothing of it is left to answer."""
    os.kill(int((home / "embedded/data/postmaster.pid").read_text().splitlines()[0]), signal.SIGKILL)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            psycopg.connect(f"postgresql:///refactx?host={home}/embedded/run&user=refactx").close()
        except psycopg.OperationalError:
            return
    raise AssertionError("the killed server still answers")


def at_id(number: int, act: Callable[[], object]) -> Callable[[Any], bool]:
    """For `until`: do something once, behind the id of that number, and never end the text."""
    seen = 0

    def count(ids: Any) -> bool:
        nonlocal seen
        seen += 1
        if seen == number:
            act()
        return False

    return count


@contextmanager
def asker_for(url: str, limits: Limits) -> Iterator[Asker]:
    """A tiny model over the index, which is read from the database at every step."""
    with refactx.open_index(db=url, cache_bytes=0, limits=limits) as index:
        yield Asker(tiny_model(MODEL), tokenizer_with_template(), index, Prompt("Be true."))


OPTIONS: list[dict[str, Any]] = [{}, {"num_beams": 2}, {"fact_beams": 2}]


@pytest.mark.parametrize("options", OPTIONS[:2])
def test_a_server_that_comes_back_in_mid_generation_costs_no_word(
    home: Path, url: str, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with asker_for(url, Limits(outage=60)) as asker:
        undisturbed = asker.ask("Fact:", max_new_tokens=40, **options)
        assert undisturbed.facts

        def restart() -> None:
            kill(home)
            threading.Timer(1.0, lambda: embedded.start(home).close()).start()

        disturbed = asker.ask("Fact:", max_new_tokens=40, until=at_id(9, restart), **options)
    assert (disturbed.text, disturbed.facts, disturbed.links) == (
        undisturbed.text,
        undisturbed.facts,
        undisturbed.links,
    )
    assert [record.message for record in caplog.records if record.name == "refactx.postgres.database"] == [
        "the database went away: waiting for it, 60 s at most",
        "the database is back",
    ]


@pytest.mark.parametrize("options", OPTIONS)
def test_a_server_that_stays_away_is_an_error_with_the_text_so_far(
    home: Path, url: str, options: dict[str, Any]
) -> None:
    with asker_for(url, Limits(outage=0.3)) as asker:
        whole = asker.ask("Fact:", max_new_tokens=40, **options)
        with pytest.raises(DatabaseError, match=r"went away and was not back within 0\.3 s") as caught:
            asker.ask("Fact:", max_new_tokens=40, until=at_id(14, lambda: kill(home)), **options)
        partial = caught.value.partial
        assert partial is not None
        (answer,) = partial.answers
        assert answer.text
        if not options.get(
            "num_beams"
        ):  # where beams are the text, the best one so far need not be the best in the end
            assert whole.text.startswith(answer.text)
            assert answer.facts == whole.facts[: len(answer.facts)]
        assert answer.facts
        assert all(fact.text.removesuffix(" .") in FACTS for fact in answer.facts)
        assert answer.finish_reason == "interrupted"


@pytest.mark.parametrize("options", [{}, {"fact_beams": 2}])
def test_of_a_batch_each_question_keeps_its_text(home: Path, url: str, options: dict[str, Any]) -> None:
    questions = ["Fact:", "Why? Fact:", "So: Fact:"]
    with asker_for(url, Limits(outage=0.3)) as asker:
        whole = list(asker.ask_all(questions, batch_size=3, max_new_tokens=40, **options))
        until = at_id(70 if options else 45, lambda: kill(home))
        with pytest.raises(DatabaseError) as caught:
            list(asker.ask_all(questions, batch_size=3, max_new_tokens=40, until=until, **options))
    partial = caught.value.partial
    assert partial is not None
    assert [answer.question for answer in partial.answers] == questions
    assert sum(len(answer.facts) for answer in partial.answers) > 2
    for begun, complete in zip(partial.answers, whole, strict=True):
        assert isinstance(complete, Answer)
        assert complete.text.startswith(begun.text)
        assert complete.facts[: len(begun.facts)] == begun.facts


def test_an_outage_behind_the_last_word_keeps_them_all(home: Path, url: str) -> None:
    with asker_for(url, Limits(outage=0)) as asker:
        whole = asker.ask("Fact:", max_new_tokens=40)
        with pytest.raises(RefactxError) as caught:
            asker.ask("Fact:", max_new_tokens=40, until=at_id(40, lambda: kill(home)))
    assert caught.value.partial is not None
    (answer,) = caught.value.partial.answers
    assert (answer.text, answer.facts) == (whole.text, whole.facts)


def test_the_command_prints_what_there_is_then_the_error(
    home: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny_model(MODEL).save_pretrained(tmp_path / "model")
    tokenizer_with_template().save_pretrained(tmp_path / "model")
    (tmp_path / "prompt.toml").write_text('system = "Be true."\n')
    arguments = ["ask", "Fact:", "--model", tmp_path / "model", "--prompt", tmp_path / "prompt.toml", "--db", url]
    monkeypatch.setattr(sys, "argv", ["refactx", *map(str, arguments), "--max-new-tokens", "30", "--json"])
    monkeypatch.setenv("REFACTX_OUTAGE_SECONDS", "0.3")
    passes = 0

    def count(module: object, *_: object) -> None:
        nonlocal passes
        passes += isinstance(module, LlamaForCausalLM)
        if passes == 3 and isinstance(module, LlamaForCausalLM):
            kill(home)

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


def test_an_embedded_server_that_was_killed_is_started_by_its_reader(
    home: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFACTX_HOME", str(home))
    monkeypatch.delenv("REFACTX_DB", raising=False)
    with refactx.open_index(cache_bytes=0) as index:
        before = index.children([]).leaves.sum()
        kill(home)
        assert index.children([]).leaves.sum() == before


def children_of(index: refactx.Index) -> int:
    return int(index.children([]).total)


def test_a_frozen_server_process_counts_as_gone(url: str) -> None:
    with refactx.open_index(db=url, cache_bytes=0, limits=Limits(lookup=0.1, outage=30)) as index:
        named = Fact("Ann", "p", "0", "<Ann> <p> <0> .", (0, 1))
        before = children_of(index), index.links(named)
        for look in (partial(children_of, index), partial(index.links, named)):
            with open_session(url) as other:
                others = (
                    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
                frozen = [row[0] for row in other.execute(others).fetchall()]
            for process in frozen:
                os.kill(process, signal.SIGSTOP)
            try:
                assert look() in before
            finally:
                for process in frozen:
                    os.kill(process, signal.SIGCONT)


def test_a_lookup_that_takes_too_long_is_an_error_that_says_which_and_what_to_do(url: str) -> None:
    limited = make_conninfo(url, options="-c statement_timeout=100")
    for address, limits in ((url, Limits(lookup=0.1)), (limited, Limits(lookup=60))):
        with refactx.open_index(db=address, cache_bytes=0, limits=limits) as index, open_session(url) as other:
            (table,) = other.execute("SELECT 'refactx.pieces_' || id FROM refactx.segments").fetchone() or ("",)
            with other.transaction():
                other.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
                with pytest.raises(
                    DatabaseError, match=r"a lookup in index 'default' after 0\.\d s.*REFACTX_LOOKUP_SECONDS"
                ):
                    index.children([])
            assert index.children([]).total == len(FACTS)


@pytest.mark.parametrize(
    ("in_address", "told", "of_role", "expected"),
    [
        (None, None, None, 10.0),
        (None, 3.0, None, 3.0),
        (None, 0.0, 5, 0.0),
        (None, None, 5, 5.0),
        (None, 3.0, 5, 3.0),
        (7, 3.0, 5, 7.0),
        (0, 3.0, 5, 0.0),
    ],
)
def test_who_sets_the_limit_of_a_lookup(
    url: str, in_address: int | None, told: float | None, of_role: int | None, expected: float
) -> None:
    with open_session(url) as connection:
        connection.execute("DROP ROLE IF EXISTS limited; CREATE ROLE limited LOGIN")
        if of_role is not None:
            connection.execute(f"ALTER ROLE limited SET statement_timeout = '{of_role}s'".encode())
    options = "" if in_address is None else f"-c statement_timeout={in_address}s"
    database = Database(make_conninfo(url, user="limited", options=options), Limits(lookup=told))
    shown = database.retry(lambda connection: connection.execute("SHOW statement_timeout").fetchone())
    assert shown == (f"{expected:g}s" if expected else "0",)
    database.close()


def test_what_reads_whole_tables_is_not_cut_by_the_limit_of_lookups(url: str) -> None:
    database = Database(url, Limits(lookup=0.1))
    slow = "SELECT 1 FROM pg_sleep(0.3)"
    with pytest.raises(DatabaseError, match="stopped a lookup in the index after"):
        database.retry(lambda connection: connection.execute(slow.encode()).fetchone())
    assert database.retry_unlimited(lambda connection: connection.execute(slow.encode()).fetchone()) == (1,)
    with database.connection() as connection:
        assert connection.execute(slow.encode()).fetchone() == (1,)
    database.close()


def test_a_connection_whose_statements_were_forgotten_prepares_them_again(url: str) -> None:
    with refactx.open_index(db=url, cache_bytes=0) as index:
        before = index.children([]).leaves.sum()
        index._database.retry(lambda connection: connection.execute("DEALLOCATE ALL"))
        assert index.children([]).leaves.sum() == before


def test_limits_are_numbers_of_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFACTX_LOOKUP_SECONDS", "2.5")
    monkeypatch.setenv("REFACTX_OUTAGE_SECONDS", "0")
    assert limits_of_environment() == Limits(2.5, 0.0)
    for wrong in ("soon", "-1", "nan", "inf"):
        monkeypatch.setenv("REFACTX_OUTAGE_SECONDS", wrong)
        with pytest.raises(InputError, match="REFACTX_OUTAGE_SECONDS"):
            limits_of_environment()
    with pytest.raises(InputError, match="no limit for lookup"):
        Limits(lookup=-1)


def test_partial_ids_are_those_of_the_prompt_and_the_text(home: Path, url: str) -> None:
    """What a library user has of it, without an `Asker`."""
    with refactx.open_index(db=url, cache_bytes=0, limits=Limits(outage=0)) as index:
        grounded = refactx.ground(tiny_model(MODEL), tiny_tokenizer(), index)
        prompt = tiny_tokenizer()("Be true. Fact: ", return_tensors="pt")["input_ids"]
        whole = grounded.generate(prompt, max_new_tokens=40, do_sample=False)
        streamer = Kill(home, 15)
        with pytest.raises(DatabaseError) as caught:
            grounded.generate(prompt, max_new_tokens=40, do_sample=False, streamer=streamer)
        partial = caught.value.partial
        assert partial is not None
        assert torch.equal(partial.ids[0], whole[0, : partial.lengths[0]])
        assert partial.lengths[0] >= prompt.shape[1] + 12
        assert partial.facts[0]
        assert partial.answers == ()


class Kill:
    """A streamer that kills the server at the id of that number."""

    def __init__(self, home: Path, number: int) -> None:
        self.home, self.left = home, number

    def put(self, ids: Any) -> None:
        self.left -= 1
        if self.left == 0:
            kill(self.home)

    def end(self) -> None:
        """Nothing is buffered."""
