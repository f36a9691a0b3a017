"""`refactx eval --sparql`: runs that stop and continue, and the report's numbers against a computation by hand."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.ingest.living_index import LivingIndex
from support.sparql.text_models import ChatStub, chat_stub
from support.tiny_asker import save_tiny

from refactx.cli.main import cli
from refactx.errors import RefactxError

GOLDS = {  # question: its gold query
    "Who are Ann's children?": "SELECT ?x WHERE { wd:Q1 wdt:P3 ?x }",
    "Whom is Bob married to?": "PREFIX w: <http://www.wikidata.org/entity/> SELECT ?y { w:Q3 wdt:P4 ?y }",
    "Who is before?": "SELECT ?x { ?x wdt:P1 wd:Q3 }",
    "Is Dan Bob's?": "ASK { wd:Q3 wdt:P4 wd:Q5 }",
    "How many children?": "SELECT (COUNT(?x) AS ?n) { wd:Q1 wdt:P3 ?x }",
    "Who is unknown?": "SELECT ?x { wd:Q99 wdt:P3 ?x }",
    "What is broken?": "SELECT ?x { wd:Q1 wdt:P3",
}
KINDS = dict(zip(GOLDS, ("single", "single", "single", "ask", "count", "single", "single"), strict=True))
MAPPED = "\nentity1 = [ENT] {} [/ENT] {}\nrelation1 = [REL] {} [/REL]"
OPEN = {  # what the model writes as PGMR text
    "Who are Ann's children?": "SELECT ?c { wd:entity1 wdt:relation1 ?c }" + MAPPED.format("Ann", "a poet", "child"),
    "Whom is Bob married to?": "SELECT ?y { wd:entity1 wdt:relation1 ?y }" + MAPPED.format("Bobb", "", "spouse"),
    "Who is before?": "SELECT ?x { ?x wdt:relation1 wd:entity1 " + MAPPED.format("Bob", "", "before"),
    "Is Dan Bob's?": "ASK { wd:entity1 wdt:relation1 ?x }" + MAPPED.format("Zebulon", "", "spouse"),
    "How many children?": "SELECT ?x { wd:entity1 wdt:relation1 ?x }" + MAPPED.format("Ann", "a poet", "child"),
    "Who is unknown?": "I don't know.",
}
DIRECT = {
    "Who are Ann's children?": "SELECT ?x ?y { wd:Q1 wdt:P3 ?x . BIND(1 AS ?y) FILTER(?x = wd:Q3) }",
    "Whom is Bob married to?": "SELECT ?y { wd:Q333 wdt:P4 ?y }",
    "Who is before?": "SELECT ?x { wd:Q3 wdt:P1 ?x }",
    "Is Dan Bob's?": "ASK { wd:Q3 wdt:P4 wd:Q5 }",
    "How many children?": "SELECT (COUNT(*) AS ?n) { wd:Q1 wdt:P3 ?x }",
    "Who is unknown?": "SELECT ?x { wd:Q99 wdt:P3",
}


EXPERIMENTS = ("--ablate-names", "0.3,0.9", "--distractors", "2..3")
# The scores of each question, by hand on the claims of the graph: Ann has the children Bob and Eve, both have the spouse Dan.
F1 = {"open": (1, 0, 0, 0, 0), "direct": (2 / 3, 0, 0, 1, 1)}
EXPECTED = {
    "open": {
        "sqm_strict": 1,
        "sqm_paper": 1,
        "qid_em": 2,
        "pid_em": 2,
        "refused": 3,
        "syntax_errors": 1,
        "hallucinated": 0,
    },
    "direct": {
        "sqm_strict": 1,
        "sqm_paper": 2,
        "qid_em": 3,
        "pid_em": 5,
        "refused": 0,
        "syntax_errors": 1,
        "hallucinated": 1,
    },
}


def reply(message: str, replies: dict[str, str]) -> str:
    return next((text for question, text in replies.items() if question in message), "")


@pytest.fixture(scope="module")
def scripted() -> Iterator[ChatStub]:
    """A server that writes `OPEN` for prompts with placeholders, and else `DIRECT`."""
    with pytest.MonkeyPatch.context() as patch, chat_stub() as stub:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            patch.delenv(name, raising=False)
        stub.reply = lambda message: reply(message, OPEN if "entity1" in json.dumps(stub.requests[-1]) else DIRECT)
        yield stub


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run") / "questions.jsonl"
    lines = [
        {"id": f"q{at}", "question": text, "answers": [], "kind": KINDS[text], "sparql": gold}
        for at, (text, gold) in enumerate(GOLDS.items())
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def arguments(living: LivingIndex, questions: Path, server: ChatStub, *more: object) -> list[str]:
    given = ["eval", questions, "--model", "m", "--model-url", server.url, "--db", living.url, "--index", living.name]
    return [*map(str, given), "--out", str(questions.with_name("run")), "--sparql", "open,direct", *map(str, more)]


def evaluate(living: LivingIndex, questions: Path, server: ChatStub, *more: object) -> Any:
    done = CliRunner().invoke(cli, arguments(living, questions, server, "--json", *more))
    assert done.exit_code == 0, (done.exception, done.output)
    return json.loads(done.stdout)


def records(folder: Path, name: str) -> dict[str, Any]:
    lines = (folder / f"{name}.jsonl").read_text().splitlines()
    return {record["key"]: record for record in map(json.loads, lines)}


@pytest.fixture(scope="module")
def killed(stored: LivingIndex, questions: Path, scripted: ChatStub) -> dict[str, bytes]:
    """The files of the run after the kill."""
    command = [sys.executable, "-m", "refactx", *arguments(stored, questions, scripted)]
    scripted.requests.clear()
    written, process = scripted.reply, subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def kill_at_seven(message: str) -> str:
        if len(scripted.requests) == 7:
            os.kill(process.pid, signal.SIGKILL)
        return written(message)

    scripted.reply = kill_at_seven
    assert process.wait() == -signal.SIGKILL
    scripted.reply = written
    return {path.name: path.read_bytes() for path in questions.with_name("run").iterdir()}


@pytest.fixture(scope="module")
def report(killed: dict[str, bytes], stored: LivingIndex, questions: Path, scripted: ChatStub) -> Any:
    return evaluate(stored, questions, scripted, *EXPERIMENTS)


class TestRun:
    """One run, whose process is killed while the seventh text is written, and which the same command continues."""

    def test_a_killed_run_asks_what_it_lacks(
        self, killed: dict[str, bytes], report: Any, questions: Path, scripted: ChatStub
    ) -> None:
        assert "report.json" not in killed
        assert len(killed["open.jsonl"].splitlines()) + len(killed["direct.jsonl"].splitlines()) == 6
        assert len(scripted.requests) == 2 * len(GOLDS) + 1  # the seventh text is written again
        for name in ("open.jsonl", "direct.jsonl", "gold.jsonl"):
            content = (questions.with_name("run") / name).read_bytes()
            assert content.startswith(killed[name])
            assert len(content.splitlines()) == len(GOLDS)

    def test_a_finished_run_needs_no_model_and_gives_the_same_report(
        self, report: Any, stored: LivingIndex, questions: Path, scripted: ChatStub
    ) -> None:
        asked = len(scripted.requests)
        assert evaluate(stored, questions, scripted, *EXPERIMENTS) == report
        assert len(scripted.requests) == asked

    @pytest.mark.parametrize("policy", ["open", "direct"])
    def test_figures_are_those_by_hand(self, report: Any, policy: str) -> None:
        overall, kinds = report["runs"][policy]["overall"], report["runs"][policy]["by_kind"]
        assert report["gold"] == {"queries": 7, "left_out": 1, "fail": 0, "without_rows": 1, "lack_names": 1}
        assert (overall["questions"], overall["with_rows"], overall["unanswerable"]) == (6, 5, 1)
        assert overall["f1"]["value"] == round(sum(F1[policy]) / 5, 4)
        assert overall["exact"]["value"] == sum(f1 == 1 for f1 in F1[policy]) / 5
        for name, count in EXPECTED[policy].items():
            assert overall[name]["value"] == round(count / 6, 4), name
        assert overall["refusal_accuracy"]["value"] == (policy == "open")
        assert kinds["single"]["f1"]["value"] == round(sum(F1[policy][:3]) / 3, 4)
        assert {kind: group["questions"] for kind, group in kinds.items()} == {"single": 4, "ask": 1, "count": 1}

    def test_a_line_has_the_text_the_query_its_rows_and_the_seconds(self, report: Any, questions: Path) -> None:
        line = records(questions.with_name("run"), "open")["q0"]
        assert (line["text"], line["sparql"]) == (OPEN["Who are Ann's children?"], "SELECT ?c { wd:Q1 wdt:P3 ?c }")
        rows = {row[0].rpartition("/")[2] for row in line["result"]["rows"]}
        assert (rows, line["mentions"], line["seconds"].keys()) == (
            {"Q3>", "Q4>"}, 2, {"writing", "resolving", "running"},
        )  # fmt: skip

    def test_by_the_memory_as_it_is_the_queries_are_those_of_the_run(self, report: Any) -> None:
        first, overall = report["distractors"][0], report["runs"]["open"]["overall"]
        assert (first["factor"], first["over"]) == (1, 1.0)
        for name in ("sqm_strict", "sqm_paper", "f1"):
            assert first[name] == overall[name]
        assert [row["factor"] for row in report["distractors"]] == [1, 2, 3]

    def test_what_needs_a_missing_name_is_refused_at_the_highest_similarity(self, report: Any) -> None:
        rows = {(row["share"], row["tau"]): row for row in report["ablation"]}
        assert rows[0.9, 1.0]["refusal_accuracy"]["value"] == 1.0
        assert rows[0.3, None]["removed"] == round(0.3 * 7)  # Q1, Q3, Q5, Q99, P1, P3, P4
        for share in (0.3, 0.9):
            refused = [rows[share, tau]["refusal_accuracy"]["value"] for tau in (0.0, 0.7, 0.9, 1.0)]
            assert refused == sorted(refused)

    def test_the_report_is_a_page_with_plots(self, report: Any, questions: Path) -> None:
        folder = questions.with_name("run")
        page, text = (folder / "report.html").read_text(), (folder / "report.md").read_text()
        assert page.count("<svg") == 5
        assert "<script" not in page
        assert "| Execution F1 | 0.20" in text
        assert report["bleu_signature"].startswith("nrefs:1")

    def test_other_options_do_not_continue_it(
        self, report: Any, stored: LivingIndex, questions: Path, scripted: ChatStub
    ) -> None:
        done = CliRunner().invoke(cli, arguments(stored, questions, scripted, "--tau", "0.5"))
        assert isinstance(done.exception, RefactxError)
        assert "tau None, now 0.5" in str(done.exception)

    def test_another_engine_does_not_continue_it(
        self, report: Any, stored: LivingIndex, questions: Path, scripted: ChatStub, tmp_path: Path
    ) -> None:
        copied = shutil.copytree(questions.with_name("run"), tmp_path / "run")
        (copied / "direct.jsonl").unlink()
        gold = copied / "gold.jsonl"
        gold.write_text(gold.read_text().replace('"engine": "store"', '"engine": "tree"'))
        done = CliRunner().invoke(cli, arguments(stored, Path(shutil.copy(questions, tmp_path)), scripted))
        assert "has results of the tree, now queries would be run on the store" in str(done.exception)


def test_policies_of_an_own_model_are_timed_apart(stored: LivingIndex, questions: Path, tmp_path: Path) -> None:
    given = ["eval", questions, "--model", save_tiny(tmp_path / "tiny", 20_000), "--db", stored.url]
    given += ["--index", stored.name, "--sparql", "strict,open,direct", "--limit", "2", "--out", tmp_path / "run"]
    done = CliRunner().invoke(cli, [*map(str, given), "--json"])
    assert done.exit_code == 0, (done.exception, done.output)
    runs = json.loads(done.stdout)["runs"]
    assert [(name, run["overall"]["unasked"]) for name, run in runs.items()] == [
        ("strict", 0),
        ("open", 0),
        ("direct", 0),
    ]
    for name in runs:
        for line in records(tmp_path / "run", name).values():
            assert line["seconds"]["writing"] > 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--sparql", "open,closed"), "--sparql closed is no policy"),
        (("--sparql", "strict"), "needs a model whose choices can be steered"),
        (("--sparql", "direct", "--ablate-names", "0.1"), "resolve the texts of open again"),
        (("--free",), "--free is of answers"),
        (("--max-new-tokens", "5"), "--max-new-tokens is of answers"),
        (("--run-on", "moon"), "--run-on moon is no engine"),
        (("--ablate-names", "2"), "is no list of shares between 0 and 1"),
        (("--distractors", "1..20"), "is no list of factors from 2 to 9"),
    ],
)
def test_options_that_exclude_each_other(
    more: tuple[str, ...], message: str, stored: LivingIndex, questions: Path, scripted: ChatStub
) -> None:
    done = CliRunner().invoke(cli, arguments(stored, questions, scripted, *more), standalone_mode=False)
    assert message in str(done.exception)


def test_options_of_policies_need_policies(questions: Path) -> None:
    done = CliRunner().invoke(cli, ["eval", str(questions), "--model", "m", "--tau", "0.5"])
    assert "--tau is of policies: give --sparql" in str(done.exception)
