"""Answers in the language of the question, where the index has labels in it; facts stay as the tree has them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.tiny_asker import save_tiny

import refactx
from refactx.ask.answer import untranslated
from refactx.ask.asker import Asker
from refactx.ask.channels import Channels
from refactx.ask.evidence import evidence_of
from refactx.ask.prompt import Generation, load_prompt
from refactx.errors import InputError
from refactx.fact import Link, LinkedFact
from refactx.index.index import Index
from refactx.selection.channel import Channel

LINES = """
<http://www.wikidata.org/entity/Q183> <http://www.w3.org/2000/01/rdf-schema#label> "Germany"@en .
<http://www.wikidata.org/entity/Q183> <http://www.w3.org/2000/01/rdf-schema#label> "Deutschland"@de .
<http://www.wikidata.org/entity/Q183> <http://schema.org/description> "country in Europe"@en .
<http://www.wikidata.org/entity/Q64> <http://www.w3.org/2000/01/rdf-schema#label> "Berlin"@en .
<http://www.wikidata.org/entity/Q64> <http://www.w3.org/2000/01/rdf-schema#label> "Berlin"@de .
<http://www.wikidata.org/entity/P17> <http://www.w3.org/2000/01/rdf-schema#label> "country"@en .
<http://www.wikidata.org/entity/Q64> <http://www.wikidata.org/prop/direct/P17> <http://www.wikidata.org/entity/Q183> .
"""
GERMANY = "Germany (country in Europe)"
GERMAN, ENGLISH = "In welchem Land liegt Berlin?", "In which country is Berlin?"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the tiny model."""
    return save_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def index(tiny: Path, module_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """An index with names in English, German and Italian, of which there are none."""
    source = tmp_path_factory.mktemp("source") / "source.nt"
    source.write_text(LINES)
    refactx.build_index(
        "languages", str(source), db=module_url, tokenizer=str(tiny), languages="en,de,it", workers=1, replace=True
    )
    with refactx.open_index("languages", module_url) as opened:
        yield opened


def channel(index: Index, question: str, **options: str) -> Channel:
    found = Channels(index, load_prompt(), {0}).of(
        question, answer_language=options.pop("answer", "question"), **options
    )
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("question", "options", "values"),
    [
        (GERMAN, {}, ["Deutschland", "Berlin", "ja", "7"]),
        (ENGLISH, {}, ["Germany", "Berlin", "yes", "7"]),
        (ENGLISH, {"answer": "de"}, ["Deutschland", "Berlin", "ja", "7"]),
        (ENGLISH, {"language": "de"}, ["Deutschland", "Berlin", "ja", "7"]),
        (GERMAN, {"answer": "index"}, ["Germany", "Berlin", "yes", "7"]),
        (GERMAN, {"answer": "en"}, ["Germany", "Berlin", "yes", "7"]),
        (GERMAN, {"answer": "it"}, ["Germany", "Berlin", "yes", "7"]),
        ("Dans quel pays est Berlin ?", {}, ["Germany", "Berlin", "yes", "7"]),
    ],
)
def test_values_of_an_answer_are_in_its_language(
    index: Index, question: str, options: dict[str, str], values: list[str]
) -> None:
    found = channel(index, question, **options)
    assert found.in_language([GERMANY, "Berlin", "yes", "7"]) == values
    assert found.unknown == ("Ich weiß es nicht." if values[0] == "Deutschland" else "I don't know.")
    answer = "; ".join(values)
    assert (untranslated(answer, found.translated) or answer) == "Germany; Berlin; yes; 7"
    assert (untranslated(found.unknown, found.translated) or found.unknown) == "I don't know."


def test_each_value_is_said_once(index: Index) -> None:
    assert channel(index, GERMAN).in_language([GERMANY, "Deutschland", GERMANY]) == ["Deutschland"]


def test_a_fact_proves_the_answer_in_another_language() -> None:
    fact = LinkedFact(Link("Berlin"), Link("country"), Link(GERMANY))
    named = untranslated("Deutschland", {"Deutschland": "Germany"})
    assert [one.proves for one in evidence_of(named, [fact], ())] == [True]


def test_a_language_of_answers_that_the_index_does_not_have_is_told(index: Index, tiny: Path) -> None:
    model, tokenizer = refactx.load_model(str(tiny))
    asker = Asker(model, tokenizer, index)
    with pytest.raises(InputError, match=r"has no labels in 'fr', only in en, de, it: give one of them"):
        asker.ask(GERMAN, answer_language="fr")
    for name in ("language", "answer_language"):
        with pytest.raises(InputError, match=rf"{name} is 'german!': give a code such as de"):
            Generation(**{name: "german!"})
