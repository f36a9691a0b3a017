"""`refactx validate` as it is typed."""

import json
from pathlib import Path

from support.command import complains, run_refactx

GOOD = "PREFIX elita: <http://w3id.org/elita/> SELECT ?e { ?e elita:HasEmotion elita:Gioia }"
BAD = "PREFIX elita: <http://w3id.org/elita/> SELECT ?e { ?e elita:HasEmotion elita:Joy }"


def test_a_valid_query_ends_with_0_and_another_with_1(tmp_path: Path) -> None:
    done = run_refactx("validate", GOOD, "--pack", "liita")
    assert (done.returncode, done.stdout) == (0, "valid\n")
    file = tmp_path / "query.rq"
    file.write_text(BAD)
    done = run_refactx("validate", file, "--pack", "liita", "--json")
    assert done.returncode == 1
    assert [one["code"] for one in json.loads(done.stdout)["problems"]] == ["name", "rule.emotions"]
    done = run_refactx("validate", "-", "--pack", "liita", input=BAD)
    assert done.returncode == 1
    assert "L2 name: elita:Joy is unknown" in done.stdout


def test_mistakes_are_told_in_one_line() -> None:
    assert "nope is no query, and no file" in complains("validate", "nope", "--pack", "liita")
    assert "there is no pack nope" in complains("validate", GOOD, "--pack", "nope")
    assert "nope is no engine" in complains("validate", GOOD, "--pack", "liita", "--run-on", "nope")
    assert "http://127.0.0.1:9" in complains(
        "validate", GOOD, "--pack", "liita", "--run-on", "http://127.0.0.1:9/sparql", "--timeout", "2"
    )
