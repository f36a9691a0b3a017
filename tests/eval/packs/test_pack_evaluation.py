"""Translations are scored by their rows; a stopped run continues; a run gives a confidence."""

import json
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Event

import pytest
from pyoxigraph import Literal
from support.nl2sparql.kennel import CATS, DOGS, KENNEL, NONE, Scripted, kennel_engine

from refactx.errors import InputError, ModelError
from refactx.eval.packs import Mode, PackEvaluationOptions, components_found, evaluate_pack, rows_f1
from refactx.eval.packs.calibration import calibrate_pack
from refactx.eval.packs.cases import cases_of
from refactx.eval.packs.report import lines_of
from refactx.nl2sparql import Pack, TranslateOptions, Translator
from refactx.nl2sparql.attempt import confidence_of, features_of, save
from refactx.sparql.engines import Rows

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
    assert {case.id for case in cases_of(pack)} == {"a", "b"}
    assert [case.question for case in cases_of(pack, language="it")] == ["Quali cani?"]
    assert [case.without for case in cases_of(pack, "examples", limit=1)] == [(cases_of(pack, "examples")[0].id,)]
    with pytest.raises(InputError, match=r"of category odd \(there are complex, simple\)"):
        cases_of(pack, category="odd")


def evaluate(pack: Pack, folder: Path, replies: dict[Mode, list[str]], **options: object) -> tuple[dict, dict]:  # type: ignore[type-arg]
    models = {mode: Scripted(texts) for mode, texts in replies.items()}

    def translator(mode: Mode) -> Translator:
        checks = mode in ("repair", "agent")
        chosen = TranslateOptions(agent=mode == "agent", validates=checks, examples=0 if mode == "prompt" else 5)
        return Translator(pack, models[mode], fast=Scripted(["yes"]), engine=kennel_engine(), options=chosen)

    given = PackEvaluationOptions(pack=pack, model="m", modes=tuple(replies), out=folder, **options)  # type: ignore[arg-type]
    return evaluate_pack(given, translator, kennel_engine()), models


def test_each_way_is_scored_and_the_first_attempt_of_repair_is_that_of_retrieval(pack: Pack, tmp_path: Path) -> None:
    wrong = "SELECT ?dog { ?dog a ex:Wolf }"
    replies: dict[Mode, list[str]] = {"prompt": ["no idea"], "retrieval": [], "repair": [wrong, DOGS, wrong, DOGS]}
    report, models = evaluate(pack, tmp_path / "run", replies)
    modes = report["modes"]
    assert modes["prompt"]["overall"]["syntax"]["value"] == 0.0
    assert modes["retrieval"]["overall"]["f1"]["value"] == 0.0
    assert modes["repair"]["overall"]["f1"]["value"] == 0.5
    assert modes["repair"]["by_category"]["simple"]["f1"]["value"] == 1.0
    assert modes["repair"]["overall"]["components"]["of"] == 1
    assert modes["repair"]["by_pattern"]["COUNT"]["patterns"]["value"] == 1.0
    assert models["retrieval"].conversations == []
    assert any("0.50" in line for line in lines_of(report))


def test_a_stopped_run_continues(pack: Pack, tmp_path: Path) -> None:
    class Stopped(Scripted):
        def generate(self, messages, max_new_tokens):  # type: ignore[no-untyped-def]
            if len(self.conversations) == 1:
                raise KeyboardInterrupt
            return super().generate(messages, max_new_tokens)

    options = PackEvaluationOptions(pack=pack, model="m", modes=("retrieval",), out=tmp_path / "run")
    stopped = Stopped([DOGS])
    with pytest.raises(KeyboardInterrupt):
        evaluate_pack(options, lambda mode: Translator(pack, stopped, engine=kennel_engine()), kennel_engine())
    model = Scripted([DOGS])
    report = evaluate_pack(options, lambda mode: Translator(pack, model, engine=kennel_engine()), kennel_engine())
    assert len(model.conversations) == 1
    assert report["cases"] == 2
    with pytest.raises(InputError, match="other options"):
        evaluate_pack(replace(options, model="n"), lambda mode: Translator(pack, model), kennel_engine())


def test_a_run_continues_with_more_cases(pack: Pack, tmp_path: Path) -> None:
    options = PackEvaluationOptions(pack=pack, model="m", modes=("retrieval",), out=tmp_path / "run", limit=1)
    model = Scripted([DOGS, CATS])
    asked = []
    for limit in (1, None):
        report = evaluate_pack(
            replace(options, limit=limit), lambda mode: Translator(pack, model, engine=kennel_engine()), kennel_engine()
        )
        asked.append((report["cases"], len(model.conversations)))
    assert asked == [(1, 1), (2, 2)]


def test_a_run_gives_translations_a_confidence_that_tells_right_from_wrong(pack: Pack, tmp_path: Path) -> None:
    lines = [case | {"id": f"{case['id']}{n}"} for n in range(15) for case in CASES[:2]]
    assert pack.folder is not None
    (pack.folder / "cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in lines))
    folder = tmp_path / "run"

    class Knows(Scripted):
        def generate(self, messages, max_new_tokens):  # type: ignore[no-untyped-def]
            return DOGS if any(one["content"] == "Which dogs?" for one in messages) else NONE

    options = PackEvaluationOptions(pack=pack, model="m", modes=("repair",), out=folder)
    evaluate_pack(options, lambda mode: Translator(pack, Knows([]), engine=kennel_engine()), kennel_engine())
    found = calibrate_pack(folder, pack)
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


def test_too_few_translations_say_nothing(pack: Pack, tmp_path: Path) -> None:
    evaluate(pack, tmp_path / "run", {"repair": [DOGS]})
    with pytest.raises(InputError, match="at least 20 translations"):
        calibrate_pack(tmp_path / "run", pack)


def test_several_cases_are_translated_at_once(pack: Pack, tmp_path: Path) -> None:
    both = Barrier(2)

    class Together(Scripted):
        def generate(self, messages, max_new_tokens):  # type: ignore[no-untyped-def]
            both.wait(timeout=30)
            return DOGS

    options = PackEvaluationOptions(
        pack=pack, model="m", modes=("repair", "retrieval"), out=tmp_path / "run", batch_size=2
    )
    report = evaluate_pack(
        options, lambda mode: Translator(pack, Together([]), engine=kennel_engine()), kennel_engine()
    )
    assert [report["modes"][mode]["overall"]["f1"]["value"] for mode in options.modes] == [0.5, 0.5]


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

    options = PackEvaluationOptions(pack=pack, model="m", modes=("retrieval",), out=tmp_path / "run", batch_size=2)
    with pytest.raises(KeyboardInterrupt):
        evaluate_pack(
            options,
            lambda mode: Translator(pack, Failing([]), engine=kennel_engine()),
            kennel_engine(),
            stopped.set,
        )
    assert (tmp_path / "run" / "retrieval.jsonl").read_text() == ""
