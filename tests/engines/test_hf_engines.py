"""The engines over Transformers: which model gets which, and how they take over and give back its caches.

What they compute is tested in `test_engine_conformance`.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch
from support.loop_runs import other_model
from support.tiny_model import SURPLUS, log_probabilities, one_thread, tiny_model, tiny_tokenizer  # noqa: F401
from transformers import (
    DynamicCache,
    GPT2LMHeadModel,
    GPTNeoConfig,
    GPTNeoForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from refactx.engines.engine import Engine, Feed, FeedTree, Logits, TreeReading
from refactx.engines.transformers.engine import PackedEngine
from refactx.engines.transformers.internals import CACHE, chooses_logits
from refactx.engines.transformers.rows import RowsEngine, engine_of, takes_masks
from refactx.errors import ModelError

KINDS = pytest.mark.parametrize("kind", [PackedEngine, RowsEngine])
TEXTS = [[5, 9, 12, 7], [6, 8], [5, 9, 12, 7, 30, 31, 32]]
VOCABULARY = len(tiny_tokenizer()) + SURPLUS


class Own(GPT2LMHeadModel):
    """A user's model class."""


def flexible() -> Any:
    model = tiny_model()
    model.set_attn_implementation("flex_attention")
    return model


def local() -> Any:
    layers = [[["global", "local"], 1]]
    return GPTNeoForCausalLM(GPTNeoConfig(hidden_size=16, num_layers=2, num_heads=2, attention_types=layers))


def encoder_decoder() -> Any:
    return T5ForConditionalGeneration(T5Config(vocab_size=50, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2))


def batch(model: Any, mask: torch.Tensor, rows: list[list[int]], offset: int = 0) -> tuple[dict[str, Any], int]:
    """A model's inputs as `generate` prepares them, after it has read rows at the places where `mask` is 1."""
    ids = torch.zeros_like(mask)
    for row, text in enumerate(rows):
        ids[row, mask[row].bool()] = torch.tensor(text)
    positions = (mask.cumsum(-1) - 1).clamp_min(0) + offset
    inputs = {"attention_mask": mask, "position_ids": positions, CACHE: DynamicCache(config=model.config)}
    with torch.no_grad():
        model(input_ids=ids, **inputs, use_cache=True)
    return inputs | {"use_cache": True}, ids.shape[1]


@contextmanager
def failing(model: Any, after: int = 0) -> Iterator[None]:
    """Within the block, passes after the first ones fail."""
    passes = count()

    def fail(*_: Any) -> None:
        if next(passes) >= after:
            raise MemoryError

    hook = model.register_forward_pre_hook(fail)
    yield
    hook.remove()


def check(model: Any, logits: Logits, text: list[int]) -> None:
    """Check the logits after a text against those of a plain pass."""
    found = torch.tensor(logits[-1]).log_softmax(-1)
    assert torch.allclose(found, log_probabilities(model, text)[-1], atol=1e-4)


