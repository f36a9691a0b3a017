"""Models that cannot write the facts of an index are refused by name; others write them as they are."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.tiny_asker import LinkedIndex
from support.tiny_model import FACTS, prompts, tiny_fact_tokenizer, tiny_index, tiny_model, tiny_tokenizer
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from refactx import Asker, FactLogitsProcessor, Machine, ground
from refactx.errors import InputError, ModelError

SPECIALS = 3


def model_with(rows: int) -> LlamaForCausalLM:
    config = copy.deepcopy(tiny_model().config)
    config.vocab_size, config.pad_token_id = rows, None
    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval()


@pytest.mark.parametrize("fewer", [SPECIALS + 1, 8, 40, 281])
def test_a_model_with_fewer_rows_than_plain_text_has_ids_is_refused_by_both_sizes(fewer: int) -> None:
    tokenizer = tiny_tokenizer()
    with pytest.raises(ModelError, match=f"of {len(tokenizer) - fewer} tokens.* has {len(tokenizer)} tokens"):
        ground(model_with(len(tokenizer) - fewer), tokenizer, tiny_index(FACTS))


@pytest.mark.parametrize("more", [-SPECIALS, 0, 1, 500])
def test_more_rows_or_fewer_for_added_tokens_are_right(more: int) -> None:
    tokenizer = tiny_tokenizer()
    grounded = ground(model_with(len(tokenizer) + more), tokenizer, tiny_index(FACTS))
    for options in ({}, {"num_beams": 3}):
        out = grounded.generate(**prompts("a Fact:"), max_new_tokens=30, eos_token_id=None, pad_token_id=0, **options)
        assert grounded.facts(out)[0]
    if more < 0:
        with pytest.raises(InputError, match=f"the id {tokenizer.pad_token_id}, and the model has embeddings of 279"):
            grounded.generate(**prompts("a Fact:", "a longer prompt"), max_new_tokens=3)


def test_an_asker_needs_the_rows_of_its_chat_template_too() -> None:
    tokenizer = copy.deepcopy(tiny_tokenizer())
    tokenizer.chat_template = "{% for m in messages %}<s>{{ m['content'] }}</s>{% endfor %}"
    for index in (None, LinkedIndex(tiny_fact_tokenizer(), FACTS)):
        with pytest.raises(ModelError, match="embeddings of 279 tokens, and its tokenizer has 282 tokens"):
            Asker(model_with(len(tokenizer) - SPECIALS), tokenizer, index)


@pytest.mark.parametrize("kind", ["PromptTuningConfig", "PrefixTuningConfig", "PromptEncoderConfig"])
def test_a_learned_prompt_is_refused_and_works_with_the_processor(kind: str) -> None:
    import peft

    model = peft.get_peft_model(tiny_model(), getattr(peft, kind)(task_type="CAUSAL_LM", num_virtual_tokens=5))
    index, tokenizer = tiny_index(FACTS), tiny_tokenizer()
    with pytest.raises(ModelError, match=f"has a learned prompt .{kind}"):
        ground(model.eval(), tokenizer, index)
    processor = FactLogitsProcessor(index, tokenizer)
    out = model.generate(**prompts("a Fact:"), max_new_tokens=30, do_sample=False, logits_processor=[processor])
    assert Machine(index).facts(out[0].tolist(), processor.prompt_length or 0)


def test_the_name_of_an_index_is_refused_by_what_to_give() -> None:
    tokenizer = copy.deepcopy(tiny_tokenizer())
    calls: list[Callable[[Any], Any]] = [lambda name: FactLogitsProcessor(name, tokenizer), Machine]
    for call in calls:
        for name in ("default", Path("wikidata.refactx")):
            with pytest.raises(InputError, match=rf"with refactx.open_index\('{name}'\) as index"):
                call(name)


@pytest.mark.parametrize("end", ["b", "Ann", " .", "\n"])
def test_an_end_of_sequence_within_a_fact_does_not_end_the_text(end: str) -> None:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tiny_tokenizer().backend_tokenizer, pad_token="<pad>")
    (number,) = tokenizer.encode(end)
    grounded = ground(tiny_model(), tokenizer, tiny_index(["<Ann> <b> <b.b>"]))
    options: dict[str, Any] = {**prompts("a Fact:"), "max_new_tokens": 40, "eos_token_id": number, "do_sample": False}
    (fact,) = grounded.facts(grounded.generate(**options))[0]
    assert fact.text == "<Ann> <b> <b.b> ."
    if end == "\n":
        assert grounded.generate(**options, num_beams=2).shape[0] == 1
        return
    for loop in ({"num_beams": 2}, {"output_scores": True, "return_dict_in_generate": True}):
        with pytest.raises(ModelError, match=f"the id that ends texts, {number}"):
            grounded.generate(**options, **loop)
