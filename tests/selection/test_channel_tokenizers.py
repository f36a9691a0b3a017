"""The channel with tokenizers whose ids join a fact's parts."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from support.channel_runs import ALWAYS, GRAPH, channel, joining_tokenizer
from support.tiny_model import (
    MemoryIndex,
    check_text,
    one_thread,  # noqa: F401
)
from transformers import LlamaConfig, LlamaForCausalLM

from refactx.ask.grounded import ground
from refactx.tokenizer import FactTokenizer


@pytest.mark.parametrize("kind", ["byte level", "sentence piece"])
class TestTokenizersThatJoinParts:
    def written(
        self, kind: str, seed: int, graph: Sequence[str] = GRAPH, **options: Any
    ) -> tuple[MemoryIndex, list[int], int, list[Any]]:
        tokenizer = joining_tokenizer(kind)
        torch.manual_seed(seed)
        config = LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            initializer_range=0.5,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
        model, index = LlamaForCausalLM(config).eval(), MemoryIndex(FactTokenizer.from_transformers(tokenizer), graph)
        grounded, inputs = ground(model, tokenizer, index), torch.tensor([index.tokenizer.encode("a Fact:")])
        out = grounded.generate(
            inputs, channel=channel(index, **options), max_new_tokens=120, do_sample=False, eos_token_id=None
        )
        return index, out[0].tolist(), inputs.shape[1], grounded.facts(out)[0]

    @pytest.mark.parametrize("seed", range(2))
    def test_write_facts_and_none_twice(self, kind: str, seed: int) -> None:
        index, row, length, facts = self.written(kind, seed, another_fact_gain=ALWAYS)
        check_text(index, row, length, facts)
        assert len(facts) > 2
        lines = [line.strip() for line in index.tokenizer.decode(row[length:]).split("\n")]
        assert lines[0] == facts[0].text
        assert all(line.startswith("Fact:") for line in lines[1 : len(facts)])

    def test_write_the_other_values_too_and_no_description(self, kind: str) -> None:
        graph = ["<Ann> <p> <b>", "<Ann> <p> <c>", "<Ann> <description> <x>", "<Ann> <description> <y>"]
        index, row, length, facts = self.written(kind, 0, graph, another_fact_gain=math.inf)
        assert {fact.text for fact in facts[:2]} == {f"{fact} ." for fact in graph[:2]}
        assert index.tokenizer.decode(row[length:]).split("\n")[2].strip().startswith("Answer:")