class TestChoice:
    @pytest.mark.parametrize(
        ("make", "packed"),
        [
            (tiny_model, True),
            (lambda: other_model("learnt positions"), True),
            (lambda: Own(other_model("learnt positions").config), True),
            (lambda: other_model("alibi"), False),
            (lambda: other_model("sliding window"), True),
            (lambda: other_model("state space"), False),
            (local, False),
            (flexible, False),
            (encoder_decoder, False),
        ],
    )
    def test_models_whose_attention_may_ignore_masks_are_not_packed(self, make: Any, packed: bool) -> None:
        model = make()
        assert takes_masks(model) is packed
        assert type(engine_of(model)) is (PackedEngine if packed else RowsEngine)

    @pytest.mark.parametrize("attention", ["sdpa", "eager"])
    @pytest.mark.parametrize("name", ["llama", "learnt positions"])
    def test_sequences_of_a_pass_do_not_see_each_other(self, attention: str, name: str) -> None:
        model = tiny_model() if name == "llama" else other_model(name)
        before = model.config._attn_implementation
        model.set_attn_implementation(attention)
        engine = engine_of(model)
        assert isinstance(engine, PackedEngine)
        feeds = [(engine.prefill(text[:-1]), Feed(text[-1:])) for text in TEXTS]
        tree = engine.tree(feeds[0][0])
        logits, _ = engine.feed(feeds[1:], [FeedTree(tree, [(7,), (8,), (7, 9)])])
        _, [(numbers, after)] = engine.feed([], [FeedTree(tree, [(7,), (8,), (7, 9)])])
        for text, found in zip(TEXTS[1:], logits, strict=True):
            check(model, found, text)
        for number, found in zip(numbers, after, strict=True):
            check(model, found[None], [*TEXTS[0][:-1], *[(7,), (8,), (7, 9)][number]])
        model.set_attn_implementation(before)

    @pytest.mark.parametrize("name", ["sliding window", "learnt positions", "alibi", "state space"])
    def test_rows_without_padding_have_the_logits_of_each_text_alone(self, name: str) -> None:
        """Sequences are fed together with as many ids, alone with others, and fork; trees are rows of one length."""
        model = other_model(name)
        engine, paths = RowsEngine(model), [(7,), (8,), (7, 9), (8, 3, 4)]
        assert engine.trees is TreeReading.ROWS
        assert engine.can_forget is (name in ("learnt positions", "alibi"))
        sequences = [engine.prefill(text[:-1]) for text in TEXTS]
        engine.feed([(one, Feed(text[-1:])) for one, text in zip(sequences, TEXTS, strict=True)])
        added = ([20, 21], [22], [23, 24])
        logits, _ = engine.feed([(one, Feed(ids)) for one, ids in zip(sequences, added, strict=True)])
        texts = [[*text, *ids] for text, ids in zip(TEXTS, added, strict=True)]
        logits += engine.feed([(engine.fork(sequences[1]), Feed([25])), (sequences[0], Feed([26]))])[0]
        texts += [[*texts[1], 25], [*texts[0], 26]]
        for found, text in zip(logits, texts, strict=True):
            check(model, found, text)
        tree, left = engine.tree(sequences[2]), set(range(len(paths)))
        while left:
            _, [(numbers, after)] = engine.feed([], [FeedTree(tree, paths, sorted(left))])
            for number, found in zip(numbers, after, strict=True):
                check(model, found[None], [*texts[2], *paths[number]])
            left -= set(numbers)

    def test_a_layer_with_a_window_sees_the_same_after_ids_were_taken_back(self) -> None:
        model, text = other_model("sliding window"), list(range(5, 25))
        assert model.config.sliding_window < len(text)
        engine = engine_of(model)
        sequence = engine.prefill(text)
        engine.forget(sequence, 9)
        [found], _ = engine.feed([(engine.fork(sequence), Feed([40, 41]))])
        check(model, found, [*text[:-9], 40, 41])
        assert model.config._attn_implementation == "sdpa"

    def test_there_is_room_for_some_ids(self) -> None:
        engine = PackedEngine(tiny_model())
        assert 1000 < engine.capacity == engine.capacity


@KINDS
class TestCaches:
    @pytest.mark.parametrize(
        "mask",
        [
            [[0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 0, 1, 1], [1, 1, 1, 1, 1, 1, 1]],
            [[1, 1, 0, 0, 0, 0, 1, 1, 0], [1, 0, 0, 0, 0, 0, 1, 0, 0], [1, 1, 1, 0, 0, 1, 1, 1, 1]],
        ],
        ids=["on the left", "within"],
    )
    def test_padding_is_not_seen(self, kind: Any, mask: list[list[int]]) -> None:
        model = tiny_model()
        engine: Engine = kind(model)
        inputs, width = batch(model, torch.tensor(mask), TEXTS)
        sequences = engine.add_cache(inputs, (3, width))  # type: ignore[attr-defined]
        logits, _ = engine.feed([(one, Feed([7, 40 + n])) for n, one in enumerate(sequences)])
        for n, text in enumerate(TEXTS):
            check(model, logits[n], [*text, 7, 40 + n])
            engine.forget(sequences[n], 1)
            [again], _ = engine.feed([(sequences[n], Feed([3]))])
            check(model, again, [*text, 7, 3])

    def test_prompts_may_begin_at_another_position(self, kind: Any) -> None:
        model = tiny_model()
        engine: Engine = kind(model)
        inputs, width = batch(model, torch.ones((1, 4), dtype=torch.long), TEXTS[:1], offset=9)
        [sequence] = engine.add_cache(inputs, (1, width))  # type: ignore[attr-defined]
        [found], _ = engine.feed([(sequence, Feed([7]))])
        with torch.no_grad():
            plain = model(input_ids=torch.tensor([[*TEXTS[0], 7]]), position_ids=torch.arange(5)[None] + 9)
        np.testing.assert_allclose(found[-1], plain.logits[0, -1].numpy(), atol=1e-4)

    def test_the_callers_cache_has_in_the_end_what_was_read(self, kind: Any) -> None:
        model = tiny_model()
        engine: Engine = kind(model)
        inputs, width = batch(model, torch.ones((1, 4), dtype=torch.long), TEXTS[:1])
        [sequence] = engine.add_cache(inputs, (1, width))  # type: ignore[attr-defined]
        other = engine.fork(sequence)
        engine.feed([(sequence, Feed([7, 8])), (other, Feed([9]))])
        engine.forget(sequence, 1)
        if isinstance(engine, PackedEngine):
            engine.write_cache(sequence, inputs[CACHE])
        cache = inputs[CACHE]
        assert cache.get_seq_length() == 5
        with torch.no_grad():
            after = model(input_ids=torch.tensor([[11]]), **{CACHE: cache}).logits[0].numpy()
        check(model, after, [*TEXTS[0], 7, 11])


