"""Scored continuations: results for several paths, in any order, equal those of plain passes over each whole text."""

from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.channel_runs import after_text
from support.tiny_model import FACTS, Passes, log_probabilities, one_thread, read_as, tiny_index, tiny_model  # noqa: F401

from refactx.engines.engine import Feed, ScoreReading, Steps
from refactx.selection.scores import ScoredContinuations

INDEX = tiny_index(FACTS)
TEXT = [5, 9, 12, 7]
PATHS = st.lists(st.lists(st.integers(5, 8), min_size=1, max_size=5).map(tuple), min_size=1, max_size=8)


@cache
def llama() -> Any:
    return tiny_model(1)


def log_softmax(logits: Any) -> torch.Tensor:
    return torch.tensor(logits).log_softmax(-1)


@pytest.mark.long
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
    def check(reading: ScoreReading) -> Steps[None]:
        continuations = ScoredContinuations.of(reading, earlier)
        for paths in asked:
            logits = yield from continuations.logits([(), *paths])
            for path, row in zip([(), *paths], logits, strict=True):
                assert torch.allclose(log_softmax(row), log_probabilities(llama(), [*TEXT, *path])[-1], atol=1e-4)
        texts = [path for path in asked[0] if len(path) > 1]
        found = yield from continuations.log_probabilities([(path, len(path) - 1) for path in texts])
        for path, scores in zip(texts, found, strict=True):
            plain = log_probabilities(llama(), [*TEXT, *path])
            expected = [float(plain[len(TEXT) + n - 1, path[n]]) for n in range(1, len(path))]
            assert scores == pytest.approx(expected, abs=1e-3)
        read = yield from continuations.keep(kept)
        assert read <= len(kept)
        [after] = yield Feed([*kept[read:], 6])
        assert torch.allclose(log_softmax(after), log_probabilities(llama(), [*TEXT, *kept, 6])[-1], atol=1e-4)

    with pytest.MonkeyPatch.context() as patch:
        for module in ("engine", "rows"):
            patch.setattr(f"refactx.engines.transformers.{module}.IDS_A_PASS", ids_a_pass)
        after_text(llama(), INDEX, TEXT, check, ahead)


@torch.no_grad()
def test_paths_that_were_read_ahead_or_with_another_path_take_no_pass() -> None:
    def check(reading: ScoreReading) -> Steps[None]:
        continuations = ScoredContinuations.of(reading, earlier=[(5, 7), (8, 9)])
        with Passes(llama()) as passes:
            yield from continuations.logits([(), (5,), (5, 6)])
            assert passes.number == 0
            yield from continuations.logits([(7,)])
            yield from continuations.logits([(8, 9), (5, 7)])
            assert (passes.number, passes.ids) == (1, 4)
            assert continuations.asked == [(), (5,), (5, 6), (7,), (8, 9), (5, 7)]
        assert (yield from continuations.keep((8, 9, 10))) == 2

    after_text(llama(), INDEX, TEXT, check, (5, 6))
