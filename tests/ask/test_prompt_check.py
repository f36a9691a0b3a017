"""The check of a prompt against an index."""

from pathlib import Path
from typing import Any

import pytest
from support.tiny_asker import LinkedIndex
from support.tiny_model import tiny_fact_tokenizer

from refactx.ask.prompt import Example, Prompt, check_prompt, load_prompt
from refactx.errors import InputError
from refactx.fact import Fact, Link, LinkedFact, split_fact
from refactx.index.open import open_index


class Known(LinkedIndex):
    """An index of one fact, in which the predicate `known` has an id too."""

    name = "people"

    def __init__(self, **options: Any) -> None:
        super().__init__(tiny_fact_tokenizer(), ["<Ann> <p> <b>"], **options)

    def __contains__(self, fact: object) -> bool:
        parts = split_fact(str(fact))
        return parts is not None and f"<{parts[0]}> <{parts[1]}> <{parts[2]}>" in self.facts

    def links(self, fact: Fact) -> LinkedFact:
        return LinkedFact(
            Link(fact.subject), Link(fact.predicate, "P1" if fact.predicate == "known" else None), fact.object
        )


def prompt(*facts: str, **options: Any) -> Prompt:
    answer = "".join(f"Fact:{fact}\nSo.\n" for fact in facts) + "Answer: yes"
    return Prompt(system="Be true.", examples=(Example("Who?", "Answer: I."), Example("Is it?", answer)), **options)


def test_facts_of_the_index_and_known_predicates_pass() -> None:
    facts = (" <Ann> <p> <b> .", " <Bo> <known> <Fact: c> .", " <Bo> <description> <c> .")
    assert check_prompt(prompt(*facts), Known()) == []


def test_unknown_predicates_are_reported() -> None:
    (note,) = check_prompt(prompt(" <Ann> <p> <c> .", " <Bo> <q> <c> .", " <Bo> <p> <c> ."), Known())
    assert "index 'people' does not have (<p>, <q>)" in note


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        (" <Ann> <p> <b>", "write 'Fact: <Ann> <p> <b> .'"),
        ("<Ann> <p> <b> .", "write 'Fact: <Ann> <p> <b> .'"),
        (" <Ann>  <p> <b> .", "write 'Fact: <Ann> <p> <b> .'"),
        (" <Ann> <p> <b>.", "write 'Fact: <Ann> <p> <b> .'"),
        (" <Ann> <p> .", "write 'Fact: <subject> <predicate> <object> .'"),
        (" Ann p b .", "write 'Fact: <subject> <predicate> <object> .'"),
        ("", "write 'Fact: <subject> <predicate> <object> .'"),
        (" <Ann> <p> <b> . <c>", "write 'Fact: <subject> <predicate> <object> .'"),
    ],
)
def test_an_example_that_is_not_in_the_form_of_the_index_is_refused(fact: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        check_prompt(prompt(fact), Known())
    assert str(caught.value).startswith(f"example 2 of the prompt has {'Fact:' + fact!r}")
    assert str(caught.value).endswith(expected)


@pytest.mark.parametrize(
    "line",
    [
        "Fact: <Ann> <p>",
        "Fact: <Ann> <p> Question:",
        "Fact: <Ann> Question: who?",
        "Fact: <Ann> <p> <b> Question: who?",
        "Fact:<Ann> <p> Question: who?",
        "Fact: <Ann>  <p> Question: who?",
        "Fact: <Ann> <p> . Question: who?",
        "Fact: Ann p Question: who?",
    ],
)
def test_a_line_of_the_channel_that_is_not_a_fact_with_a_question_is_refused(line: str) -> None:
    channel = f"Each fact with its question.\nFact: <Ann> <p> Question: who?\n\n{line}\n"
    with pytest.raises(InputError) as caught:
        check_prompt(prompt(channel=channel), Known())
    assert repr(line) in str(caught.value)
    assert "<p> Question: what is" in str(caught.value) or "<subject> <predicate> Question: what is" in str(
        caught.value
    )


def test_the_channel_may_have_lines_without_facts() -> None:
    channel = "Facts, each with what it answers.\nFact: <Ann> <p>; asked: who?\n"
    assert check_prompt(prompt(" <Ann> <p> <b> .", channel=channel, asks="; asked:"), Known()) == []


def test_another_trigger_or_terminator_is_refused() -> None:
    with pytest.raises(InputError, match="trigger is 'Proof:', but that of index 'people' is 'Fact:'"):
        check_prompt(prompt(trigger="Proof:"), Known())
    with pytest.raises(InputError, match="write 'Fact: <Ann> <p> <b> !'"):
        check_prompt(prompt(" <Ann> <p> <b> ."), Known(terminator=" !"))


def test_a_prompt_that_shows_neither_trigger_nor_marker_is_reported() -> None:
    notes = check_prompt(Prompt(system="Be true."), Known())
    assert [note.partition(",")[0] for note in notes] == [
        "the prompt never shows its trigger 'Fact:'",
        "the prompt never shows its marker 'Answer:'",
    ]


@pytest.mark.parametrize("name", ["wikidata", "wikidata-rules"])
def test_the_wikidata_prompts_fit_an_index_of_wikidata(name: str, sample_url: str) -> None:
    with open_index("default", sample_url) as index:
        assert check_prompt(load_prompt(name), index) == [], "the sample has all predicates of the examples"


def test_the_texts_of_a_file_of_questions(tmp_path: Path) -> None:
    from refactx.eval.questions import read_texts

    def read(content: str, name: str = "q") -> list[str]:
        (tmp_path / name).write_text(content, encoding="utf-8")
        return read_texts(tmp_path / name)

    assert read("Who?\n\n  What is {x}? \n") == ["Who?", "What is {x}?"]
    assert read('{"question": "Who?"}\n{"question": "What?"}\n') == ["Who?", "What?"]
    assert read('{"question": "Who?"}') == ["Who?"]
    webqsp = '{"Version": "1", "Questions": [{"QuestionId": "a", "RawQuestion": "Who?", "Parses": []}]}'
    assert read(webqsp) == ["Who?"]
    for content, expected in (
        ("\n", "no questions"),
        ("[]", "no questions"),
        ("{", "neither JSON"),
        ("[1]", "no questions"),
    ):
        with pytest.raises(InputError, match=expected):
            read(content)
