"""Files of prompts for SPARQL, and what is wrong with them."""

from importlib.resources import files
from pathlib import Path

import pytest

from refactx.errors import InputError
from refactx.sparql.policies import load_sparql_prompt

BUILT_IN = (files("refactx.prompts") / "sparql.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("[direct]", "[indirect]", "has no direct"),
        ('user = "$question"', 'user = "$q"', "user of direct has not just $question"),
        ("$names\n", "", r"user of rag has not just $question and $names"),
        ("wd:Q142 wdt:P36 ?x . }", "wd:Q142 wdt:P36 ?x .", "is not closed"),
        ('P36 = "capital"', 'P37 = "capital"', "example 1 has P36, P37 not both in its query and in its names"),
        ('P36 = "capital"', 'P36 = ""', "example 1 names P36, which is no id with a name"),
        ('question = "what is the capital of france?"', 'question = " "', "example 1 has no question"),
        ("examples = 10", "examples = -1", "examples of rag is no number of examples"),
        ("[direct]", "[more]\na = 1\n[direct]", "it has more"),
        ("[direct]", "[direct", "is not TOML"),
    ],
)
def test_a_prompt_that_is_not_valid_is_reported(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert old in BUILT_IN
    path = tmp_path / "own.toml"
    path.write_text(BUILT_IN.replace(old, new, 1))
    with pytest.raises(InputError) as raised:
        load_sparql_prompt(str(path))
    assert expected in str(raised.value)
    assert "own.toml" in str(raised.value)


def test_a_prompt_that_is_not_there_is_reported() -> None:
    with pytest.raises(InputError, match=r"there is no prompt none\.toml for SPARQL"):
        load_sparql_prompt("none.toml")


def test_a_question_is_data_and_has_to_have_text() -> None:
    prompt = load_sparql_prompt()
    assert prompt.messages("rag", "What is $names?\nAnd\tyou?")[-1]["content"].endswith("What is $names? And you?")
    with pytest.raises(InputError, match="the question is empty"):
        prompt.messages("direct", " \n")


def test_a_prompt_may_show_the_first_of_the_examples_alone(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(BUILT_IN.replace("[direct]", "[direct]\nexamples = 2", 1))
    every, some = (load_sparql_prompt(name).messages("direct", "Who?") for name in ("sparql", str(path)))
    assert len(every) > len(some) == 1 + 2 * 2 + 1
    assert some == [*every[:5], every[-1]]


def test_queries_that_are_held_to_a_line_end_with_it_in_examples() -> None:
    prompt = load_sparql_prompt()
    held, free = (prompt.messages(form, "Who?")[2::2] for form in ("names", "direct"))
    assert all(text["content"].startswith("SPARQL: ") and text["content"].endswith("}\n") for text in held[:3])
    assert not any(text["content"].endswith("\n") for text in free)