class TestErrors:
    """An error of the model leaves nothing in the engine."""

    @pytest.mark.parametrize("trees", [False, True])
    def test_of_a_pass(self, trees: bool) -> None:
        model = tiny_model()
        engine = PackedEngine(model)
        sequences = [engine.prefill(text) for text in TEXTS]
        asked = [FeedTree(engine.tree(sequences[2]), [(5,), (6,), (5, 7)])] if trees else []
        with failing(model), pytest.raises(MemoryError):
            engine.feed([(sequences[0], Feed([7, 8])), (sequences[1], Feed([9]))], asked)
        [after], _ = engine.feed([(sequences[0], Feed([7]))])
        check(model, after, [*TEXTS[0], 7])
        for one in sequences:
            engine.drop(one)
        assert engine._cells.taken == 0

    def test_of_a_prompt(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("refactx.engines.transformers.engine.IDS_A_PASS", 3)
        model = tiny_model()
        engine = PackedEngine(model)
        with failing(model, after=2), pytest.raises(MemoryError):
            engine.prefill(list(range(20)))
        assert engine._cells.taken == 0
        assert not engine._sequences


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "dynamic", "factor": 2.0},
        {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "factor": 2.0},
    ],
)
def test_models_whose_positions_depend_on_other_texts_are_not_packed(rope: dict[str, Any]) -> None:
    model = tiny_model()
    assert takes_masks(model)
    model.config.rope_parameters = {**model.config.rope_parameters, **rope}
    assert not takes_masks(model)


def test_heads_share_keys_during_passes_and_neither_model_nor_process_is_changed() -> None:
    model, before, seen = tiny_model(), dict(os.environ), list[Any]()
    assert model.config._attn_implementation == "sdpa"
    assert model.config.num_key_value_heads < model.config.num_attention_heads
    hook = model.register_forward_pre_hook(
        lambda *_: seen.append((model.config._attn_implementation, dict(os.environ)))
    )
    PackedEngine(model).prefill([5, 6])
    hook.remove()
    assert seen == [("refactx_sdpa", before)]
    assert (model.config._attn_implementation, dict(os.environ)) == ("sdpa", before)


def test_passes_of_several_engines_at_once_and_plain_passes_have_the_same_logits() -> None:
    model = tiny_model()
    ids = [[5 + number, 6, 7, 8 + number] for number in range(8)]

    def by_model(one: list[int]) -> Any:
        with torch.no_grad():
            return model(torch.tensor([one])).logits[0, -1].numpy()

    def by_engine(one: list[int]) -> Any:
        engine = PackedEngine(model)
        [logits], _ = engine.feed([(engine.prefill(()), Feed(one, last=1))])
        return logits[0]

    expected = [by_model(one) for one in ids]
    with ThreadPoolExecutor(4) as pool:
        reads = [pool.submit(read, one) for one in ids for read in (by_engine, by_model)]
        for number, read in enumerate(reads):
            np.testing.assert_allclose(read.result(), expected[number // 2], atol=1e-4)


def test_a_private_member_that_transformers_has_no_more_is_named_in_one_line() -> None:
    with pytest.raises(
        ModelError, match=r"no `_supports_logits_to_keep` that refactx uses: pip install 'transformers>="
    ):
        chooses_logits(object())
