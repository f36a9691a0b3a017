"""Translations are scored by their rows; a stopped run continues; a run gives a confidence."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest
from pyoxigraph import Literal
from support.translate.kennel import CATS, DOGS, KENNEL, NONE, Scripted, kennel_engine

from refactx.errors import InputError, ModelError
from refactx.eval import PackTask, evaluate
from refactx.eval.calibration import calibrate_pack
from refactx.eval.execution import rows_f1
from refactx.eval.pack_task import Mode, cases_of, components_found
from refactx.eval.report import lines
from refactx.sparql.engines import Rows
from refactx.sparql.packs.pack import Pack
from refactx.sparql.packs.translation import confidence_of, features_of, save
from refactx.sparql.packs.translator import TranslateOptions, Translator

CASES = [
    {"id": "a", "questions": {"en": "Which dogs?", "it": "Quali cani?"}, "sparql": f"PREFIX ex: <http://e.org/> {DOGS}",
     "primary": ["dog"], "category": "simple", "patterns": ["AGE"], "components": ["ex:Dog"]},
    {"id": "b", "questions": {"en": "How many cats?"}, "sparql": f"PREFIX ex: <http://e.org/> {CATS}",
     "primary": ["cat"], "category": "complex", "patterns": ["COUNT"]},
    {"id": "c", "questions": {"en": "Only components?"}, "components": ["ex:Dog"]},
]  # fmt: skip


@pytest.fixture
def pack(tmp_path: Path) -> Pack:
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in CASES))
    return replace(KENNEL, folder=tmp_path)


def rows(*lines: str, names: str = "x") -> Rows:
    cells = [tuple(Literal(cell) for cell in line.split()) for line in lines]
    return Rows(tuple(names.split()), cells)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (rows("1", "2"), 1.0),
        (rows("1", "3"), 0.5),
        (rows("9 2", "9 1", names="n m"), 1.0),
        (rows("1.0", "2", "2"), 1.0),
        (rows(), 0.0),
        (rows("3 4", names="n m"), 0.0),
        (True, 0.0),
        (None, 0.0),
    ],
)
def test_rows_count_as_a_set_whatever_their_columns_are_called(found: Rows | bool | None, expected: float) -> None:
    assert rows_f1(rows("1 a", "2 b", names="x other"), ["x"], found) == expected


def test_all_primary_variables_have_to_be_there() -> None:
    gold = rows("1 a", "2 b", names="x y")
    assert rows_f1(gold, ["x", "y"], rows("1", "2")) == 0.0
    assert rows_f1(gold, ["x", "y"], rows("a 1", "b 2", names="p q")) == 1.0
    assert rows_f1(gold, ["x", "y"], rows("a 2", "b 1", names="p q")) == 0.0


def test_components_are_texts_of_the_query() -> None:
    assert components_found(DOGS, ["ex:dog", "SELECT  ?dog"]) == 1.0
    assert components_found(None, ["x"]) == 0.0
    assert components_found(DOGS, []) is None


def test_cases_have_a_gold_query_and_a_language(pack: Pack) -> None:
    assert {case.key for case in cases_of(pack)} == {"a", "b"}
    assert [case.question for case in cases_of(pack, language="it")] == ["Quali cani?"]
    assert [case.without for case in cases_of(pack, "examples", limit=1)] == [(cases_of(pack, "examples")[0].key,)]
    with pytest.raises(InputError, match=r"of category odd \(there are complex, simple\)"):
        cases_of(pack, category="odd")
    assert [case.key for case in cases_of(pack, pattern="AGE")] == ["a"]
    with pytest.raises(InputError, match=r"with the pattern SIZE \(there are AGE, COUNT\)"):
        cases_of(pack, pattern="SIZE")


def task_of(pack: Pack, folder: Path, translator: Callable[[Mode], Translator], **options: Any) -> PackTask:
    return PackTask(pack=pack, model="m", out=folder / "run", translator=translator, runs=kennel_engine(), **options)


def evaluated(pack: Pack, folder: Path, replies: dict[Mode, list[str]]) -> tuple[dict, dict]:  # type: ignore[type-arg]
    models = {mode: Scripted(texts) for mode, texts in replies.items()}

    def translator(mode: Mode) -> Translator:
        checks = mode in ("repair", "agent")
        chosen = TranslateOptions(agent=mode == "agent", validates=checks, examples=0 if mode == "prompt" else 5)
        return Translator(pack, models[mode], fast=Scripted(["yes"]), engine=kennel_engine(), options=chosen)

    return evaluate(task_of(pack, folder, translator, modes=tuple(replies))), models


def test_each_way_is_scored_and_the_first_attempt_of_repair_is_that_of_retrieval(pack: Pack, tmp_path: Path) -> None:
    wrong = "SELECT ?dog { ?dog a ex:Wolf }"
    replies: dict[Mode, list[str]] = {"prompt": ["no idea"], "retrieval": [], "repair": [wrong, DOGS, wrong, DOGS]}
    report, models = evaluated(pack, tmp_path, replies)
    modes = report["runs"]
    assert modes["prompt"]["overall"]["syntax"]["value"] == 0.0
    assert modes["retrieval"]["overall"]["f1"]["value"] == 0.0
    assert modes["repair"]["overall"]["f1"]["value"] == 0.5
    assert modes["repair"]["by_category"]["simple"]["f1"]["value"] == 1.0
    assert modes["repair"]["overall"]["components"]["of"] == 1
    assert modes["repair"]["by_pattern"]["COUNT"]["patterns"]["value"] == 1.0
    assert modes["repair"]["by_pattern"]["COUNT"]["detected"]["value"] == 1.0
    assert modes["repair"]["by_pattern"]["AGE"]["detected"]["value"] == 0.0, "which dogs? has no word of it"
    assert models["retrieval"].conversations == []
    assert any("0.50" in line for line in lines(PackTask.layout(report)))
    assert "| F1 of rows | 0.00 (0.00 to 0.00) |" in (tmp_path / "run" / "report.md").read_text()


def test_a_stopped_run_continues(pack: Pack, tmp_path: Path) -> None:
    class Stopped(Scripted):
        def generate(self, messages, max_new_tokens):  # type: ignore[no-untyped-def]
            if len(self.conversations) == 1:
                raise KeyboardInterrupt
            return super().generate(messages, max_new_tokens)

    def task(model: Scripted) -> PackTask:
        return task_of(
            pack, tmp_path, lambda mode: Translator(pack, model, engine=kennel_engine()), modes=("retrieval",)
        )

    with pytest.raises(KeyboardInterrupt):
        evaluate(task(Stopped([DOGS])))
    model = Scripted([DOGS])
    report = evaluate(task(model))
    assert len(model.conversations) == 1
    assert report["questions"] == 2
    with pytest.raises(InputError, match="other options"):
        evaluate(replace(task(model), model="n"))


def test_a_run_continues_with_more_cases(pack: Pack, tmp_path: Path) -> None:
    model = Scripted([DOGS, CATS])
    task = task_of(pack, tmp_path, lambda mode: Translator(pack, model, engine=kennel_engine()), modes=("retrieval",))
    asked = []
    for limit in (1, None):
        report = evaluate(replace(task, limit=limit))
        asked.append((report["questions"], len(model.conversations)))
    assert asked == [(1, 1), (2, 2)]


def test_a_run_gives_translations_a_confidence_that_tells_right_from_wrong(pack: Pack, tmp_path: Path) -> None:
    lines = [case | {"id": f"{case['id']}{n}"} for n in range(15) for case in CASES[:2]]
    assert pack.folder is not None
    (pack.folder / "cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in lines))

    class Knows(Scripted):
        def generate(self, messages, max_new_tokens):  # type: ignore[no-untyped-def]
            return DOGS if any(one["content"] == "Which dogs?" for one in messages) else NONE

    evaluate(
        task_of(pack, tmp_path, lambda mode: Translator(pack, Knows([]), engine=kennel_engine()), modes=("repair",))
    )
    found = calibrate_pack(tmp_path / "run", pack)
    assert found.auc.value == 1.0
    assert found.brier < found.constant
    save(found.calibration)
    right = Translator(pack, Scripted([DOGS]), engine=kennel_engine(), confidence=confidence_of(pack, "m"))
    wrong = Translator(pack, Scripted([NONE]), engine=kennel_engine(), confidence=confidence_of(pack, "m"))
    high, low = right.translate("Which dogs?").confidence, wrong.translate("How many cats?").confidence
    assert high is not None
    assert low is not None
    assert high > 0.7
    assert low < 0.3
    assert confidence_of(replace(pack, fingerprint="changed"), "m")(right.translate("Which dogs?")) is None
    assert len(features_of(right.translate("Which dogs?"))) == len(found.calibration.coefficients)


def test_a_folder_without_translations_has_no_calibration(pack: Pack, tmp_path: Path) -> None:
    for document, error in (
        ('{"task": "answers"}', "has no run of refactx eval --pack of this release"),
        ("", "cannot be read"),
    ):
        (tmp_path / "run.json").write_text(document)
        with pytest.raises(InputError, match=error):
            calibrate_pack(tmp_path, pack)


def test_too_few_translations_say_nothing(pack: Pack, tmp_path: Path) -> None:
    evaluated(pack, tmp_path, {"repair": [DOGS]})
    with pytest.raises(InputError, match="at least 20 translations"):
        calibrate_pack(tmp_path / "run", pack)


def test_several_cases_are_translated_at_once(pack: Pack, tmp_path: Path) -> None:
    both = Barrier(2)

    class Together(Scripted):
        def generate(self, messages, max_new_tokens):  # type: ignore[no-untyped-def]
            both.wait(timeout=30)
            return DOGS

    task = task_of(
        pack,
        tmp_path,
        lambda mode: Translator(pack, Together([]), engine=kennel_engine()),
        modes=("repair", "retrieval"),
        batch_size=2,
    )
    report = evaluate(task)
    assert [report["runs"][mode]["overall"]["f1"]["value"] for mode in task.modes] == [0.5, 0.5]


def test_an_error_ends_the_translations_beside_it(pack: Pack, tmp_path: Path) -> None:
    stopped, has_begun = Event(), Event()

    class Failing(Scripted):
        def generate(self, messages, max_new_tokens):  # type: ignore[no-untyped-def]
            if messages[-1]["content"] == "Which dogs?":
                assert has_begun.wait(timeout=30)
                raise KeyboardInterrupt
            has_begun.set()
            assert stopped.wait(timeout=30)
            raise ModelError("the text was ended")

    task = task_of(
        pack,
        tmp_path,
        lambda mode: Translator(pack, Failing([]), engine=kennel_engine()),
        modes=("retrieval",),
        batch_size=2,
        stop=stopped.set,
    )
    with pytest.raises(KeyboardInterrupt):
        evaluate(task)
    assert (tmp_path / "run" / "retrieval.jsonl").read_text() == ""
