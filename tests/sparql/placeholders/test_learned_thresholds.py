"""Thresholds of names that are learned from a run: what they keep, and the command as a user types it."""

import json
import random
from collections.abc import Sequence
from math import exp
from pathlib import Path

import pytest
from support.command import complains, run_refactx
from support.ingest.living_index import LivingIndex

from refactx.errors import InputError
from refactx.eval.calibration import calibrate_names, thresholds_of
from refactx.index.open import open_index
from refactx.sparql.placeholders.entry import PAPER, Match
from refactx.sparql.placeholders.opening import open_memory
from refactx.sparql.placeholders.resolver import FactFeasibility, MemoryResolver
from refactx.sparql.placeholders.text import Placeholder

WRITTEN = "SELECT ?c {{ wd:entity1 wdt:relation1 ?c }}\nentity1 = [ENT] {} [/ENT] {}\nrelation1 = [REL] {} [/REL]"
NEAR = ("Annz", "Aann", "Annq", "Annx")
"""What is near to Ann, and means her."""
FAR = ("Ant", "And", "Anvil", "Wand")
"""What shares fewer letters with names of the index, and means something else."""


def a_run(folder: Path, living: LivingIndex, texts: Sequence[tuple[str, str]]) -> Path:
    """Return the folder of a run: the gold query of each question, and what a model wrote."""
    folder.mkdir()
    report = {"task": "queries", "settings": {"index": living.name}, "runs": {"placeholders": {}}}
    (folder / "report.json").write_text(json.dumps(report))
    for name, part, place in (("gold", "sparql", 0), ("placeholders", "text", 1)):
        lines = [json.dumps({"key": f"q{at}", part: one[place]}) + "\n" for at, one in enumerate(texts)]
        (folder / f"{name}.jsonl").write_text("".join(lines))
    return folder


@pytest.fixture(scope="module")
def run(stored: LivingIndex, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with names near to Ann, which are right, and others, which are not."""
    gold, other = "SELECT ?x { wd:Q1 wdt:P3 ?x }", "SELECT ?x { wd:Q99 wdt:P3 ?x }"
    texts = [(gold, WRITTEN.format(near, "", "child")) for near in NEAR * 3]
    texts += [(other, WRITTEN.format(far, "", "child")) for far in FAR * 3]
    texts += [(gold, "I don't know."), (gold, "SELECT ?x { wd:entity1")]
    return a_run(tmp_path_factory.mktemp("names") / "run", stored, texts)


def test_a_learned_threshold_keeps_what_was_right(run: Path, stored: LivingIndex) -> None:
    found = calibrate_names(run, stored.url)
    kind = found.kinds["entity"]
    assert (kind.names, kind.right) == (24, 12)
    assert found.kinds["namesake"].least is None, "there are none"
    assert found.auc.value == 1
    with open_index(stored.name, stored.url) as index:
        memory = open_memory(index)
        assert kind.least is not None
        learned: dict[Match, float] = {"entity": kind.least}
        resolver = MemoryResolver(memory, tau=learned, feasible=FactFeasibility(index))
        assert resolver.resolve([Placeholder("entity", near) for near in NEAR]) == ["Q1"] * len(NEAR)
        assert not [
            one for one in resolver.resolve([Placeholder("entity", far) for far in FAR]) if isinstance(one, str)
        ]
        (refused,) = resolver.resolve([Placeholder("relation", "chilt")])
        assert not isinstance(refused, str), "the memory's own threshold of relations, 0.85, holds"
        assert MemoryResolver(memory, tau={**learned, "relation": 0.7}).resolve([Placeholder("relation", "chilt")]) == [
            "P3"
        ]


def test_a_higher_precision_needs_more_similarity(run: Path, stored: LivingIndex) -> None:
    least = [calibrate_names(run, stored.url, precision).kinds["entity"].least for precision in (0.1, 0.5, 0.9, 1.0)]
    assert all(one is not None for one in least)
    assert least == sorted(least, key=lambda one: one or 0)
    assert least[0] != least[2]
    assert least[-1] == 1


def test_the_sigmoid_that_names_were_drawn_from_is_found() -> None:
    chance, true = random.Random(1), {"entity": 0.7, "relation": 0.9, "namesake": 0.4}
    seen: list[tuple[Match, float, bool]] = []
    for kind in PAPER:
        for alike in (chance.random() for _ in range(3000)):
            seen.append((kind, alike, chance.random() < 1 / (1 + exp(-12 * (alike - true[kind])))))
    found = thresholds_of(seen, 0.5)
    assert {kind: one.least for kind, one in found.kinds.items()} == pytest.approx(true, abs=0.03)
    likely = thresholds_of(seen, 0.75)  # log 3 to 1 is 1.1, of 12
    assert likely.kinds["entity"].least == pytest.approx(0.7 + 1.1 / 12, abs=0.03)
    with pytest.raises(InputError, match=r"of 9,000 names 3126 are right, and similar ones are no likelier"):
        thresholds_of([(kind, 1 - alike, right) for kind, alike, right in seen], 0.5)


def test_runs_without_such_names_are_refused(run: Path, stored: LivingIndex, tmp_path: Path) -> None:
    few = a_run(tmp_path / "few", stored, [("ASK { wd:Q1 wdt:P3 ?x }", WRITTEN.format("Annn", "", "child"))])
    with pytest.raises(InputError, match=r"has 1 name .* 20 are needed"):
        calibrate_names(few, stored.url)
    (few / "report.json").write_text(json.dumps({"task": "queries", "settings": {}, "runs": {"ids": {}}}))
    with pytest.raises(InputError, match="give a run of refactx eval --sparql placeholders"):
        calibrate_names(few, stored.url)


@pytest.mark.long
def test_the_command(run: Path, stored: LivingIndex) -> None:
    done = run_refactx("calibrate", "--run", run, "--db", stored.url)
    assert done.returncode == 0, done.stderr
    learned = calibrate_names(run, stored.url).kinds["entity"].least
    assert f"--policy placeholders --tau entity={learned:g}`" in done.stdout
    assert "figures from 24 names are not reliable" in done.stderr
    shown = json.loads(run_refactx("calibrate", "--run", run, "--db", stored.url, "--precision", 0.9, "--json").stdout)
    assert shown["kinds"]["entity"]["names"] == 24
    assert shown["kinds"]["entity"]["least"] > learned
    wrong = ("entities=0.7", "entity=0.7,entity=0.8")
    for given, says in (
        *((one, "entity, relation, namesake") for one in wrong),
        ("entity=2", "range"),
        ("entity=", "float"),
    ):
        assert says in complains("query", "Who?", "--model", "demo", "--policy", "placeholders", "--tau", given)
