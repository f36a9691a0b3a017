"""Kinds of answers, samples with the shares of kinds, and questions of a language."""

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from refactx.cli.main import cli
from refactx.eval import AnswerTask
from refactx.eval.answers import Gold, is_equal
from refactx.eval.questions import Question, StratifiedSample, choose_questions, kinds_of, read_questions

FILES = Path(__file__).parent / "questions"


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=60), st.integers(1, 80), st.integers(0, 5))
def test_a_sample_has_the_shares_of_all(kinds: list[str], size: int, seed: int) -> None:
    asked = [
        Question(id=f"{n}", source="s", text="Q?", answers=(), kind=kind, key=f"{n}") for n, kind in enumerate(kinds)
    ]
    taken = choose_questions(asked, sample=StratifiedSample(size, "kind", seed))
    assert len(taken) == min(size, len(asked)) == len({one.key for one in taken})
    whole, found = Counter(kinds), Counter(one.kind for one in taken)
    for kind, number in whole.items():
        assert abs(found[kind] - len(taken) * number / len(asked)) < 1
    assert choose_questions(asked[::-1], sample=StratifiedSample(size, "kind", seed)) == taken, (
        "whatever the order of the file"
    )


def test_another_seed_takes_others_and_a_limit_comes_after() -> None:
    asked = [Question(id=f"{n}", source="s", text="Q?", answers=(), key=f"{n}") for n in range(100)]
    one, other = (choose_questions(asked, sample=StratifiedSample(20, seed=seed)) for seed in (1, 2))
    assert {q.id for q in one} != {q.id for q in other}
    assert choose_questions(asked, limit=5, sample=StratifiedSample(20, seed=1)) == one[:5]


def test_exact_match_is_letter_by_letter_but_for_case() -> None:
    golds = [Gold("Finnish"), Gold("Swedish")]
    assert [is_equal(said, golds) for said in ("finnish, swedish", "Swedish, Finnish", "Finnish and Swedish", "")] == [
        True, False, False, False,
    ]  # fmt: skip
    assert is_equal("Washington, D.C.", [Gold("Washington, D.C.")])
    assert is_equal("Ann.", [Gold("", "Q1", ("Ann", "Anna"))])
    assert not is_equal("", [Gold("")])


def test_kinds_of_published_sets_are_counted() -> None:
    for name in ("mintaka.json", "webqsp.json", "qald10.json"):
        read = read_questions(FILES / name)
        counts = kinds_of(FILES / name)
        for kind, row in counts.items():
            assert Counter(q.answer_kind for q in read if q.kind == kind) == {
                k: n for k, n in row.items() if k != "not given"
            }
    mintaka = json.loads((FILES / "mintaka.json").read_text())
    yes_or_no = sum(record["complexityType"] == "yesno" for record in mintaka)
    assert sum(row.get("yes or no", 0) for row in kinds_of(FILES / "mintaka.json").values()) == yes_or_no > 0


def test_the_shares_of_several_sets_are_printed_and_plotted(tmp_path: Path) -> None:
    plot, files = tmp_path / "kinds.svg", [str(FILES / name) for name in ("mintaka.json", "webqsp.json")]
    done = CliRunner().invoke(cli, ["questions", "kinds", *files, "--plot", str(plot)])
    assert done.exit_code == 0, done.output
    assert "| mintaka (" in done.stdout
    assert "webqsp: answers" in plot.read_text()
    kinds = {
        kind
        for file in files
        for row in [kinds_of(Path(file))]
        for kind in (*row, *(a for r in row.values() for a in r))
    }
    assert all(f">{kind}</text>" in plot.read_text() for kind in kinds), "the legend has each"
    counts = json.loads(CliRunner().invoke(cli, ["questions", "kinds", *files, "--json"]).stdout)
    assert counts == {Path(file).stem: kinds_of(Path(file)) for file in files}


@pytest.mark.parametrize("language", [None, "en", "de"])
def test_questions_without_a_text_in_a_language_are_counted(language: str | None, tmp_path: Path) -> None:
    file = tmp_path / "qald.json"
    texts = [[("en", "Who?"), ("de", "Wer?")], [("de", "Was?")], [("en", "Where?")]]
    records = [
        {"id": n, "question": [{"language": tag, "string": text} for tag, text in some], "answers": [{"boolean": True}]}
        for n, some in enumerate(texts)
    ]
    file.write_text(json.dumps({"questions": records}))
    task = AnswerTask(questions=file, model="m", language=language)
    assert {q.text for q in task.asked} == ({"Wer?", "Was?"} if language == "de" else {"Who?", "Where?"})
    assert task._left_out == 1


@pytest.mark.parametrize(("language", "text"), [(None, "Who?"), ("de", "Wer?")])
def test_a_text_beside_texts_by_language_is_taken_without_one(language: str | None, text: str, tmp_path: Path) -> None:
    file = tmp_path / "own.jsonl"
    file.write_text(json.dumps({"question": "Who?", "questions": {"de": "Wer?"}, "answers": ["a"]}))
    assert [question.text for question in read_questions(file, language)] == [text]
