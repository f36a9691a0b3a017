"""What people say of answers becomes an evaluation set or examples of a pack, without what others say is wrong."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.translate.kennel import DOGS, KENNEL

from refactx.cli.main import cli
from refactx.errors import InputError
from refactx.eval import read_questions
from refactx.eval.feedback import add_examples, read_feedback
from refactx.sparql.packs.pack import load_pack


def said(question: str, answer: str, **more: Any) -> dict[str, Any]:
    return {
        "time": "t",
        "model": "m",
        "index": "i",
        "question": question,
        "answer": answer,
        "facts": [],
        "words": "",
    } | more


LINES = [
    said("Capital?", "So.\nAnswer: Bern", right=True),
    said("River?", "Answer: Rhine", right=False, words="no"),
    said("Lake?", "Answer: Como", right=False, answers=["Garda", " "]),
    said("Peak?", "Answer: Dom", right=True),
    said("Peak?", "Answer: Dom"),
    said("Pass?", "Answer: I don't know.", right=True),
    said("Town?", "Answer: Zug", right=True),
    said("Town?", "Answer: Baar", right=True),
]


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


def test_known_answers_become_questions(tmp_path: Path) -> None:
    marked, others = read_feedback(write(tmp_path / "f.jsonl", LINES))
    assert {one.question: one.answers for one in marked} == {
        "Capital?": ("Bern",),
        "Lake?": ("Garda",),
        "Town?": ("Baar",),
    }
    assert others == 3, "one is wrong, one is right to one person alone, one is no answer"
    out = tmp_path / "set.jsonl"
    done = CliRunner().invoke(cli, ["questions", "feedback", str(tmp_path / "f.jsonl"), "--out", str(out)])
    assert done.exit_code == 0, done.output
    read = read_questions(out)
    assert {(q.text, q.answers[0].text, q.source) for q in read} == {
        ("Capital?", "Bern", "feedback"), ("Lake?", "Garda", "feedback"), ("Town?", "Baar", "feedback"),
    }  # fmt: skip


def test_a_correction_that_others_report_is_left_out(tmp_path: Path) -> None:
    lines = [said("Lake?", "Answer: Como", answers=["Garda"]), said("Lake?", "Answer: Garda")]
    assert read_feedback(write(tmp_path / "f.jsonl", lines)) == ([], 1)


def test_queries_that_pass_become_examples_of_a_pack(tmp_path: Path) -> None:
    marked, _ = read_feedback(
        write(
            tmp_path / "f.jsonl",
            [
                said("How many dogs?", "3", right=True, sparql=DOGS),
                said("How many wolves?", "3", right=True, sparql="SELECT ?x { ?x a ex:Wolf }"),
                said("How many cats?", "3", right=True),
                said("Which dogs are there?", "x", right=True, sparql=DOGS),
                said("Which owners?", "x", answers=["y"], sparql=DOGS),
            ],
        )
    )
    (tmp_path / "examples.jsonl").write_text('{"id": "0"}')
    pack = replace(KENNEL, folder=tmp_path)
    number, left = add_examples(pack, marked)
    assert number == 1
    assert [why.partition(": ")[0] for why in left] == [
        "How many wolves?", "How many cats?", "Which dogs are there?", "Which owners?",
    ]  # fmt: skip
    assert "ex:Wolf is unknown" in left[0]
    first, added = (json.loads(line) for line in (tmp_path / "examples.jsonl").read_text().splitlines())
    assert first == {"id": "0"}
    assert (added["question"], added["patterns"]) == ("How many dogs?", {"COUNT": 1.0})
    assert "a ex:Dog" in added["sparql"]
    with pytest.raises(InputError, match="comes with ReFactX: copy its folder"):
        add_examples(load_pack("liita"), marked)


@pytest.mark.parametrize("content", ["{", "[1]\n", '{"question": 1, "answer": "a"}', '{"question": "Q?"}', "\xff"])
def test_a_file_that_is_no_feedback_is_reported(content: str, tmp_path: Path) -> None:
    (tmp_path / "f.jsonl").write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError, match=r"give a file of feedback|expected JSON, one object a line"):
        read_feedback(tmp_path / "f.jsonl")
