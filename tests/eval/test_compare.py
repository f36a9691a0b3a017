"""Runs side by side: each figure of each report is in the table once, in its place, in every format."""

import csv
import io
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from support.eval_runs import SETTINGS, judged, write_answers

from refactx.cli.main import cli
from refactx.errors import InputError
from refactx.eval.compare import comma_separated, compare_runs, latex, markdown, plot
from refactx.eval.report import is_chosen, lead_of


def report(folder: Path, task: str = "answers", more: dict[str, Any] | None = None, **runs: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    settings = SETTINGS | {"questions_fingerprint": "a"} | (more or {})
    document = {"version": 2, "task": task, "settings": settings, "questions": 4, "judge": None}
    document["runs"] = {way: {"overall": figures} for way, figures in runs.items()}
    (folder / "report.json").write_text(json.dumps(document))
    return folder


def estimate(value: float) -> dict[str, Any]:
    return {"value": value, "low": value / 2, "high": (value + 1) / 2, "of": 4}


def test_a_run_of_answers_is_the_table_of_the_paper(tmp_path: Path) -> None:
    runs = {"grounded": [judged("Bern, Zug", []), judged("I don't know.", [])], "free": [judged("zug, bern", [])] * 2}
    (tmp_path / "a").mkdir()
    write_answers(tmp_path / "a", runs)
    table = compare_runs([tmp_path / "a"])
    assert table.rows == [("with facts", "m<b>"), ("free", "m<b>")]
    sets, figures, facts, free = table.grid()
    assert set(sets[2:]) == {"q (2)"}
    assert figures[2:] == [
        f"{of}, {by}" if by else of for by in ("EM", "exact", "") for of in ("Precision", "Accuracy")
    ]
    assert [cell.split()[0] for cell in facts[2:]] == ["1.00", "0.50"] * 3, "the text is the gold answer's"
    assert [cell.split()[0] for cell in free[2:]] == ["0.00", "0.00", "1.00", "1.00", "1.00", "1.00"], "another order"
    text = markdown(table)
    assert "| with facts | m&lt;b> | 1.00 (0.21 to 1.00) | 0.50 (" in text


def test_models_are_rows_and_sets_are_columns(tmp_path: Path) -> None:
    figures = {"accuracy": estimate(0.5), "precision": estimate(0.6), "judge_accuracy": None}
    paths = [
        report(tmp_path / f"{model}-{asked}", more={"model": model, "questions": asked}, grounded=figures, free=figures)
        for model in ("M1", "M2")
        for asked in ("mintaka", "webqsp")
    ]
    table = compare_runs(paths[:3])
    assert table.rows == [(way, model) for way in ("with facts", "free") for model in ("M1", "M2")]
    assert [asked for asked, _ in table.columns] == ["mintaka (4)"] * 2 + ["webqsp (4)"] * 2
    assert [figure.key for _, figure in table.columns] == ["precision", "accuracy"] * 2
    assert table.grid()[3][2:] == ["0.60 (0.30 to 0.80)", "0.50 (0.25 to 0.75)", "–", "–"]
    assert compare_runs(paths).grid()[3].count("–") == 0


def test_the_same_questions_stand_in_one_column_and_others_do_not(tmp_path: Path) -> None:
    figures = {"accuracy": estimate(0.5)}
    one = report(tmp_path / "one", grounded=figures)
    other = report(tmp_path / "other", more={"questions_fingerprint": "b"}, grounded=figures)
    again = report(tmp_path / "again", more={"index": "j"}, grounded=figures)
    table = compare_runs([one, other, again])
    assert [asked for asked, _ in table.columns] == ["q (4)", "q (4) 2"]
    assert [model for _, model in table.rows] == ["m<b> [one]", "m<b>", "m<b> [again]"]
    assert table.notes == ["index: m<b> [one] on q (4): i; m<b> on q (4) 2: i; m<b> [again] on q (4): j"]
    assert compare_runs([one, one]).rows == [("with facts", "m<b>")], "a run that is given twice is one"


def test_a_model_is_named_with_its_adapter(tmp_path: Path) -> None:
    figures = {"f1": estimate(0.5)}
    taught = [report(tmp_path / name, "queries", {"adapter": f"runs/{name}"}, ids=figures) for name in ("ids", "rag")]
    plain = report(tmp_path / "plain", "queries", ids=figures)
    assert [model for _, model in compare_runs([plain, *taught]).rows] == ["m<b>", "m<b> with ids", "m<b> with rag"]
    leads = [lead_of(json.loads((path / "report.json").read_text())) for path in (plain, taught[0])]
    assert leads[1].replace(" With the adapter runs/ids.", "") == leads[0] != leads[1]


def test_modes_of_packs_and_policies_are_compared_too(tmp_path: Path) -> None:
    packs = {"pack": "liita", "questions": None, "cases": "c"}
    modes = {"prompt": {"f1": estimate(0.1)}, "agent": {"f1": estimate(0.2)}}
    runs = [report(tmp_path / model, "translations", packs | {"model": model}, **modes) for model in ("a", "b")]
    assert compare_runs(runs).rows == [("prompt", "a"), ("prompt", "b"), ("agent", "a"), ("agent", "b")]
    policy = report(tmp_path / "q", "queries", ids={"bleu": 31.25, "f1": estimate(0.1)})
    assert compare_runs([policy]).grid()[2] == ["ids", "m<b>", "0.10 (0.05 to 0.55)", "31.2"]
    with pytest.raises(InputError, match="runs are of queries and translations: give runs of one of"):
        compare_runs([*runs, policy])


def test_a_run_whose_facts_the_question_did_not_choose_says_so(tmp_path: Path) -> None:
    figures = {"accuracy": estimate(0.5)}
    paths = [report(tmp_path / name, more={"channel": True}, grounded=figures) for name in ("a", "b")]
    document = json.loads((paths[0] / "report.json").read_text())
    for path, found in zip(paths, (None, {"points": []}), strict=True):
        document["runs"]["grounded"]["confidence"] = found
        (path / "report.json").write_text(json.dumps(document))
    assert [is_chosen(json.loads((path / "report.json").read_text())) for path in paths] == [False, True]
    assert sum("not chosen by the question" in note for note in compare_runs(paths).notes) == 1


def test_what_cannot_be_compared_is_reported(tmp_path: Path) -> None:
    run = report(tmp_path / "a", grounded={"accuracy": estimate(0.5)})
    for path, figures, expected in (
        (tmp_path / "none", (), "cannot be read .*: give the folder or report.json of a run"),
        (run, ("hit",), "there is no figure hit: give some of accuracy, precision"),
        (run, ("em_accuracy",), "no run has em_accuracy"),
    ):
        with pytest.raises(InputError, match=expected):
            compare_runs([path], figures)
    (tmp_path / "a" / "run.json").write_text('{"task": "answers"}')
    with pytest.raises(InputError, match="no report of refactx eval of this release"):
        compare_runs([tmp_path / "a" / "run.json"])


def test_a_plot_has_the_shares_alone(tmp_path: Path) -> None:
    run = report(tmp_path / "a", grounded={"accuracy": estimate(0.5), "tokens": estimate(40.0)})
    svg = plot(compare_runs([run], ("accuracy", "tokens")))
    ElementTree.fromstring(svg.partition("\n")[2])
    assert "Accuracy, q (4)" in svg
    assert "Tokens" not in svg
    with pytest.raises(InputError, match="no figure is a share"):
        plot(compare_runs([run], ("tokens",)))


names = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=8).filter(str.strip)


