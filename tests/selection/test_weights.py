"""Files of weights: what is written is read again, what is missing is ours, and what cannot be is said."""

from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refactx.ask.prompt import Prompt
from refactx.errors import InputError
from refactx.selection.weights import Weights, load_weights, weights_file

SOME = st.builds(
    Weights,
    **{one.name: st.integers(1, 99) if one.type is int else st.floats(0, allow_nan=False) for one in fields(Weights)},
)


@given(SOME)
def test_a_file_has_the_weights_that_were_written(tmp_path_factory: pytest.TempPathFactory, weights: Weights) -> None:
    path = tmp_path_factory.mktemp("weights") / "w.toml"
    path.write_text(weights_file(weights))
    assert load_weights(path) == weights


def test_weights_that_a_file_does_not_have_stay(tmp_path: Path) -> None:
    path, base = tmp_path / "w.toml", Weights(tie_gap=9.0, names=1)
    path.write_text("names = 2\nkeep_within = 1\n")
    assert asdict(load_weights(path, base)) == asdict(base) | {"names": 2, "keep_within": 1}
    prompt = Prompt(system="", min_confidence=7.0)
    assert prompt.weighted(path).min_confidence == 7.0
    path.write_text("min_confidence = 2.5\n")
    found = prompt.weighted(path)
    assert (found.min_confidence, found.weights) == (2.5, replace(Weights(), min_confidence=2.5))
    assert prompt.weighted(None) is prompt


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tie = 1", "there is no weight tie: use property_weight, "),
        ("names = 2.5", "names is 2.5: give a whole number"),
        ("names = 0", "names is 0: give at least 1"),
        ("tie_gap = 'much'", "tie_gap is 'much': give a number"),
        ("tie_gap = true", "tie_gap is True: give a number"),
        ("tie_gap = nan", "tie_gap is nan: give at least 0"),
        ("tie_gap = -1", "tie_gap is -1: give at least 0"),
        ("tie_gap", "are not valid: "),
    ],
)
def test_a_file_that_is_not_valid_is_refused(tmp_path: Path, text: str, told: Any) -> None:
    (tmp_path / "w.toml").write_text(text)
    with pytest.raises(InputError, match=r"the weights .*w\.toml are not valid") as caught:
        load_weights(tmp_path / "w.toml")
    assert told in str(caught.value)
    with pytest.raises(InputError, match="there is no file of weights"):
        load_weights(tmp_path / "other.toml")
