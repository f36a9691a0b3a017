"""Sixty answers that people judged: what a judge is told, and what is read of its replies, agree with them.

The judge of the tests follows the rule that it finds in its prompt, and compares names, dates and numbers as the metrics do.
What only their meaning tells (`means`) it cannot know; `refactx eval judge` compares a language model on all sixty.
"""

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from refactx.ask.prompt import Prompt
from refactx.cli.main import cli
from refactx.errors import InputError
from refactx.eval import Gold, judge, score
from refactx.eval.judge import Judgement, agreement, judge_all, load_judge_prompt, read_judgements

FILE = Path(__file__).parent / "judgements.jsonl"
RULES = ("judge", "judge-complete")


def by_names(prompt: Prompt, message: str) -> str:
    """A judge that knows two rules by their words, and the words of a verdict by the last line of the message."""
    rule = " ".join(prompt.system.split())
    question, gold, *answer = message.strip().removesuffix(message.strip().splitlines()[-1]).strip().splitlines()
    assert question.startswith("Question: ")
    golds = [Gold(text) for text in gold.partition(": ")[2].split("; ")]
    found = score("\n".join(answer).partition("nswer: ")[2], golds)
    if "at least one of the reference answers" in rule and "nothing that contradicts it" in rule:
        is_right = found.hit
    else:
        assert "complete and correct" in rule
        assert "every one of them" in rule
        is_right = found.exact
    right, wrong = ("RIGHT", "WRONG") if message.rstrip().endswith("RIGHT or WRONG?") else ("yes", "no")
    return f"{right if is_right else wrong}."


def verdicts(folder: Path, rule: str, judgements: list[Judgement]) -> dict[str, bool | None]:
    return judge_all(folder, [one.case for one in judgements], "names", load_judge_prompt(rule), lambda: by_names)


def needs_meaning() -> list[bool]:
    return [bool(json.loads(line).get("means")) for line in FILE.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_and_what_is_read_of_replies_agree_with_people(rule: str, tmp_path: Path) -> None:
    judgements = read_judgements(FILE, rule)
    said = verdicts(tmp_path, rule, judgements)
    differs = [said[one.case.key] is not one.is_right for one in judgements]
    plain = [
        one.why for one, other, means in zip(judgements, differs, needs_meaning(), strict=True) if other and not means
    ]
    assert not plain, "what names alone decide"
    assert agreement(judgements, said)["agreement"]["value"] == round(1 - sum(differs) / 60, 4)
    assert 0 < sum(differs) <= sum(needs_meaning()), "some need their meaning"


def test_the_rules_differ_where_a_list_is_not_complete_or_has_more(tmp_path: Path) -> None:
    one, every = (read_judgements(FILE, rule) for rule in RULES)
    assert len(one) == 60
    assert all(judgement.why for judgement in one)
    for judgements in (one, every):
        assert min(Counter(judgement.is_right for judgement in judgements).values()) >= 20
    other = [a for a, b in zip(one, every, strict=True) if a.is_right is not b.is_right]
    assert len(other) >= 8
    assert all(a.is_right and len(a.case.golds) > 1 for a in other)
    lenient = verdicts(tmp_path, "judge", every)
    assert agreement(every, lenient)["wrong_called_right"] >= len(other), "the other rule calls incomplete lists right"


def test_a_file_that_has_no_judgements_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "j.jsonl"
    line = {"question": "Q?", "answers": ["a"], "answer": "a", "verdicts": {"judge": True}}
    for content, expected in (
        ("", "has no judgements"),
        ("{", "line 1"),
        (json.dumps(line | {"verdicts": {"judge": "yes"}}), "a verdict is true or false"),
        (json.dumps(line) + "\n" + json.dumps(line | {"verdicts": {}}), "line 2: KeyError"),
    ):
        file.write_text(content)
        with pytest.raises(InputError, match=expected):
            read_judgements(file, "judge")


def test_the_command_prints_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "local_judge", lambda _: by_names)
    done = CliRunner().invoke(cli, ["eval", "judge", str(FILE), "--judge", "names", "--judge-prompt", "judge-complete"])
    assert done.exit_code == 0, done.output
    *others, summary = done.output.splitlines()
    wrong = len([line for line in others if line.startswith("line ")])
    assert f"agreement {1 - wrong / 60:.2f} (" in summary
    assert any("all of them by their surnames" in line for line in others)
