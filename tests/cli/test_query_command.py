"""`refactx query`: walk lines and questions in words, as a user types them."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.command import complains, run_refactx

from refactx.cli.main import cli
from refactx.errors import RefactxError

ALASKA = "Alaska (state of the United States of America)"
COUNT = "count <Alaska> <language used>"
LOADED = """
import sys
from refactx.cli.main import main
sys.argv = ["refactx", *sys.argv[1:]]
try:
    main()
finally:
    print(sorted({"torch", "transformers", "llama_cpp", "duckdb"} & sys.modules.keys()), file=sys.stderr)
"""


def in_process(*arguments: object, **options: Any) -> Result:
    """A command without a terminal, in this process."""
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], **options)


def document(*arguments: object) -> Any:
    done = in_process("query", "--json", *arguments, catch_exceptions=False)
    assert done.exit_code == 0
    return json.loads(done.stdout)


class TestLines:
    @pytest.mark.long
    def test_a_line_is_answered_without_loading_a_model(self, sample_url: str) -> None:
        command = [sys.executable, "-c", LOADED, "query", COUNT, "--db", sample_url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stderr.splitlines() == [f"refactx: <Alaska> is taken as <{ALASKA}>", "[]"]
        lines = done.stdout.splitlines()
        assert lines[:3] == [f"Query: count <{ALASKA}> <language used>", "Answer: 19", "SPARQL:"]
        assert "    wd:Q797 wdt:P2936 ?x ." in lines
        facts = [line for line in lines if line.startswith("<")]
        assert len(facts) == 19
        confirmed = run_refactx("facts", facts[0], "--db", sample_url, "--json")
        assert json.loads(confirmed.stdout)["completions"] == [{"text": f"{facts[0]} .", "leaves": 1}]

    def test_json_has_the_answered_query_and_what_was_replaced(self, sample_url: str) -> None:
        found = document("list <Alaska> <capital> .", "--db", sample_url)
        assert found["question"] == "list <Alaska> <capital> ."
        assert (found["query"], found["answer"]) == (f"list <{ALASKA}> <capital>", "Juneau")
        assert found["rows"][0]["url"] == f"https://www.wikidata.org/wiki/{found['rows'][0]['id']}"
        assert found["facts"][0]["predicate"]["id"] == "P36"
        assert found["resolved"] == [{"label": "Alaska", "name": ALASKA, "among": 1, "others": []}]
        assert found["confidence"] is None

    def test_the_limit_shortens_rows_and_facts(self, sample_url: str) -> None:
        line = "list <Alaska> <language used>"
        shown = in_process("query", line, "--limit", 3, "--db", sample_url).stdout
        assert len(re.findall(r"^Row: .*  https://www.wikidata.org/wiki/Q\d+$", shown, re.M)) == 3
        assert len(re.findall("^<", shown, re.M)) == 3
        assert "; (and 16 more)\n" in shown
        assert "(and 16 more rows: see --limit)" in shown
        assert "(and 16 more facts: see --limit)" in shown
        assert len(document(line, "--db", sample_url)["rows"]) == 19
        short = document(line, "--limit", 3, "--db", sample_url)
        assert (len(short["rows"]), len(short["facts"]), short["count"]) == (3, 3, 19)

    def test_no_run_writes_the_query_alone(self, sample_url: str) -> None:
        shown = in_process("query", COUNT, "--no-run", "--db", sample_url).stdout
        assert shown.startswith("Query: count <Alaska (")
        assert "wd:Q797 wdt:P2936 ?x" in shown
        assert not re.search("^(Answer|Row|Fact):", shown, re.M)
        found = document(COUNT, "--no-run", "--db", sample_url)
        assert found.keys() == {"question", "query", "sparql", "head", "confidence", "resolved"}

    @pytest.mark.parametrize(
        ("line", "answer"),
        [
            ("ask <Alaska> <country> <United States of America>", "yes"),
            ("ask <Alaska> <population> over <1000000000>", "no"),
            ("count <Alaska> <shares border with>", "0"),
        ],
    )
    def test_an_answer(self, sample_url: str, line: str, answer: str) -> None:
        assert document(line, "--db", sample_url)["answer"] == answer

    def test_a_graph_without_ids_has_no_sparql(self, url: str) -> None:
        done = in_process("query", "list <Ann> <p>", "--db", url, catch_exceptions=False)
        assert done.stdout.splitlines() == [
            "Query: list <Ann> <p>",
            "Answer: b; c",
            "Row: b",
            "Row: c",
            "<Ann> <p> <b>",
            "<Ann> <p> <c>",
            "",
        ]
        assert "refactx: the query has no SPARQL" in done.stderr


class TestMistakes:
    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("list <Alasca> <capital>", f"no fact begins with <Alasca>: did you mean <{ALASKA}>"),
            ("list <Alaska> <kapital>", f"<kapital> is no predicate of <{ALASKA}>: did you mean <capital>"),
            ("list <Alaska> <country of>", "It has no inverse facts: does the index (`ingest --inverse`)?"),
            ("list <Alaska> <population> <capital>", "cannot be followed from literals"),
            ("ask <Alaska> <inception> over <abc>", "<abc> cannot be compared with them"),
            ("count <Alaska> <capital", "cannot be read from '<capital' on"),
            ("most <Alaska> <language used>", "queries for most and least, sum and average end in `by <predicate>`"),
        ],
    )
    def test_a_query_without_an_answer_is_one_clear_line(self, sample_url: str, line: str, expected: str) -> None:
        done = in_process("query", line, "--db", sample_url)
        assert isinstance(done.exception, RefactxError)
        assert expected in str(done.exception)
        assert (done.stdout, done.stderr) == ("", "")

    def test_the_exit_code_is_2(self, sample_url: str) -> None:
        assert complains("query", "list <Alasca> <capital>", "--db", sample_url).startswith("refactx: no fact begins")

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            (
                ("Who is Ann?",),
                "'Who is Ann?' is a question in words, which needs a model: give --model MODEL, or write",
            ),
            (("  ",), "the question is empty"),
            (("Who?", "--model", "demo", "--prompt", "none.toml"), "there is no prompt none.toml"),
        ],
    )
    def test_wrong_arguments_are_reported_before_anything_is_read(
        self, arguments: tuple[object, ...], expected: str
    ) -> None:
        done = in_process("query", *arguments, "--db", "postgresql://nobody@127.0.0.1:1/none")
        assert isinstance(done.exception, RefactxError)
        assert expected in str(done.exception)


class TestPipe:
    @pytest.mark.parametrize("arguments", [(), ("-",)])
    def test_each_line_is_answered_and_mistakes_are_reported(
        self, sample_url: str, arguments: tuple[object, ...]
    ) -> None:
        lines = f"{COUNT}\n\nlist <Alasca> <capital>\nWho?\nlist <Alaska> <capital>\n"
        done = in_process("query", *arguments, "--json", "--db", sample_url, input=lines)
        found = [json.loads(line) for line in done.stdout.splitlines()]
        assert [one.get("answer") for one in found] == ["19", None, None, "Juneau"]
        assert "did you mean" in found[1]["error"]
        assert "needs a model" in found[2]["error"]
        assert "2 of 4 questions cannot be answered; the first is 'list <Alasca> <capital>'" in str(done.exception)

    def test_an_empty_pipe_is_reported(self, sample_url: str) -> None:
        done = in_process("query", "--db", sample_url, input="\n")
        assert "there is no question" in str(done.exception)


class TestQuestions:
    """The tiny model has random weights, but only one query fits."""

    def test_a_question_is_answered_by_the_query_that_a_model_chooses(self, url: str, tiny_folder: Path) -> None:
        command = ("query", "How many p has Ann?", "--model", tiny_folder, "--db", url)
        done = in_process(*command, "--explain", catch_exceptions=False)
        lines = done.stdout.splitlines()
        assert lines[:3] == ["Question: How many p has Ann?", "Query: count <Ann> <p>", "Answer: 2"]
        assert re.fullmatch(r"Confidence: (low|medium|high) \(-?\d+\.\d\)", lines[3])
        assert "Asks for: count" in lines
        assert "Names: 'Ann' <Ann>, 100% of the facts of all entities of its name" in lines
        assert re.search(r"^Candidate: +-\d+\.\d\d \(confidence +-?\d+\.\d\d\)  count <Ann> <p>$", done.stdout, re.M)
        found = json.loads(in_process(*command, "--explain", "--json").stdout)
        assert (found["question"], found["count"], found["heads"]) == ("How many p has Ann?", 2, ["count"])
        assert found["candidates"][0]["confidence"] == found["confidence"]
        assert found["names"]["entities"][0]["name"] == "Ann"

    def test_lists_lines_and_questions_without_an_answer(self, url: str, tiny_folder: Path) -> None:
        lines = "Which p has Ann?\nlist <Ann> <p>\nWho?\n"
        done = in_process("query", "--model", tiny_folder, "--db", url, "--json", input=lines)
        found = [json.loads(line) for line in done.stdout.splitlines()]
        assert [one.get("answer") for one in found] == ["b; c", "b; c", None]
        assert "names no entity of the index" in found[2]["error"]
        assert "1 of 3 questions" in str(done.exception)

    def test_no_run_chooses_without_answering(self, url: str, tiny_folder: Path) -> None:
        command = ("query", "How many p has Ann?", "--model", tiny_folder, "--db", url, "--no-run", "--json")
        found = json.loads(in_process(*command).stdout)
        assert found["query"] == "count <Ann> <p>"
        assert "answer" not in found
        assert isinstance(found["confidence"], float)
