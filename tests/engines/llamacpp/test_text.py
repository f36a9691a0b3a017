"""The tokenizer of a GGUF file: the ids of Transformers' tokenizer, and the index's tokenizer or an error.

`REFACTX_TEST_GGUF` may name folders, with `:` between them, that have a `model.gguf` and its `hf` folder.
"""

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2.exceptions import SecurityError, TemplateError
from support.llamacpp.tiny_gguf import TEMPLATE
from support.llamacpp.twins import tiny_llamacpp
from support.tiny_model import tiny_fact_tokenizer, tiny_tokenizer
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from refactx.errors import ModelError, TokenizerMismatchError
from refactx.tokenizer import FactTokenizer

pytest.importorskip("llama_cpp")
from refactx.engines.llamacpp import LlamaCppTokenizer, check_tokenizer, load
from refactx.engines.llamacpp.model import render

FOLDERS = [Path(name) for name in os.environ.get("REFACTX_TEST_GGUF", "").split(":") if name]
PIECES = (
    "<s>",
    "</s>",
    "<pad>",
    "Fact:",
    " <Ann> <p>",
    "é",
    "\u0301",
    "👩‍👩‍👧",
    "日本",
    "1234 56",
    "\r\n",
    "\u200b",
    "I'LL",
)
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=6).map("".join)
CONVERSATIONS = st.lists(TEXTS, min_size=1, max_size=4).map(
    lambda texts: [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]
)


@dataclass(frozen=True)
class Source:
    """What stands for an index: its tokenizer alone."""

    tokenizer: FactTokenizer
    tokenizer_name: str = "tiny"


@cache
def tokenizers(folder: Path | None) -> tuple[Any, LlamaCppTokenizer]:
    """The tokenizer of Transformers and that of the GGUF file; None: the tiny ones."""
    if folder is None:
        other, model = tiny_tokenizer(), tiny_llamacpp()
        other.chat_template = TEMPLATE
    else:
        other, model = AutoTokenizer.from_pretrained(folder / "hf"), load(folder / "model.gguf", context=256)
    facts = FactTokenizer.from_transformers(other)
    check_tokenizer(Source(facts), model.vocabulary)
    return other, LlamaCppTokenizer(model.vocabulary, model.chat_template, facts)


@pytest.mark.parametrize("folder", [None, *FOLDERS])
@settings(max_examples=150, derandomize=True)
@given(messages=CONVERSATIONS, prompt=st.booleans())
def test_conversations_have_the_ids_of_transformers(
    folder: Path | None, messages: list[dict[str, str]], prompt: bool
) -> None:
    other, own = tokenizers(folder)
    messages = [{**one, "content": one["content"].encode("utf-8", "replace").decode()} for one in messages]
    options = {"add_generation_prompt": prompt, "enable_thinking": False}
    expected = other.apply_chat_template(messages, return_dict=False, **options)
    assert own.apply_chat_template(messages, **options) == expected
    assert own.apply_chat_template(messages, tokenize=False, **options) == other.apply_chat_template(
        messages, tokenize=False, **options
    )
    for skip in (False, True):
        assert own.decode(expected, skip_special_tokens=skip) == other.decode(expected, skip_special_tokens=skip)


@pytest.mark.parametrize("folder", [None, *FOLDERS])
def test_special_tokens_are_those_of_transformers(folder: Path | None) -> None:
    other, own = tokenizers(folder)
    assert own.added_tokens_decoder == {n: str(token) for n, token in other.added_tokens_decoder.items()}
    assert (own.bos_token_id, own.eos_token_id) == (other.bos_token_id, other.eos_token_id)
    assert own.pad_token_id == other.pad_token_id
    assert own.eos_token_id in own.ends


def test_without_an_index_llama_cpp_encodes() -> None:
    other, own = tokenizers(None)
    alone = LlamaCppTokenizer(own.vocabulary, own.chat_template, None)
    text = "<s>Fact: <Ann> <p> <b> .</s>"
    assert alone.encode(text) == other.encode(text, add_special_tokens=False) == own.encode(text)
    assert "</s>" in alone.added_tokens_decoder.values()


def test_a_token_that_the_index_does_not_know_is_added() -> None:
    """Qwen2.5 and Qwen3 share an index, and differ in their control tokens."""
    form = Tokenizer.from_str(tiny_fact_tokenizer().serialized)
    plain = Tokenizer(form.model)
    plain.pre_tokenizer, plain.decoder = form.pre_tokenizer, form.decoder
    _, own = tokenizers(None)
    fewer = LlamaCppTokenizer(own.vocabulary, own.chat_template, FactTokenizer(plain.to_str()))
    for text in ("<s>a</s>", "<pad>", "Fact:"):
        assert fewer.encode(text) == own.encode(text)


def test_another_tokenizer_than_the_index_has_is_refused() -> None:
    _, own = tokenizers(None)
    form = json.loads(tiny_fact_tokenizer().serialized)
    check_tokenizer(Source(FactTokenizer(json.dumps(form))), own.vocabulary)
    words = form["model"]["vocab"]
    words["A"], words["B"] = words["B"], words["A"]
    with pytest.raises(
        TokenizerMismatchError,
        match=r"built for another tokenizer \(tiny, fingerprint \w{12}\) than .* --tokenizer MODEL$",
    ):
        check_tokenizer(Source(FactTokenizer(json.dumps(form))), own.vocabulary)


def test_a_model_without_a_chat_template_cannot_write_conversations() -> None:
    _, own = tokenizers(None)
    with pytest.raises(ModelError, match="no chat template"):
        LlamaCppTokenizer(own.vocabulary, None, None).apply_chat_template([{"role": "user", "content": "Who?"}])


def test_templates_have_what_transformers_gives_them() -> None:
    message = [{"role": "user", "content": "<é>"}]
    assert render("{{ messages | tojson }}", message, {}) == '[{"role": "user", "content": "<é>"}]'
    assert render("{% generation %}a{% endgeneration %}", message, {}) == "a"
    assert render("{% for n in [1, 2] %}{% break %}{% endfor %}b", message, {}) == "b"
    assert render("{% set ns = namespace(n=1) %}{% set ns.n = 2 %}{{ ns.n }}", message, {}) == "2"
    assert render("{{ strftime_now('%Y') | length }}", message, {}) == "4"
    with pytest.raises(TemplateError, match="no system role"):
        render("{{ raise_exception('no system role') }}", message, {})


@pytest.mark.parametrize(
    "template", ["{{ messages.append(1) }}", "{{ ''.__class__.__mro__ }}", "{{ namespace(__class__=1) }}"]
)
def test_templates_are_in_a_sandbox(template: str) -> None:
    with pytest.raises(SecurityError):
        render(template, [{"role": "user", "content": "Who?"}], {})
