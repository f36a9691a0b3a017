"""What each kind of GGUF file can do, as docs/reference/architectures.md has it: tiny files of random weights are asked."""

import logging
from pathlib import Path

import pytest

pytest.importorskip("llama_cpp")
from support.channel_runs import EXAMPLES, GRAPH
from support.llamacpp.tiny_gguf import write_tiny_gguf
from support.llamacpp.twins import plain_logits
from support.tiny_asker import EVERY_MESSAGE, LinkedIndex
from support.tiny_model import tiny_fact_tokenizer

import refactx
from refactx.ask.answer import Answer
from refactx.ask.asker import Asker
from refactx.ask.prompt import Prompt
from refactx.decoding.states import Free
from refactx.engines.engine import Feed
from refactx.engines.llamacpp.engine import LlamaCppEngine
from refactx.engines.llamacpp.model import LlamaCppLanguageModel, load_gguf
from refactx.models.options import EngineOptions

PATH = Path(__file__).parents[3] / "docs" / "reference" / "architectures.md"
KINDS = {"llama": "llama", "gemma2": "sliding windows", "mamba": "recurrent", "lfm2": "hybrid"}
ASKED, MOST = ("Fact:", "What? Fact:"), 12


def answers(model: LlamaCppLanguageModel, index: LinkedIndex, at_once: int, channel: bool = True) -> list[Answer]:
    asker = Asker(model, model.tokenizer, index, Prompt(system="Be true.", channel=EXAMPLES))
    found = asker.ask_all(ASKED, batch_size=at_once, max_new_tokens=MOST, channel=channel)
    return [answer for answer in found if isinstance(answer, Answer)]


def plain_text(model: LlamaCppLanguageModel, index: LinkedIndex, question: str, architecture: str) -> list[int]:
    """The ids of a text by the likeliest allowed id, one after the other, each by a pass over all ids."""
    machine = refactx.Machine(index)
    prompt = Prompt(system="Be true.", channel=EXAMPLES).ids(model.tokenizer, question)
    state, ids = machine.start(prompt), list(prompt)
    while len(ids) < len(prompt) + MOST:
        logits, allowed = plain_logits(ids, architecture=architecture)[-1], machine.allowed(state)
        token = int(logits.argmax()) if allowed is None else int(allowed[logits[allowed].argmax()])
        state = machine.advance(state, token, len(ids))
        ids.append(token)
        if isinstance(state, Free) and token in model.ends:
            break
    return ids[len(prompt) :]


def reads_chains(model: LlamaCppLanguageModel, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether ids without an alternative are read in one pass."""
    engine, passes = model.engine, list[int]()
    assert engine is not None
    sequence, decode = engine.prefill([5, 6, 7]), model._model.context.decode
    with monkeypatch.context() as patch:
        patch.setattr(model._model.context, "decode", lambda some: passes.append(len(some)) or decode(some))
        engine.feed([(sequence, Feed([8, 9, 10]))])
    engine.drop(sequence)
    return passes == [3]


@pytest.mark.parametrize("architecture", KINDS)
def test_the_page_says_what_a_gguf_file_can_do(
    architecture: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = LinkedIndex(tiny_fact_tokenizer(), GRAPH)
    path = write_tiny_gguf(tmp_path / "tiny.gguf", architecture=architecture, template=EVERY_MESSAGE)
    model = load_gguf(path, index, EngineOptions(context=4096, threads=1))
    assert model.engine is not None
    with caplog.at_level(logging.WARNING, "refactx"):
        alone, together = answers(model, index, 1), answers(model, index, 2)
    by_model = [answer.text for answer in answers(model, index, 1, channel=False)]
    plain = [
        model.tokenizer.decode(plain_text(model, index, text, architecture), skip_special_tokens=True).strip()
        for text in ASKED
    ]
    for answer in (*alone, *together):
        assert answer.facts
        assert all(str(fact.text).removesuffix(" .") in GRAPH for fact in answer.facts)
    cells = (
        by_model == plain,
        "not chosen by the question" not in caplog.text,
        reads_chains(model, monkeypatch),
        model.engine.can_forget,
        [answer.text for answer in alone] == [answer.text for answer in together],
    )
    read_as = "cells" if isinstance(model.engine, LlamaCppEngine) else "states"
    line = " | ".join([f"| {KINDS[architecture]}", read_as, *("yes" if cell else "no" for cell in cells)]) + " |"
    assert line in PATH.read_text().splitlines(), f"{PATH} needs the line {line}"
