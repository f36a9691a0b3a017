"""Continuations: results for several paths, in any order, equal those of plain passes over each whole text."""

from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.tiny_model import Passes, log_probabilities, one_thread, read_as, tiny_model  # noqa: F401

from refactx.choosing.continuations import Continuations
from refactx.engines.chooser import Reading
from refactx.engines.engine import Feed
from refactx.engines.hf.engine import TransformersEngine

TEXT = [5, 9, 12, 7]
PATHS = st.lists(st.lists(st.integers(5, 8), min_size=1, max_size=5).map(tuple), min_size=1, max_size=8)


@cache
def llama() -> Any:
    return tiny_model(1)


def read_text(ahead: tuple[int, ...] = ()) -> Reading:
    """The model after the text and `ahead`."""
    engine = TransformersEngine(llama())
    sequence = engine.prefill(TEXT[:-1])
    [logits] = engine.feed([Feed(sequence, [TEXT[-1], *ahead], last=1 + len(ahead))])
    return Reading(engine=engine, sequence=sequence, logits=logits, position=len(TEXT), room=99, ahead=ahead)


def log_softmax(logits: Any) -> torch.Tensor:
    return torch.tensor(logits).log_softmax(-1)


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
def test_logits_equal_those_of_plain_passes_and_the_model_continues_after_a_kept_path(
    asked: list[list[tuple[int, ...]]],
    ahead: tuple[int, ...],
    earlier: list[tuple[int, ...]],
    kept: tuple[int, ...],
    ids_a_pass: int,
) -> None:
    reading = read_text(ahead)
    with pytest.MonkeyPatch.context() as patch:
        for module in ("hf.trees",):
            patch.setattr(f"refactx.engines.{module}.IDS_A_PASS", ids_a_pass)
        continuations = Continuations.of(reading, earlier)
        for paths in asked:
            for path, row in zip([(), *paths], continuations.logits([(), *paths]), strict=True):
                assert torch.allclose(log_softmax(row), log_probabilities(llama(), [*TEXT, *path])[-1], atol=1e-4)
        texts = [path for path in asked[0] if len(path) > 1]
        found = continuations.log_probabilities([(path, len(path) - 1) for path in texts])
    for path, scores in zip(texts, found, strict=True):
        plain = log_probabilities(llama(), [*TEXT, *path])
        expected = [float(plain[len(TEXT) + n - 1, path[n]]) for n in range(1, len(path))]
        assert scores == pytest.approx(expected, abs=1e-3)
    read = continuations.keep(kept)
    assert read <= len(kept)
    [after] = reading.engine.feed([Feed(reading.sequence, [*kept[read:], 6])])
    assert torch.allclose(log_softmax(after[-1]), log_probabilities(llama(), [*TEXT, *kept, 6])[-1], atol=1e-4)


@torch.no_grad()
def test_paths_that_were_read_ahead_or_with_another_path_take_no_pass() -> None:
    continuations = Continuations.of(read_text((5, 6)), earlier=[(5, 7), (8, 9)])
    with Passes(llama()) as passes:
        continuations.logits([(), (5,), (5, 6)])
        assert passes.number == 0
        continuations.logits([(7,)])
        continuations.logits([(8, 9), (5, 7)])
        assert (passes.number, passes.ids) == (1, 4)
        assert continuations.asked == [(), (5,), (5, 6), (7,), (8, 9), (5, 7)]
    assert continuations.keep((8, 9, 10)) == 2
