"""Common parts of the tests of the loop: the tiny model with and without it, prompts, and ways to call `generate`."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from hypothesis import settings
from hypothesis import strategies as st
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LogitsProcessorList,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

from refactx.ask.grounded import GroundedModel, ground
from refactx.engines.transformers.processor import FactLogitsProcessor
from support.tiny_model import (
    FACTS,
    PROMPTS,
    SURPLUS,
    MemoryIndex,
    allowed_by_brute_force,
    tiny_index,
    tiny_model,
    tiny_tokenizer,
)

MODES: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "static cache": {"do_sample": False, "cache_implementation": "static"},
    "no cache": {"do_sample": False, "use_cache": False},
    "sampling": {"do_sample": True, "temperature": 1.5, "top_k": 5},
    "top-p": {"do_sample": True, "top_p": 0.5},
    "several samples": {"do_sample": True, "num_return_sequences": 3},
    "beams": {"num_beams": 3, "do_sample": False},
    "several beams": {"num_beams": 5, "num_return_sequences": 5, "do_sample": False},
    "beam sampling": {"num_beams": 3, "num_return_sequences": 2, "do_sample": True},
}
"""Ways to call `generate`."""

Inputs = dict[str, torch.Tensor]


@cache
def llama(seed: int = 0) -> Any:
    return tiny_model(seed)


@cache
def index() -> MemoryIndex:
    return tiny_index(FACTS)


@cache
def grounded(seed: int = 0) -> GroundedModel:
    return ground(llama(seed), tiny_tokenizer(), index())


def by_transformers(model: Any, inputs: Inputs, given: Sequence[Any] = (), **options: Any) -> Any:
    """The output of Transformers' own loop with the processor."""
    processors = LogitsProcessorList([*given, FactLogitsProcessor(index(), tiny_tokenizer())])
    return model.generate(**inputs, logits_processor=processors, **options)


def both(model: Any, inputs: Inputs, given: Sequence[Any] = (), seed: int = 0, **options: Any) -> tuple[Any, Any]:
    """The outputs of `grounded.generate` and of Transformers' own loop for the same seed."""
    torch.manual_seed(seed)
    ours = ground(model, tiny_tokenizer(), index()).generate(
        **inputs, logits_processor=LogitsProcessorList(given), **options
    )
    torch.manual_seed(seed)
    return ours, by_transformers(model, inputs, given, **options)


def fact_count(out: Any, inputs: Inputs) -> int:
    return sum(map(len, grounded().facts(out, prompt_length=inputs["input_ids"].shape[1])))


def unforced(row: Sequence[int], prompt_length: int) -> int:
    """The number of ids after the prompt that had an alternative, by brute force. The prompt may end in a trigger or a
    fact."""
    text = index().tokenizer.decode(row[:prompt_length])
    begun = "Fact:" in text and "." not in text[text.rindex("Fact:") :]
    start = prompt_length
    while begun and "Fact:" not in index().tokenizer.decode(row[start:prompt_length]):
        start -= 1
    before = index().tokenizer.decode_bytes(row[:start])
    choices = [allowed_by_brute_force(index(), row[start:at], before) for at in range(prompt_length, len(row))]
    return sum(choice is None or len(choice) > 1 for choice in choices)


def some_texts(most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from([*PROMPTS, "a b c", "in", "b Fact: <Ann", "Fact"]), min_size=1, max_size=most)


# Floating-point sums in another order differ in the last bits: with new random examples in each run, one in some
# million ids might differ. So the examples are always the same.
def examples(number: int) -> settings:
    return settings(max_examples=number, deadline=None, derandomize=True)


class Streamer:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def put(self, value: torch.Tensor) -> None:
        self.seen.append(value.tolist())

    def end(self) -> None:
        self.seen.append("end")


@cache
def other_model(name: str) -> Any:
    common = {
        "vocab_size": len(tiny_tokenizer()) + SURPLUS,
        "initializer_range": 0.5,
        "bos_token_id": tiny_tokenizer().bos_token_id,
        "eos_token_id": tiny_tokenizer().eos_token_id,
        "pad_token_id": tiny_tokenizer().pad_token_id,
    }
    llama_like = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(0)
    model: Any
    match name:
        case "sliding window":
            model = MistralForCausalLM(
                MistralConfig(**common, **llama_like, num_key_value_heads=1, head_dim=8, sliding_window=6)
            )
        case "learnt positions":
            model = GPT2LMHeadModel(GPT2Config(**common, n_embd=16, n_layer=2, n_head=2, n_positions=128))
        case "alibi":
            model = BloomForCausalLM(BloomConfig(**common, hidden_size=16, n_layer=2, n_head=2))
        case _:
            model = MambaForCausalLM(MambaConfig(**common, hidden_size=16, num_hidden_layers=2, state_size=4))
    return model.eval()
