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
from hypothesis import given
from hypothesis import strategies as st
from support.ingest.living_index import LivingIndex
from support.sparql.text_models import ChatStub, chat_stub
from support.tiny_asker import save_tiny

from bench.memory.experiments import (
    GrownMemory,
    RememberedMemory,
    UnrelatedMemory,
    main,
    near_duplicate,
    original_of,
)
from refactx.cli.main import cli
from refactx.errors import RefactxError
from refactx.eval.execution import row_f1, run_query
from refactx.eval.questions import read_queries
from refactx.sparql.engines import EngineError, EngineTimeoutError, Result
from refactx.sparql.packs.writers import GivenNames
from refactx.sparql.placeholders.entry import MemoryEntry
from refactx.sparql.placeholders.name_memory import NameMemory
from refactx.sparql.placeholders.resolver import MemoryResolver
from refactx.sparql.placeholders.text import Placeholder

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
WITH_PLACEHOLDERS = {  # what the model writes as PGMR text
    "Who are Ann's children?": "SELECT ?c { wd:entity1 wdt:relation1 ?c }" + MAPPED.format("Ann", "a poet", "child"),
    "Whom is Bob married to?": "SELECT ?y { wd:entity1 wdt:relation1 ?y }" + MAPPED.format("Bobb", "", "spouse"),
    "Who is before?": "SELECT ?x { ?x wdt:relation1 wd:entity1 " + MAPPED.format("Bob", "", "before"),
    "Is Dan Bob's?": "ASK { wd:entity1 wdt:relation1 ?x }" + MAPPED.format("Zebulon", "", "spouse"),
    "How many children?": "SELECT ?x { wd:entity1 wdt:relation1 ?x }" + MAPPED.format("Ann", "a poet", "child"),
    "Who is unknown?": "I don't know.",
}
WITH_IDS = {
    "Who are Ann's children?": "SELECT ?x ?y { wd:Q1 wdt:P3 ?x . BIND(1 AS ?y) FILTER(?x = wd:Q3) }",
    "Whom is Bob married to?": "SELECT ?y { wd:Q333 wdt:P4 ?y }",
    "Who is before?": "SELECT ?x { wd:Q3 wdt:P1 ?x }",
    "Is Dan Bob's?": "ASK { wd:Q3 wdt:P4 wd:Q5 }",
    "How many children?": "SELECT (COUNT(*) AS ?n) { wd:Q1 wdt:P3 ?x }",
    "Who is unknown?": "SELECT ?x { wd:Q99 wdt:P3",
}


