"""Continuations: whatever is asked of several paths, in whatever order, is what plain passes over each whole text say."""

from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.tiny_model import Passes, log_probabilities, one_thread, read_as, tiny_model  # noqa: F401

from refactx.choosing.continuations import continuations
from refactx.engines.hf.chunked import ChunkedModel
from refactx.engines.hf.prefix import prefill

TEXT = [5, 9, 12, 7]
PATHS = st.lists(st.lists(st.integers(5, 8), min_size=1, max_size=5).map(tuple), min_size=1, max_size=8)


@cache
def llama() -> Any:
    return tiny_model(1)


def behind_text(ahead: tuple[int, ...] = ()) -> tuple[ChunkedModel, torch.Tensor]:
    """The model behind the text and `ahead`, and the logits behind the text and each of the ids `ahead`."""
    inputs = {"past_key_values": prefill(llama(), [TEXT[:-1]]).cache, "position_ids": torch.arange(3)[None]}
    model = ChunkedModel(llama(), inputs, (1, 3))
    return model, model.feed([[TEXT[-1], *ahead]], last=1 + len(ahead))[0]


@pytest.mark.usefixtures("read_as")
@torch.no_grad()
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    asked=st.lists(PATHS, min_size=1, max_size=3),
    ahead=st.lists(st.integers(5, 8), max_size=3).map(tuple),
    earlier=PATHS,
    kept=st.lists(st.integers(5, 8), max_size=6).map(tuple),
    ids_a_pass=st.sampled_from([1, 3, 256]),
)
def test_logits_are_those_of_plain_passes_and_the_model_goes_on_behind_what_is_kept(
    asked: list[list[tuple[int, ...]]],
    ahead: tuple[int, ...],
    earlier: list[tuple[int, ...]],
    kept: tuple[int, ...],
    ids_a_pass: int,
) -> None:
    model, logits = behind_text(ahead)
    with pytest.MonkeyPatch.context() as patch:
        for module in ("engines.hf.chunked", "choosing.continuations"):
            patch.setattr(f"refactx.{module}.IDS_A_PASS", ids_a_pass)
        behind = continuations(model, logits, ahead, earlier)
        for paths in asked:
            for path, row in zip([(), *paths], behind.logits([(), *paths]), strict=True):
                assert torch.allclose(row.log_softmax(-1), log_probabilities(llama(), [*TEXT, *path])[-1], atol=1e-4)
        texts = [path for path in asked[0] if len(path) > 1]
        found = behind.of_last([(path, len(path) - 1) for path in texts])
    for path, scores in zip(texts, found, strict=True):
        plain = log_probabilities(llama(), [*TEXT, *path])
        expected = [float(plain[len(TEXT) + n - 1, path[n]]) for n in range(1, len(path))]
        assert scores == pytest.approx(expected, abs=1e-3)
    read = behind.keep(kept)
    assert read <= len(kept)
    behind_kept = model.feed([[*kept[read:], 6]])[0, -1].log_softmax(-1)
    assert torch.allclose(behind_kept, log_probabilities(llama(), [*TEXT, *kept, 6])[-1], atol=1e-4)


@torch.no_grad()
def test_what_was_read_ahead_or_with_another_path_takes_no_pass() -> None:
    model, logits = behind_text((5, 6))
    behind = continuations(model, logits, (5, 6), earlier=[(5, 7), (8, 9)])
    with Passes(llama()) as passes:
        behind.logits([(), (5,), (5, 6)])
        assert passes.number == 0
        behind.logits([(7,)])
        behind.logits([(8, 9), (5, 7)])
        assert (passes.number, passes.ids) == (1, 4)
        assert behind.asked == [(), (5,), (5, 6), (7,), (8, 9), (5, 7)]
    assert behind.keep((8, 9, 10)) == 2
