"""How far a long task is, where standard error is no terminal."""

import pytest

import refactx.progress
from refactx.progress import progress_bar


def test_a_pipe_gets_lines_with_count_rate_and_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refactx.progress, "LINE_SECONDS", 0.0)
    with progress_bar("answers", 3, unit=" questions") as bar:
        for _ in range(2):
            bar.update()
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("refactx: answers: 0 of 3")]
    assert [line.split(",")[0] for line in lines] == ["refactx: answers: 1 of 3", "refactx: answers: 2 of 3"]
    assert all(line.endswith("left") and "questions" in line for line in lines)
    assert not any("\r" in line for line in lines)


def test_what_is_short_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(progress_bar("answers", 3, iterable=[1, 2, 3])) == [1, 2, 3]
    with progress_bar("facts") as bar:
        bar.update(1000)
    assert capsys.readouterr().err == ""
