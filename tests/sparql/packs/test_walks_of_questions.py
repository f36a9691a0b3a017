"""`refactx eval QUESTIONS --pack`: translations of the questions of a file, run on an index; walks as what writes them."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.ingest.living_index import LivingIndex
from support.sparql.text_models import ChatStub
from support.translate.kennel import Scripted

from refactx.ask.answer import Answer
from refactx.ask.queries import QueryChoice
from refactx.cli.main import cli
from refactx.fact import Fact
from refactx.selection.mentions import Mentions
from refactx.selection.query_lines import Candidate
from refactx.sparql.engines import open_engine
from refactx.sparql.packs.pack import load_pack
from refactx.sparql.packs.prompt import WritingTask
from refactx.sparql.packs.translation import Attempt
from refactx.sparql.packs.translator import TranslateOptions, Translator
from refactx.sparql.packs.validation import ValidationReport
from refactx.sparql.packs.writers import WalkWriter, query_behind
from refactx.walks import TreeFacts, answer_query, read_line, write_line

QUESTIONS = {
    "Who are Ann's children?": ("single", "SELECT ?x { wd:Q1 wdt:P3 ?x }"),
    "Is Dan Bob's?": ("ask", "ASK { wd:Q3 wdt:P4 wd:Q5 }"),
    "How many children?": ("count", "SELECT (COUNT(?x) AS ?n) { wd:Q1 wdt:P3 ?x }"),
}
REPLIES = {
    "Who are Ann's children?": "SELECT ?c { wd:Q1 wdt:P3 ?c FILTER(?c = wd:Q3) }",
    "Is Dan Bob's?": "ASK { wd:Q3 wdt:P4 wd:Q5 }",
    "How many children?": "SELECT ?x { wd:Q5 wdt:P3 ?x }",
}


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    lines = [
        {"id": f"q{at}", "question": text, "answers": [], "kind": kind, "sparql": sparql}
        for at, (text, (kind, sparql)) in enumerate(QUESTIONS.items())
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_questions_of_a_file_are_translated_and_run_on_an_index(
    questions: Path, stored: LivingIndex, server: ChatStub, tmp_path: Path
) -> None:
    server.reply = lambda message: next((text for asked, text in REPLIES.items() if asked in message), "")
    given = ["eval", questions, "--pack", "wikidata", "--model", "m", "--model-url", server.url, "--modes", "retrieval"]
    given += ["--run-on", "store", "--index", stored.name, "--db", stored.url, "--out", tmp_path / "run", "--json"]
    done = CliRunner().invoke(cli, list(map(str, given)))
    assert done.exit_code == 0, (done.exception, done.output)
    report = json.loads(done.stdout)
    categories = report["runs"]["retrieval"]["by_category"]
    assert {name: one["f1"]["value"] for name, one in categories.items()} == {
        "single": pytest.approx(2 / 3, abs=1e-4),
        "ask": 1.0,
        "count": 0.0,
    }
    for other in (("--kinds", "count"), ("--adapter", "taught")):
        more = CliRunner().invoke(cli, [*map(str, given), *other])
        assert "other options" in str(more.exception)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--source", "examples"), "--source chooses among cases of the pack"),
        (("--run-on", "invented"), "has no invented data for the questions of a file"),
        (("--run-on", "frozen"), "has no invented data for the questions of a file"),
        (("--policy", "from-walk", "--model-url", "http://127.0.0.1:9/v1"), "leave out --model-url"),
        (("--policy", "strict", "--model-url", "http://127.0.0.1:9/v1"), "--policy from-walk needs a model"),
        (("--kinds", "odd", "--run-on", "store"), "there are no questions of kind odd"),
    ],
)
def test_options_that_do_not_fit(more: tuple[str, ...], message: str, questions: Path, stored: LivingIndex) -> None:
    given = ["eval", str(questions), "--pack", "wikidata", "--model", "m", "--index", stored.name, "--db", stored.url]
    done = CliRunner().invoke(cli, [*given, *(() if "--run-on" in more else ("--run-on", "store")), *more])
    assert message in str(done.exception)


def test_a_half_is_one_of_a_file() -> None:
    done = CliRunner().invoke(cli, ["eval", "--pack", "wikidata", "--model", "m", "--split", "tune"])
    assert "--split chooses among the questions of a file" in str(done.exception)


class Choices:
    """Chooses walks by given scores, and counts how often. `min_confidence`: 4 nats over -10."""

    def __init__(self, facts: TreeFacts, **scores: float) -> None:
        self.asked, self._facts, self._scores = 0, facts, scores

    def __call__(self, question: str) -> QueryChoice:
        self.asked += 1
        candidates = [Candidate(read_line(line), line, score) for line, score in self._scores.items()]
        return QueryChoice(
            question=question, heads=("list",), mentions=Mentions([], frozenset(), []), candidates=tuple(candidates),
            without=-10.0, min_confidence=4.0, facts=self._facts,
        )  # fmt: skip


def answer(text: str, *facts: tuple[str, str, str]) -> Answer:
    written = tuple(Fact(*parts, " <{}> <{}> <{}> .".format(*parts), (0, 1)) for parts in facts)
    return Answer(question="?", answer=text, text="", facts=written, links=(), tokens=1, forward_passes=1, seconds=0.1)


def no_answer(_question: str) -> Answer:
    return answer("I don't know.")


def answer_along(*facts: tuple[str, str, str]) -> Callable[[str], Answer]:
    return lambda _question: answer(facts[-1][-1], *facts)


ANN = "Ann (a poet)"


@pytest.mark.parametrize(
    ("answered", "line"),
    [
        (answer("Bob; eve", (ANN, "child", "Bob"), (ANN, "child", "Eve")), f"list <{ANN}> <child>"),
        (answer("Dan", (ANN, "child", "Bob"), ("Bob", "spouse", "Dan")), "list <Bob> <spouse>"),
        (answer("Bob", (ANN, "child", "Bob"), ("Bob", "size", "7")), f"list <{ANN}> <child>"),
        (answer("Ann", (ANN, "child", "Bob")), "list <Bob> <child of>"),
        (answer("Rome", (ANN, "child", "Bob")), None),
        (answer("a poet", (ANN, "description", "a poet")), f"list <{ANN}> <description>"),
        (no_answer("?"), None),
    ],
)
def test_the_walk_behind_an_answer_has_its_items_as_rows(
    answered: Answer, line: str | None, stored: LivingIndex
) -> None:
    with stored.open() as index:
        found = query_behind(answered, TreeFacts(index))
    assert (None if found is None else write_line(found)) == line


def test_the_query_of_an_answer_is_the_walk_behind_it(stored: LivingIndex) -> None:
    with stored.open() as index:
        facts = TreeFacts(index)
        query = answer_query(read_line("count <Ann (a poet)> <child>"), facts)
        assert query_behind(replace(answer("2"), queries=(query,)), facts) == query.query


def test_the_walk_behind_the_answer_comes_before_the_likely_ones(stored: LivingIndex) -> None:
    with stored.open() as index:
        facts = TreeFacts(index)
        choices = Choices(facts, **{"list <Eve> <spouse>": -1.0})
        engine = open_engine(index, "store")
        for person, entity in (("Bob", "wd:Q3"), ("Up (song)", "wd:Q4")):  # there is no fact of the song, so no id
            writer = WalkWriter(choices, facts, answer_along((person, "spouse", "Dan")))
            found = Translator(load_pack("wikidata"), writer=writer, engine=engine).translate("Whose spouse?")
            assert found.sparql is not None
            assert entity in found.sparql
        engine.close()
    assert choices.asked == 1


def test_attempts_go_down_the_walks_until_one_has_rows_or_tells_too_little(stored: LivingIndex) -> None:
    with stored.open() as index:
        facts = TreeFacts(index)
        lines = {
            "list <Eve> <child>": -1.0,
            "list <Dan> <child>": -2.0,
            "list <Nobody> <child>": -2.5,
            "list <Bob> <child>": -9.0,
        }
        choices = Choices(facts, **lines)
        writer, failed = WalkWriter(choices, facts, no_answer), list[Attempt]()
        while (written := writer.write(WritingTask(question="Whose child?", failed=failed))).text:
            failed.append(replace(written, report=ValidationReport(count=0)))
        texts = [one.sparql or "" for one in failed]
        assert ["wd:Q4" in texts[0], "wd:Q5" in texts[1], len(texts), choices.asked] == [True, True, 2, 1]
        engine = open_engine(index, "store")
        found = Translator(load_pack("wikidata"), writer=writer, engine=engine).translate("Whose child?")
        engine.close()
    assert [one.sparql for one in found.attempts] == texts
    assert found.reason == "no other query was written"


def test_a_walk_with_rows_stays_even_if_the_agent_doubts_it(stored: LivingIndex) -> None:
    with stored.open() as index:
        facts = TreeFacts(index)
        choices = Choices(
            facts, **{"list <Dan> <child>": -1.0, "list <Eve> <spouse>": -2.0, f"list <{ANN}> <child>": -3.0}
        )
        engine, writer = open_engine(index, "store"), WalkWriter(choices, facts, answer_along(("Dan", "child", "Eve")))
        doubts = Scripted(["no, it asks for Ann's child"])
        translator = Translator(
            load_pack("wikidata"), writer=writer, fast=doubts, engine=engine, options=TranslateOptions(agent=True)
        )
        found = translator.translate("Ann has whom?")
        engine.close()
    assert found.sparql is not None
    assert "wd:Q4 wdt:P4" in found.sparql
    assert [one.rows for one in found.attempts] == [0, 1]
    assert found.attempts[1].doubt == "it asks for Ann's child"
    assert found.reason == "no other query was written"
