"""Models on servers that score ids: texts are those of the model's own engine, and faults end in one line.

The servers are stubs of the documented APIs that compute with a tiny model.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from support.served import KINDS, WRITING, Stub, serving
from support.server.liar import bomb, dripping, liar
from support.tiny_asker import FACTS, LinkedIndex, chat_tokenizer
from support.tiny_model import tiny_fact_tokenizer, tiny_model

from refactx.ask.asker import Asker
from refactx.ask.prompt import Generation, Prompt
from refactx.engines.language_models import ChatOnlyError, load_language_model
from refactx.engines.served.connection import Connection
from refactx.engines.served.model import ServedModel, load_served
from refactx.engines.served.servers import find_server
from refactx.errors import InputError, ModelError, ModelServerError, RefactxError, TokenizerMismatchError
from refactx.models.options import EngineOptions, ServerOptions

EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
PROMPT = Prompt(system="Be true.")
QUESTIONS = ("a Fact:", "so Fact: <B", "hello", "Ann p b", "Fact: <Ann> <p> <b> .\nFact:")
SHORT = Generation(max_new_tokens=24, channel=False)


@torch.no_grad()
def logits_of(model: Any, ids: Sequence[int]) -> Any:
    return model(torch.tensor([list(ids)])).logits[0].numpy()


def stub_of(kind: str, model: Any, **options: Any) -> Stub:
    """A server of the tiny model, whose tokenizer and chat template are those of `chat_tokenizer`."""
    tokenizer, own = chat_tokenizer(), tiny_fact_tokenizer()
    return Stub(
        kind,
        lambda ids: logits_of(model, ids),
        ends=[tokenizer.eos_token_id],
        decode=own.decode,
        encode=own.encode,
        converse=lambda said: tokenizer.apply_chat_template(said, add_generation_prompt=True, return_dict=False),
        **options,
    )


@pytest.fixture(scope="module")
def index() -> LinkedIndex:
    return LinkedIndex(tiny_fact_tokenizer(), FACTS)


@contextmanager
def served(kind: str, index: Any, seed: int = 0, **options: Any) -> Iterator[tuple[Stub, ServedModel]]:
    """A stub, and the model on it. SGLang, which writes no conversations for others, gets a tokenizer of its own."""
    stub = stub_of(kind, tiny_model(seed), **options)
    with serving(stub) as url:
        server: Any = find_server(Connection(url, "secret", seconds=60, wait=0.01))
        yield stub, ServedModel(server, index, chat_tokenizer() if kind == "sglang" else None)


@EVERY_KIND
@pytest.mark.parametrize("seed", range(2))
def test_greedy_texts_are_those_of_the_own_engine(kind: str, index: LinkedIndex, seed: int) -> None:
    own = Asker(tiny_model(seed), chat_tokenizer(), index, PROMPT)
    with served(kind, index, seed) as (_, model):
        asker = Asker(model, model.tokenizer, index, PROMPT)
        for question in QUESTIONS:
            assert asker.ask(question, SHORT).text == own.ask(question, SHORT).text


@EVERY_KIND
def test_texts_that_are_written_at_once_are_those_of_one_after_the_other(kind: str, index: LinkedIndex) -> None:
    with served(kind, index) as (_, model):
        asker = Asker(model, model.tokenizer, index, PROMPT)
        together: Any = asker.ask_all(QUESTIONS, SHORT, batch_size=3)
        assert [one.text for one in together] == [asker.ask(question, SHORT).text for question in QUESTIONS]


@pytest.mark.long
@EVERY_KIND
def test_no_sampled_fact_is_made_up(kind: str, index: LinkedIndex) -> None:
    found = 0
    with served(kind, index) as (_, model):
        asker = Asker(model, model.tokenizer, index, PROMPT)
        for seed in range(12):
            answer = asker.ask("a Fact:", replace(SHORT, temperature=1.0, seed=seed))
            assert all(f"<{one.subject}> <{one.predicate}> <{one.object}>" in FACTS for one in answer.facts)
            found += len(answer.facts)
    assert found


@EVERY_KIND
def test_text_up_to_a_fact_takes_one_request(kind: str, index: LinkedIndex) -> None:
    with served(kind, index) as (stub, model):
        Asker(model, model.tokenizer, index, PROMPT).ask("hello", replace(SHORT, max_new_tokens=16))
        writing = [path for path, body in stub.asked if path.strip("/") in WRITING]
        most = 6 if kind == "llama" else 3  # it tells nothing of ids that do not end a character: they are asked for
        assert model.usage.requests == len(writing) <= most
        assert model.usage.prompt > 0


def test_each_slot_keeps_what_its_texts_have_in_common(index: LinkedIndex) -> None:
    texts = [[token] * 40 for token in (3, 4, 5)]
    with served("llama", index) as (_, model):
        for end in (6, 7, 8):
            before = model.usage.prompt - model.usage.cached
            for text in texts:
                model.server.rows([[*text, end]], [()])
            read = model.usage.prompt - model.usage.cached - before
            assert read == len(texts) * (41 if end == 6 else 1)


def test_many_texts_are_scored_in_several_slots_as_one_by_one(index: LinkedIndex) -> None:
    texts = [([*[3] * 20, first, second, 9, 10], 2) for first in range(4, 8) for second in range(4, 8)]
    with served("llama", index) as (stub, model):
        together = model.server.scores(texts)
        assert len({body["id_slot"] for path, body in stub.asked if path.strip("/") == "completion"}) > 1
        assert together == [model.server.scores([text])[0] for text in texts]


@EVERY_KIND
def test_ids_that_do_not_end_a_character_are_scored_and_written(kind: str, index: LinkedIndex) -> None:
    model = tiny_model(0)
    pieces = tiny_fact_tokenizer().encode("é")
    assert len(pieces) > 1
    with torch.no_grad():
        rows = torch.log_softmax(model(torch.tensor([[5, 6, *pieces]])).logits[0], -1)
    expected = [float(rows[1 + at, token]) for at, token in enumerate(pieces)]
    with served(kind, index) as (_, own):
        [scores] = own.server.scores([([5, 6, *pieces], len(pieces))])
        assert scores == pytest.approx(expected, abs=1e-4)
        [row] = own.server.rows([[5, 6]], [pieces[:1]])
        assert row[pieces[0]] == pytest.approx(expected[0], abs=1e-4)
        [written] = own.server.write([[5, 6]], 1, allowed=pieces[:1])
        assert written.ids == pieces[:1] and written.rows[0][pieces[0]] == pytest.approx(expected[0], abs=1e-4)


@EVERY_KIND
@pytest.mark.parametrize(
    "fault",
    [(429, {"error": "slow down"}), (503, b"loading"), (0, b"")],
    ids=["too many requests", "a restart", "an answer that is cut"],
)
def test_a_fault_that_passes_is_not_noticed(kind: str, index: LinkedIndex, fault: Any) -> None:
    with served(kind, index) as (stub, model):
        asker = Asker(model, model.tokenizer, index, PROMPT)
        before = asker.ask("hello", SHORT).text
        stub.faults = [fault, fault]
        assert asker.ask("a Fact:", SHORT).text
        assert asker.ask("hello", SHORT).text == before


@EVERY_KIND
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ((429, {"error": "slow down"}), "status 429"),
        ((0, b""), "ended the connection"),
        ((200, b"<html>"), "no JSON"),
        ((400, {"error": {"message": "context is full"}}), "context is full"),
    ],
)
def test_a_fault_that_stays_is_one_line_and_keeps_what_was_written(
    kind: str, index: LinkedIndex, fault: Any, words: str
) -> None:
    with served(kind, index) as (stub, model):
        asker = Asker(model, model.tokenizer, index, PROMPT)
        asker.ask("so", SHORT)
        stub.faults = [None, *[fault] * 20]
        with pytest.raises(ModelError, match=words) as raised:
            asker.ask("a Fact:", replace(SHORT, max_new_tokens=100))
        assert "\n" not in str(raised.value)
        assert "secret" not in str(raised.value)
        partial: Any = raised.value.partial
        assert partial.lengths[0] > 5
        assert len(partial.answers) == 1


@EVERY_KIND
def test_a_log_probability_that_is_null_is_an_error(kind: str, index: LinkedIndex) -> None:
    with served(kind, index) as (stub, model):
        stub.scores = lambda ids: np.full(400, np.nan)  # type: ignore[method-assign]
        with pytest.raises(ModelError, match="for a log-probability"):
            Asker(model, model.tokenizer, index, PROMPT).ask("a Fact:", SHORT)


@EVERY_KIND
def test_another_model_behind_the_name_after_a_restart_is_an_error(kind: str, index: LinkedIndex) -> None:
    with served(kind, index) as (stub, model):
        asker = Asker(model, model.tokenizer, index, PROMPT)
        asker.ask("hello", SHORT)
        answer = stub.answer

        def restarted(*given: Any) -> Any:
            stub.name, stub.answer = "other", answer  # type: ignore[method-assign]
            return 503, b"loading"

        stub.answer = restarted  # type: ignore[method-assign]
        with pytest.raises(ModelError, match=r"another model now|there is no model"):
            asker.ask("a Fact:", SHORT)


def test_a_server_that_does_not_answer_is_an_error(index: LinkedIndex) -> None:
    with served("vllm", index) as (_, model):
        url = model.server.connection.shown
    with pytest.raises(ModelError, match="cannot be reached"):
        find_server(Connection(url, wait=0.001))
    with pytest.raises(InputError, match="not the URL"):
        Connection("gpu:8000")


def test_an_answer_that_does_not_end_is_an_error() -> None:
    with liar(dripping) as (url, _), pytest.raises(ModelServerError, match=r"did not end within 0\.5 seconds"):
        Connection(url, seconds=0.5).post("v1/completions", {})


def test_an_answer_that_is_too_large_is_an_error() -> None:
    with liar(bomb) as (url, _), pytest.raises(ModelServerError, match="answered with more than 256 MiB"):
        Connection(url).post("v1/completions", {})


def test_a_key_is_sent_and_never_logged(
    index: LinkedIndex, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    stub = stub_of("vllm", tiny_model(), key="s3cret")
    with serving(stub) as url:
        with pytest.raises(ModelError, match="REFACTX_MODEL_KEY"):
            find_server(Connection(url, "wrong", wait=0.001))
        monkeypatch.setenv("REFACTX_MODEL_KEY", "s3cret")
        model: Any = load_served(url, "tiny", index)
        stub.faults = [(500, {"error": "oops"})]
        Asker(model, model.tokenizer, index, PROMPT).ask("hello", SHORT)
    assert "s3cret" not in caplog.text


@EVERY_KIND
def test_another_tokenizer_is_an_error(kind: str, index: LinkedIndex) -> None:
    with served(kind, index) as (stub, model):
        model.check_tokenizer(index)
        stub._encode = lambda text: [1 + one for one in tiny_fact_tokenizer().encode(text)]
        with pytest.raises(
            TokenizerMismatchError, match=r"another tokenizer.* refactx ingest FILE --index NAME --tokenizer MODEL$"
        ):
            model.check_tokenizer(index)


def test_a_model_that_the_server_has_not_is_an_error(index: LinkedIndex) -> None:
    with serving(stub_of("vllm", tiny_model())) as url:
        with pytest.raises(ModelError, match="has these models: tiny; there is no model 'large'"):
            load_served(url, "large", index)
        loaded: Any = load_language_model("", index, EngineOptions(server=ServerOptions(model_url=url)))
        assert loaded.server.model == "tiny"


def test_a_server_that_only_chats_is_told_apart(index: LinkedIndex) -> None:
    stub = stub_of("vllm", tiny_model())
    stub.vllm = lambda path, body: None  # type: ignore[method-assign]
    with serving(stub) as url:
        assert load_served(url, "tiny", index) is None
        with pytest.raises(ChatOnlyError, match="no API that scores ids"):
            load_language_model("tiny", index, EngineOptions(server=ServerOptions(model_url=url)))
    assert issubclass(ChatOnlyError, RefactxError)