@given(st.lists(st.tuples(names, names, st.floats(0, 1)), min_size=1, max_size=6, unique_by=lambda one: one[:2]))
def test_every_figure_is_there_once_in_every_format(tmp_path_factory: pytest.TempPathFactory, made: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("runs")
    paths = [
        report(folder / str(at), more={"model": model, "questions": asked}, grounded={"accuracy": estimate(value)})
        for at, (model, asked, value) in enumerate(made)
    ]
    table = compare_runs(paths)
    lines = list(csv.DictReader(io.StringIO(comma_separated(table))))
    assert sorted(float(line["value"]) for line in lines) == sorted(value for *_, value in made)
    found = [cell for row in table.grid()[2:] for cell in row[2:] if cell != "–"]
    assert sorted(cell.split()[0] for cell in found) == sorted(f"{value:.2f}" for *_, value in made)
    width = 2 + len(table.columns)
    for line in markdown(table).splitlines()[: 2 + len(table.rows)]:
        assert line.replace(r"\|", "").count("|") == width + 1
    for line in latex(table).splitlines():
        if line.endswith(r"\\") and "multicolumn" not in line:
            assert line.replace(r"\&", "").count("&") == width - 1


def test_the_command(tmp_path: Path) -> None:
    run = report(tmp_path / "a", grounded={"accuracy": estimate(0.5)})
    for form, expected in (
        ("markdown", "| with facts |"),
        ("latex", r"\begin{tabular}{llr}"),
        ("csv", "with facts,m<b>,q (4),"),
    ):
        done = CliRunner().invoke(
            cli, ["eval", "compare", str(run), "--format", form, "--plot", str(tmp_path / "p.svg")]
        )
        assert done.exit_code == 0, done.output
        assert expected in done.stdout
    assert (tmp_path / "p.svg").read_text().startswith("<?xml")
    done = CliRunner().invoke(cli, ["eval"], standalone_mode=True)
    assert "--model" in done.output, "without one of its commands it is the command itself"
