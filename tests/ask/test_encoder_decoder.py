"""Encoder-decoder models: the decoder writes only facts; the encoder's text does not matter."""

import copy
from functools import cache
from typing import Any

import pytest
import torch
from support.tiny_model import (
    FACTS,
    SURPLUS,
    Eager,
    check_text,
    ids,
    one_thread,  # noqa: F401
    prompts,
    tiny_index,
    tiny_model,
    tiny_tokenizer,
)
from transformers import LogitsProcessorList, T5Config, T5ForConditionalGeneration

from refactx.ask.grounded import GroundedModel, ground
from refactx.errors import ModelError

INDEX = tiny_index(FACTS)
TEXTS = ("what is Ann?", "Fact: <Ann> <p> <b> .\nFact: <Ann", "so")
MODES: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "no cache": {"do_sample": False, "use_cache": False},
    "static cache": {"do_sample": False, "cache_implementation": "static"},
    "sampling": {"do_sample": True, "temperature": 1.5},
    "several samples": {"do_sample": True, "num_return_sequences": 3},
    "beams": {"num_beams": 3, "do_sample": False},
    "beam sampling": {"num_beams": 3, "num_return_sequences": 2, "do_sample": True},
}


@cache
def t5() -> Any:
    torch.manual_seed(0)
    tokenizer = tiny_tokenizer()
    config = T5Config(
        vocab_size=len(tokenizer) + SURPLUS,
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        initializer_factor=3.0,
        decoder_start_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return T5ForConditionalGeneration(config).eval()


@cache
def grounded() -> GroundedModel:
    return ground(t5(), tiny_tokenizer(), INDEX)


def triggers() -> LogitsProcessorList:
    return LogitsProcessorList([Eager(8.0, pieces=False)])


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_writes_only_facts_and_none_twice(mode: str) -> None:
    torch.manual_seed(0)
    out = grounded().generate(**prompts(*TEXTS), logits_processor=triggers(), max_new_tokens=35, **MODES[mode])
    found = grounded().facts(out)
    assert sum(map(len, found)) > len(out)
    for row, facts in zip(out.tolist(), found, strict=True):
        assert row[0] == tiny_tokenizer().pad_token_id
        check_text(INDEX, row, 1, facts)


@pytest.mark.parametrize("mode", ["greedy", "beams"])
def test_each_text_of_a_batch_is_the_one_that_it_is_alone(mode: str) -> None:
    options = {"max_new_tokens": 40, **MODES[mode]}
    together = grounded().generate(**prompts(*TEXTS), logits_processor=triggers(), **options)
    facts = grounded().facts(together)
    for text, expected in zip(TEXTS, facts, strict=True):
        alone = grounded().generate(**prompts(text), logits_processor=triggers(), **options)
        assert grounded().facts(alone)[0] == expected


def test_the_decoder_may_begin_inside_a_fact() -> None:
    begun = torch.tensor([ids("<pad>", "so"[0], " Fact:", " <", "B")])
    out = grounded().generate(
        **prompts(TEXTS[0]), decoder_input_ids=begun, logits_processor=triggers(), max_new_tokens=40, do_sample=False
    )
    assert out[0, :5].tolist() == begun[0].tolist()
    facts = grounded().facts(out)[0]
    assert facts[0].subject.startswith("B")
    assert facts[0].token_span[0] == 3


def test_a_dictionary_may_be_returned() -> None:
    options: dict[str, Any] = {"max_new_tokens": 30, "do_sample": False}
    plain = grounded().generate(**prompts(*TEXTS), logits_processor=triggers(), **options)
    rich = grounded().generate(**prompts(*TEXTS), logits_processor=triggers(), **options, return_dict_in_generate=True)
    assert torch.equal(plain, rich.sequences)
    assert grounded().facts(plain) == grounded().facts(rich)


def test_an_assistant_changes_nothing() -> None:
    options: dict[str, Any] = {**prompts(TEXTS[0]), "max_new_tokens": 30, "do_sample": False}
    out = grounded().generate(**options, logits_processor=triggers(), assistant_model=copy.deepcopy(t5()))
    assert torch.equal(out, grounded().generate(**options, logits_processor=triggers()))


def test_fact_beams_and_prefixes_need_a_decoder_only_model() -> None:
    with pytest.raises(ModelError, match="fact beams"):
        grounded().generate(**prompts("so"), fact_beams=2, max_new_tokens=10)
    with pytest.raises(ModelError, match="T5ForConditionalGeneration"):
        grounded().prefill(prompts("so")["input_ids"])
    prefix = ground(tiny_model(), tiny_tokenizer(), INDEX).prefill(prompts("so")["input_ids"])
    with pytest.raises(ModelError, match="prefix"):
        grounded().generate(**prompts("so it"), prefix=prefix, max_new_tokens=10)
