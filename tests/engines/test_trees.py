"""Tree attention: the logits after several continuations that are read at once are those of each alone."""

from typing import Any

import pytest
import torch
from support.tiny_model import SURPLUS, log_probabilities, one_thread, prompts, tiny_model, tiny_tokenizer  # noqa: F401
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    DynamicCache,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoConfig,
    GPTNeoForCausalLM,
)

from refactx.engines.chooser import TreeReading
from refactx.engines.hf.chunked import ChunkedModel
from refactx.engines.hf.engine import tree_reading
from refactx.engines.hf.trees import AttentionTree

PATHS = [(5,), (6,), (5, 7), (6, 7), (6, 7, 8), (6, 9), (5, 7, 8)]
"""Each path comes after the one that it continues."""


def prefilled(model: Any, text: str, padding: int = 0) -> tuple[ChunkedModel, list[int]]:
    """The model after a text, whose prompt is padded on the left, and the text's ids."""
    ids: list[int] = prompts(text)["input_ids"][0].tolist()
    padded = torch.tensor([[0] * padding + ids])
    mask = torch.tensor([[0] * padding + [1] * len(ids)])
    inputs = inputs_of(model, padding + len(ids)) | {"attention_mask": mask}
    inputs["position_ids"] = (mask.cumsum(-1) - 1).clamp_min(0)
    with torch.no_grad():
        model(padded, **inputs)
    return ChunkedModel(model, inputs, (1, padded.shape[1])), ids


class Own(GPT2LMHeadModel):
    """A user's model class."""


def inputs_of(model: Any, length: int) -> dict[str, Any]:
    """A model's inputs as `generate` prepares them."""
    cache = DynamicCache(config=model.config)
    return {"past_key_values": cache, "position_ids": torch.arange(length)[None], "use_cache": True}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("padding", [0, 3])
@torch.no_grad()
def test_the_logits_after_a_path_equal_those_of_the_path_alone(attention: str, padding: int) -> None:
    model = tiny_model()
    model.set_attn_implementation(attention)
    trunk, ids = prefilled(model, "a b c", padding)
    trunk.feed([[5, 7]])
    branches = AttentionTree(trunk, (5, 7))
    assert (5, 7) in branches
    assert (6,) not in branches
    for some in (PATHS[1:2], PATHS[3:5], PATHS[5:]):  # in several passes, with the first path, which was read before
        [(numbers, logits)] = branches.read(some)
        for number, after in zip(numbers, logits, strict=True):
            expected = log_probabilities(model, [*ids, *some[number]])[-1]
            assert torch.allclose(torch.tensor(after).log_softmax(-1), expected, atol=1e-4)


@pytest.mark.parametrize("ahead", [(), (5, 7)])
@pytest.mark.parametrize("padding", [0, 3])
@torch.no_grad()
def test_a_kept_path_continues_the_text_and_nothing_else_remains(ahead: tuple[int, ...], padding: int) -> None:
    for kept, read in (((6, 7, 8), 3), ((6, 9, 11), 2), ((5, 7, 8), 3), ((11, 12), 0)):
        trunk, ids = prefilled(tiny_model(), "a b c", padding)
        if ahead:
            trunk.feed([list(ahead)])
        branches = AttentionTree(trunk, ahead)
        list(branches.read([path for path in PATHS if path not in branches]))
        assert branches.keep(kept) == read
        assert trunk.fed == padding + len(ids) + read
        for more in ([3], [4, 5]):  # the model continues it as it does any text
            following = trunk.feed([more])[0, -1].log_softmax(-1)
            ids += [*kept[: trunk.fed - padding - len(more) - len(ids)], *more]
            assert torch.allclose(following, log_probabilities(tiny_model(), ids)[-1], atol=1e-4)


def test_models_whose_attention_ignores_masks_have_no_tree_attention() -> None:
    common = {"vocab_size": len(tiny_tokenizer()) + SURPLUS, "n_layer": 1, "n_head": 2}
    learnt, alibi = (
        GPT2LMHeadModel(GPT2Config(**common, n_embd=16)),
        BloomForCausalLM(BloomConfig(**common, hidden_size=16)),
    )
    for model in (learnt, Own(learnt.config)):
        assert tree_reading(model, inputs_of(model, 3)) is TreeReading.ATTENTION
    assert tree_reading(alibi, inputs_of(alibi, 3) | {"position_ids": None}) is TreeReading.NONE
    local = GPTNeoForCausalLM(
        GPTNeoConfig(hidden_size=16, num_layers=2, num_heads=2, attention_types=[[["global", "local"], 1]])
    )
    assert tree_reading(local, inputs_of(local, 3)) is TreeReading.ROWS, "it counts places in the cache"
    flex = tiny_model()
    flex.set_attn_implementation("flex_attention")
    assert tree_reading(flex, inputs_of(flex, 3)) is TreeReading.ROWS
