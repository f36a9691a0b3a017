"""Prompts that share a beginning, and the tiny model after it."""

from functools import cache
from typing import Any

from refactx.ask.grounded import GroundedModel, ground
from support.tiny_model import FACTS, tiny_index, tiny_model, tiny_tokenizer

INDEX = tiny_index(FACTS)


TEXTS = ("so", "a Fact:", "Fact: <Ann> <p> <c> .\nFact: <B", "hello", "Fact: <Ann> <p> <b> .\n Fact:")


MODES: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampling": {"do_sample": True, "temperature": 1.5},
    "top-p": {"do_sample": True, "top_p": 0.5},
    "several samples": {"do_sample": True, "num_return_sequences": 3},
    "beams": {"num_beams": 3, "do_sample": False},
    "several beams": {"num_beams": 4, "num_return_sequences": 2, "do_sample": False},
    "beam sampling": {"num_beams": 3, "num_return_sequences": 2, "do_sample": True},
    "fact beams": {"fact_beams": 3, "do_sample": False},
    "fact beams in samples": {"fact_beams": 2, "do_sample": True},
    "scores": {"do_sample": False, "output_scores": True, "return_dict_in_generate": True},
    # In these modes Transformers cannot continue from a cache: it computes the prompt again.
    "no cache": {"do_sample": False, "use_cache": False},
    "static cache": {"do_sample": False, "cache_implementation": "static"},
    "prompt lookup": {"do_sample": False, "prompt_lookup_num_tokens": 4},
}


@cache
def grounded() -> GroundedModel:
    return ground(llama(), tiny_tokenizer(), INDEX)


@cache
def llama() -> Any:
    return tiny_model()