# The scores of each question, by hand on the claims of the graph: Ann has the children Bob and Eve, both have the spouse Dan.
F1 = {"placeholders": (1, 0, 0, 0, 0), "ids": (2 / 3, 0, 0, 1, 1)}
EXPECTED = {
    "placeholders": {
        "sqm_strict": 1,
        "sqm_paper": 1,
        "qid_em": 2,
        "pid_em": 2,
        "refused": 3,
        "syntax_errors": 1,
        "hallucinated": 0,
    },
    "ids": {
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
    """A server that writes `WITH_PLACEHOLDERS` for prompts with them, and else `WITH_IDS`."""
    with pytest.MonkeyPatch.context() as patch, chat_stub() as stub:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            patch.delenv(name, raising=False)
        stub.reply = lambda message: reply(
            message, WITH_PLACEHOLDERS if "entity1" in json.dumps(stub.requests[-1]) else WITH_IDS
        )
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
    return [*map(str, given), "--out", str(questions.with_name("run")), "--sparql", "placeholders,ids", *map(str, more)]


def evaluate(living: LivingIndex, questions: Path, server: ChatStub, *more: object) -> Any:
    done = CliRunner().invoke(cli, arguments(living, questions, server, "--json", *more))
    assert done.exit_code == 0, (done.exception, done.output)
    return json.loads(done.stdout)


def records(folder: Path, name: str) -> dict[str, Any]:
    lines = (folder / f"{name}.jsonl").read_text().splitlines()
    return {record["key"]: record for record in map(json.loads, lines)}


def test_shots_are_those_of_the_training_data(
    stored: LivingIndex, questions: Path, scripted: ChatStub, tmp_path: Path
) -> None:
    scripted.requests.clear()
    more = ("--shots", 3, "--train", questions, "--limit", 2, "--out", tmp_path / "shots")
    evaluate(stored, questions, scripted, *more)
    asked = [request["messages"] for request in scripted.requests]
    assert len(asked) == 4
    for messages in asked:
        shown = [one["content"] for one in messages[1:-1] if one["role"] == "user"]
        assert len(shown) == 3
        assert set(shown) < set(GOLDS)
        assert messages[-1]["content"] not in shown, "a question is none of its own examples"
    failed = CliRunner().invoke(cli, arguments(stored, questions, scripted, "--shots", "3"))
    assert "--shots N and --train FILE go together" in str(failed.exception)


def test_no_shots_are_no_examples(stored: LivingIndex, questions: Path, scripted: ChatStub, tmp_path: Path) -> None:
    scripted.requests.clear()
    evaluate(stored, questions, scripted, "--shots", 0, "--limit", 1, "--out", tmp_path / "none")
    assert [[one["role"] for one in request["messages"]] for request in scripted.requests] == [["system", "user"]] * 2


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
    return evaluate(stored, questions, scripted)


@pytest.fixture(scope="module")
def experiments(report: Any, stored: LivingIndex, questions: Path) -> Any:
    """The names of the run, resolved again by memories with fewer names and with more."""
    run = str(questions.with_name("run"))
    options = ["--ablate-names", "0,0.3,0.9", "--distractors", "2,3", "--db", stored.url, "--index", stored.name]
    done = CliRunner().invoke(main, [run, str(questions), *options])
    assert done.exit_code == 0, (done.exception, done.output)
    return json.loads(done.stdout)


class TestRun:
    """One run, whose process is killed while the seventh text is written, and which the same command continues."""

    def test_a_killed_run_asks_what_it_lacks(
        self, killed: dict[str, bytes], report: Any, questions: Path, scripted: ChatStub
    ) -> None:
        assert "report.json" not in killed
        assert len(killed["placeholders.jsonl"].splitlines()) + len(killed["ids.jsonl"].splitlines()) == 6
        assert len(scripted.requests) == 2 * len(GOLDS) + 1  # the seventh text is written again
        for name in ("placeholders.jsonl", "ids.jsonl", "gold.jsonl"):
            content = (questions.with_name("run") / name).read_bytes()
            assert content.startswith(killed[name])
            assert len(content.splitlines()) == len(GOLDS)

    def test_a_finished_run_needs_no_model_and_gives_the_same_report(
        self, report: Any, stored: LivingIndex, questions: Path, scripted: ChatStub
    ) -> None:
        asked = len(scripted.requests)
        assert evaluate(stored, questions, scripted) == report
        assert len(scripted.requests) == asked

    @pytest.mark.parametrize("policy", ["placeholders", "ids"])
    def test_figures_are_those_by_hand(self, report: Any, policy: str) -> None:
        overall, kinds = report["runs"][policy]["overall"], report["runs"][policy]["by_kind"]
        assert report["gold"] == {"queries": 7, "left_out": 1, "fail": 0, "without_rows": 1, "lack_names": 1}
        assert (overall["questions"], overall["with_rows"], overall["unanswerable"]) == (6, 5, 1)
        assert overall["f1"]["value"] == round(sum(F1[policy]) / 5, 4)
        assert overall["exact"]["value"] == sum(f1 == 1 for f1 in F1[policy]) / 5
        for name, count in EXPECTED[policy].items():
            assert overall[name]["value"] == round(count / 6, 4), name
        assert overall["refusal_accuracy"]["value"] == (policy == "placeholders")
        assert kinds["single"]["f1"]["value"] == round(sum(F1[policy][:3]) / 3, 4)
        assert {kind: group["questions"] for kind, group in kinds.items()} == {"single": 4, "ask": 1, "count": 1}

    def test_a_line_has_the_text_the_query_its_rows_and_the_seconds(self, report: Any, questions: Path) -> None:
        line = records(questions.with_name("run"), "placeholders")["q0"]
        assert (line["text"], line["sparql"]) == (
            WITH_PLACEHOLDERS["Who are Ann's children?"],
            "SELECT ?c { wd:Q1 wdt:P3 ?c }",
        )
        rows = {row[0].rpartition("/")[2] for row in line["result"]["rows"]}
        assert (rows, line["mentions"], line["seconds"].keys()) == (
            {"Q3>", "Q4>"}, 2, {"writing", "resolving", "running"},
        )  # fmt: skip

    def test_by_the_memory_as_it_is_the_queries_are_those_of_the_run(self, experiments: Any, report: Any) -> None:
        first, overall = experiments["distractors"][0], report["runs"]["placeholders"]["overall"]
        assert (first["factor"], first["over"]) == (1, 1.0)
        for name in ("sqm_strict", "sqm_paper", "f1"):
            assert first[name] == overall[name]
        assert [row["factor"] for row in experiments["distractors"]] == [1, 2, 3]

    def test_what_needs_a_missing_name_is_refused_at_the_highest_similarity(self, experiments: Any) -> None:
        rows = {(row["share"], row["tau"]): row for row in experiments["ablation"]}
        assert rows[0.9, 1.0]["refusal_accuracy"]["value"] == 1.0
        assert rows[0.3, None]["removed"] == round(0.3 * 7)  # Q1, Q3, Q5, Q99, P1, P3, P4
        for share in (0.3, 0.9):
            refused = [rows[share, tau]["refusal_accuracy"]["value"] for tau in (0.0, 0.7, 0.9, 1.0)]
            assert refused == sorted(refused)

    def test_thresholds_are_runs_of_the_same_texts(
        self, report: Any, experiments: Any, stored: LivingIndex, questions: Path, scripted: ChatStub, tmp_path: Path
    ) -> None:
        copied, asked = shutil.copytree(questions.with_name("run"), tmp_path / "run"), len(scripted.requests)
        found = evaluate(stored, questions, scripted, "--thresholds", "0,0.7,1", "--out", copied)
        assert len(scripted.requests) == asked, "the model writes nothing"
        runs = {name: run["overall"] for name, run in found["runs"].items()}
        assert [*runs] == ["placeholders", "ids", "placeholders@0", "placeholders@0.7", "placeholders@1"]
        rows = {row["tau"]: row for row in experiments["ablation"] if row["share"] == 0}
        for tau in (0, 0.7, 1):
            assert runs[f"placeholders@{tau}"]["sqm_answerable"]["value"] == rows[tau]["sqm_strict"]["value"]
        refused = [runs[f"placeholders@{tau}"]["refused"]["value"] for tau in (0, 0.7, 1)]
        assert refused == sorted(refused)
        assert refused[0] < refused[-1]
        assert {name: found["runs"][name] for name in report["runs"]} == report["runs"]
        assert (copied / "report.html").read_text().count("<svg") == 3

    def test_unrelated_names_are_another_index(self, report: Any, stored: LivingIndex, questions: Path) -> None:
        run, own = str(questions.with_name("run")), ["--db", stored.url, "--index", stored.name]
        given = [run, str(questions), *own, "--ablate-names", "", "--distractors-from", stored.name]
        done = CliRunner().invoke(main, [*given, "--distractors", "2"])
        assert done.exit_code == 0, (done.exception, done.output)
        first, second = json.loads(done.stdout)["distractors"]
        assert first["sqm_strict"] == report["runs"]["placeholders"]["overall"]["sqm_strict"]
        assert second["changed"] == 0, "namesakes without facts, or the names of nothing near, change nothing"
        assert "too few" in CliRunner().invoke(main, [*given, "--distractors", "9"]).output

    def test_an_unrelated_name_can_be_the_nearest(self) -> None:
        own, other = MemoryEntry("Q1", "Ann"), MemoryEntry("Q2", "Anne")
        mentions = [Placeholder("entity", "Annex"), Placeholder("entity", "Ann"), Placeholder("relation", "Anne")]
        memory = UnrelatedMemory(GivenNames([own]), [other])
        assert [[(one.entry.label, one.entry.id != "Q2") for one in some] for some in memory.nearest(mentions, 1)] == [
            [("Anne", True)],
            [("Anne", True)],
            [],
        ]
        assert [[one.label for one in some] for some in memory.exact(mentions)] == [[], ["Ann"], []]
        near = memory.nearest(mentions[:1], 1)[0][0].entry
        assert memory.similarities(Placeholder("entity", "Anne"), [own, near]) == [0.0, 1.0]

    def test_the_report_is_a_page_with_plots(self, report: Any, questions: Path) -> None:
        folder = questions.with_name("run")
        page, text = (folder / "report.html").read_text(), (folder / "report.md").read_text()
        assert page.count("<svg") == 2
        assert "<script" not in page
        assert "| Execution F1 | 0.20" in text
        assert report["bleu_signature"].startswith("nrefs:1")

    def test_other_options_do_not_continue_it(
        self, report: Any, stored: LivingIndex, questions: Path, scripted: ChatStub
    ) -> None:
        for option, recorded in (("--tau", "tau None, now 0.5"), ("--adapter", "adapter None, now '0.5'")):
            done = CliRunner().invoke(cli, arguments(stored, questions, scripted, option, "0.5"))
            assert isinstance(done.exception, RefactxError)
            assert recorded in str(done.exception)

    def test_another_engine_does_not_continue_it(
        self, report: Any, stored: LivingIndex, questions: Path, scripted: ChatStub, tmp_path: Path
    ) -> None:
        copied = shutil.copytree(questions.with_name("run"), tmp_path / "run")
        (copied / "ids.jsonl").unlink()
        gold = copied / "gold.jsonl"
        gold.write_text(gold.read_text().replace('"engine": "store"', '"engine": "tree"'))
        done = CliRunner().invoke(cli, arguments(stored, Path(shutil.copy(questions, tmp_path)), scripted))
        assert "has results of the tree, now queries would be run on the store" in str(done.exception)


@pytest.mark.long
def test_policies_of_an_own_model_are_timed_apart(stored: LivingIndex, questions: Path, tmp_path: Path) -> None:
    given = ["eval", questions, "--model", save_tiny(tmp_path / "tiny", 20_000), "--db", stored.url]
    given += ["--index", stored.name, "--sparql", "strict,open,ids", "--limit", "2", "--out", tmp_path / "run"]
    done = CliRunner().invoke(cli, [*map(str, given), "--json"])
    assert done.exit_code == 0, (done.exception, done.output)
    runs = json.loads(done.stdout)["runs"]
    assert [(name, run["overall"]["unasked"]) for name, run in runs.items()] == [
        ("from-walk", 0),
        ("constrained", 0),
        ("ids", 0),
    ]
    for name in runs:
        for line in records(tmp_path / "run", name).values():
            assert line["seconds"]["writing"] > 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--sparql", "placeholders,closed"), "closed is no policy"),
        (("--sparql", "from-walk"), "needs a model whose choices can be steered"),
        (("--sparql", "ids", "--tau", "0.1"), "--tau is of names that a memory resolves"),
        (("--sparql", "ids", "--thresholds", "0.1"), "--thresholds are of the names that placeholders writes"),
        (("--free",), "--free is of answers"),
        (("--max-new-tokens", "5"), "--max-new-tokens is of answers"),
        (("--run-on", "moon"), "--run-on moon is no engine"),
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


TERMS = st.sampled_from(["<a>", "<b>", '"1"', '"x"@en', None])


@given(st.lists(st.tuples(TERMS, TERMS), max_size=4), st.lists(st.tuples(TERMS, TERMS, TERMS), max_size=4))
def test_row_f1_is_that_of_the_best_columns(gold: list[Any], found: list[Any]) -> None:
    best = 0.0
    for one in range(3):
        for other in range(3):
            rows = {(row[one], row[other]) for row in found}
            hits = len(rows & set(gold))
            if one != other and hits:
                precision, recall = hits / len(rows), hits / len(set(gold))
                best = max(best, 2 * precision * recall / (precision + recall))
    assert row_f1({"rows": gold}, {"rows": found}) == pytest.approx(best)


@given(
    st.sampled_from(["P31", "http://e.org/P31", "product:7"]),
    st.text("abcdef ", min_size=1, max_size=8).filter(str.strip),
    st.integers(1, 8),
    st.integers(0, 3),
)
def test_a_near_duplicate_is_another_name_with_its_own_id(id_: str, label: str, number: int, seed: int) -> None:
    entry = MemoryEntry(id_, label, "a thing")
    made = near_duplicate(entry, number, seed)
    assert made == near_duplicate(entry, number, seed)
    assert original_of(made.id) == id_ != made.id
    assert made.label.casefold().split() != label.casefold().split()


def test_a_grown_memory_finds_names_before_their_near_duplicates(stored: LivingIndex) -> None:
    with stored.open() as index:
        memory = RememberedMemory(NameMemory(index))
        grown, mention = GrownMemory(memory, 9), Placeholder("entity", "Bobb")
        (near,) = grown.nearest([mention], 200)
        similar = [one.similarity for one in near]
        assert similar == sorted(similar, reverse=True)
        own = memory.nearest([mention], 200)[0]
        assert [one for one in near if original_of(one.entry.id) is None] == list(own)
        assert len(near) == 9 * len(own)
        assert grown.exact([Placeholder("entity", "Ann")]) == memory.exact([Placeholder("entity", "Ann")])
        for one in (one.entry for one in near if original_of(one.entry.id) is not None):
            assert (
                MemoryResolver(grown, tau=0.0).candidates(Placeholder("entity", one.label))[0].entry.label == one.label
            )


class Failing:
    """An engine that always fails."""

    def __init__(self, name: str, error: Exception) -> None:
        self.name, self._error = name, error

    def run(self, query: str, *, limit: int | None = None, seconds: float | None = None) -> Result:
        raise self._error

    def close(self) -> None:
        """Nothing is open."""


def test_an_endpoint_that_is_down_ends_the_run_and_a_query_that_fails_does_not() -> None:
    with pytest.raises(EngineError, match="503"):
        run_query(Failing("http://there/sparql", EngineError("503")), "ASK {}", 1)
    assert run_query(Failing("http://there/sparql", EngineTimeoutError("slow")), "ASK {}", 1) == {"error": "slow"}
    assert run_query(Failing("store", EngineError("too deep")), "ASK {}", 1) == {"error": "too deep"}


def test_lcquad_has_gold_queries_and_no_answers(tmp_path: Path) -> None:
    path = tmp_path / "lcquad.json"
    records = [
        {
            "uid": 7,
            "question": "n/a",
            "NNQT_question": "What is {child} of {Ann}?",
            "sparql_wikidata": "SELECT ?x { ?x wdt:P1 wd:Q3 }",
        },
        {
            "uid": 8,
            "question": "Is it?",
            "NNQT_question": "",
            "sparql_wikidata": "ASK { wd:Q1 wdt:P1 wd:Q2 }",
            "answer": [],
        },
    ]
    path.write_text(json.dumps(records))
    one, other = read_queries(path)
    assert (one.id, one.text, one.kind, one.answers) == ("7", "What is {child} of {Ann}?", "single", ())
    assert (other.text, other.kind, other.sparql) == ("Is it?", "ask", "ASK { wd:Q1 wdt:P1 wd:Q2 }")
