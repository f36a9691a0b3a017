"""Adapters of LoRA: texts are those of the merged model, and what does not fit is refused by name."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.llamacpp.tiny_gguf import write_tiny_adapter, write_tiny_gguf
from support.tiny_asker import FACTS, LinkedIndex, chat_tokenizer, save_tiny
from support.tiny_model import one_thread, tiny_fact_tokenizer, tiny_model  # noqa: F401

from refactx.ask.asker import Asker
from refactx.ask.prompt import Prompt
from refactx.engines.language_models import engine_for, load_language_model
from refactx.errors import InputError, ModelError
from refactx.models.loading import load_model
from refactx.models.options import EngineOptions

QUESTIONS = ("Fact:", "hello Fact:", "What?")


@pytest.fixture
def index() -> LinkedIndex:
    return LinkedIndex(tiny_fact_tokenizer(), FACTS)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("base"))


def make_adapter(model: Any, folder: Path, **options: Any) -> Any:
    """Save an adapter with random weights, and return the model with it."""
    peft = pytest.importorskip("peft")
    torch.manual_seed(1)
    config = peft.LoraConfig(
        **{"r": 2, "lora_alpha": 8, "target_modules": "all-linear", **options}, task_type="CAUSAL_LM"
    )
    adapted = peft.get_peft_model(model, config)
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.3)
    adapted.save_pretrained(folder)
    return adapted


def texts(model: Any, tokenizer: Any, index: LinkedIndex, **options: Any) -> list[tuple[str, list[str]]]:
    asker = Asker(model, tokenizer, index, Prompt(system="Be true."))
    answers = [asker.ask(question, max_new_tokens=40, **options) for question in QUESTIONS]
    return [(answer.text, [fact.text for fact in answer.facts]) for answer in answers]


def test_texts_with_an_adapter_are_those_of_the_merged_model(base: Path, index: LinkedIndex, tmp_path: Path) -> None:
    merged = make_adapter(tiny_model(), tmp_path).merge_and_unload().eval()
    model, tokenizer = load_model(str(base), adapter=tmp_path, device="cpu")
    plain = load_model(str(base), device="cpu")
    expected = texts(merged, chat_tokenizer("{{ messages[-1]['content'] + ' ' }}"), index)
    assert texts(model, tokenizer, index) == expected
    assert texts(*plain, index) != expected
    loaded = load_language_model(str(base), index, EngineOptions(adapter=str(tmp_path), device="cpu"))
    assert texts(loaded, loaded.tokenizer, index) == expected


def test_a_model_with_an_adapter_beside_its_weights_answers_too(index: LinkedIndex, tmp_path: Path) -> None:
    adapted = make_adapter(tiny_model(), tmp_path)
    tokenizer = chat_tokenizer("{{ messages[-1]['content'] + ' ' }}")
    beside = texts(adapted.eval(), tokenizer, index)
    assert beside == texts(adapted.get_base_model().eval(), tokenizer, index)
    assert beside == texts(adapted.merge_and_unload().eval(), tokenizer, index)


def refused(call: Callable[[], object], kind: type[Exception] = ModelError) -> str:
    with pytest.raises(kind) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_adapter_of_another_model_is_refused(base: Path, tmp_path: Path) -> None:
    other = tiny_model().config
    other.hidden_size, other.num_attention_heads = 32, 4
    make_adapter(type(tiny_model())(other), tmp_path / "size")
    assert "does not fit" in refused(lambda: load_model(str(base), adapter=tmp_path / "size", device="cpu"))
    for layers in (1, 3):
        deeper, folder = tiny_model().config, tmp_path / f"{layers} layers"
        deeper.num_hidden_layers = layers
        make_adapter(type(tiny_model())(deeper), folder, target_modules=["q_proj"])
        message = refused(lambda folder=folder: load_model(str(base), adapter=folder, device="cpu"))  # type: ignore[misc]
        assert "does not fit" in message and "tensors" in message


def test_an_adapter_of_another_tokenizer_is_refused(base: Path, tmp_path: Path) -> None:
    make_adapter(tiny_model(), tmp_path)
    form = json.loads(tiny_fact_tokenizer().serialized)
    form["model"]["merges"].pop()
    (tmp_path / "tokenizer.json").write_text(json.dumps(form))
    assert "made with another tokenizer" in refused(lambda: load_model(str(base), adapter=tmp_path, device="cpu"))


def test_the_demo_model_is_run_by_the_engine_that_its_adapter_is_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("llama_cpp")
    monkeypatch.setattr("refactx.models.demo.prefers_gguf", lambda: True)
    assert engine_for("demo", EngineOptions()) == "llamacpp"
    assert engine_for("demo", EngineOptions(adapter=str(tmp_path / "adapter.gguf"))) == "llamacpp"
    assert engine_for("demo", EngineOptions(adapter=str(tmp_path))) == "transformers"


def test_what_is_no_adapter_is_refused_before_the_model_is_loaded(base: Path, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    assert "contains no adapter" in refused(lambda: load_model(str(base), adapter=tmp_path, device="cpu"))
    gguf = tmp_path / "adapter.gguf"
    gguf.touch()
    assert "for llama.cpp" in refused(lambda: load_model(str(base), adapter=gguf, device="cpu"))
    config = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
    peft.get_peft_model(tiny_model(), config).save_pretrained(tmp_path / "prompt")
    assert "learned prompt" in refused(lambda: load_model(str(base), adapter=tmp_path / "prompt", device="cpu"))


def test_without_peft_the_extra_is_named(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    message = refused(lambda: load_model(str(base), adapter=tmp_path, device="cpu"), InputError)
    assert message == "the package peft is not installed: pip install 'refactx[adapters]'"


def test_an_adapter_of_llamacpp_gives_the_texts_of_the_merged_model(index: LinkedIndex, tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp")
    from refactx.engines.llamacpp import load

    plain, adapter = write_tiny_gguf(tmp_path / "tiny.gguf"), tmp_path / "adapter.gguf"
    merged = write_tiny_gguf(tmp_path / "merged.gguf", changes=write_tiny_adapter(adapter))
    ids = tiny_fact_tokenizer().encode("hello, what is Fact:")

    def logits(path: Path, **options: Any) -> Any:
        engine = load(path, context=512, threads=1, **options).engine
        from refactx.engines.engine import Feed

        [found], _ = engine.feed([(engine.prefill(()), Feed(ids, len(ids)))])
        return found.copy()

    with_adapter, of_merged, without = logits(plain, adapter=adapter), logits(merged), logits(plain)
    assert np.abs(with_adapter - of_merged).max() < 0.05 < np.abs(without - of_merged).max()
    options = EngineOptions(engine="llamacpp", adapter=str(adapter), context=1024, threads=1)
    one = load_language_model(str(plain), index, options)
    other = load_language_model(str(merged), index, EngineOptions(engine="llamacpp", context=1024, threads=1))
    assert texts(one, one.tokenizer, index) == texts(other, other.tokenizer, index)


def test_what_an_adapter_changes_is_not_kept_for_the_model_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read of a prompt is kept in files for the next process."""
    pytest.importorskip("llama_cpp")
    from refactx.engines.engine import Feed
    from refactx.engines.llamacpp import load

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    plain, adapter = write_tiny_gguf(tmp_path / "tiny.gguf"), tmp_path / "adapter.gguf"
    write_tiny_adapter(adapter)
    ids = tiny_fact_tokenizer().encode("hello, what is it that is in b or in c? " * 8)

    def after(**options: Any) -> Any:
        engine = load(plain, context=1024, threads=1, **options).engine
        [found], _ = engine.feed([(engine.prefill(ids[:-1]), Feed(ids[-1:]))])
        return found.copy()

    first, with_adapter = after(), after(adapter=adapter)
    assert np.abs(first - with_adapter).max() > 0.05
    assert np.abs(first - after()).max() < 0.01
    assert np.abs(with_adapter - after(adapter=adapter)).max() < 0.01


def test_what_llamacpp_cannot_use_is_refused(tmp_path: Path, base: Path) -> None:
    pytest.importorskip("llama_cpp")
    from refactx.engines.llamacpp import load

    plain = write_tiny_gguf(tmp_path / "tiny.gguf")
    assert "there is no adapter" in refused(lambda: load(plain, context=512, threads=1, adapter=tmp_path / "none.gguf"))
    (tmp_path / "text.gguf").write_text("no adapter")
    wide, other = tmp_path / "wide.gguf", tmp_path / "other.gguf"
    write_tiny_adapter(wide, width=128)
    write_tiny_adapter(other, architecture="qwen2")
    for path in (tmp_path / "text.gguf", wide, other, plain):
        message = refused(lambda path=path: load(plain, context=512, threads=1, adapter=path))  # type: ignore[misc]
        assert message.startswith(f"llama.cpp cannot load the adapter {path}")
    options = EngineOptions(engine="llamacpp", adapter=str(base))
    assert "takes a GGUF file" in refused(lambda: load_language_model(str(plain), None, options))
