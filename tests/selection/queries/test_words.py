"""What a question's words ask for, by the built-in prompt, and words that a prompt must not have."""

from pathlib import Path
from typing import Any

import pytest

from refactx.ask.prompt import LANGUAGES, load_prompt
from refactx.errors import InputError
from refactx.selection.mentions import QueryWords, numbers_of
from refactx.walks.language import ASKED_HEADS, OPERATORS
from refactx.walks.values import parse_quantity

HEADS_OF = {
    "How many nicknames does Louisiana have?": "count",
    "how many people live in Berlin?": "count",
    "What is the number of children of Brad Pitt?": "count",
    "How often did Ali fight?": "count",
    "How much does it cost?": "count",
    "count the rivers of Peru": "count",
    "number of rivers in Peru": "count",
    "Which lake has the largest number of islands?": "count most",
    "What is the telephone number of Ann?": "list",
    "what's the serial number of the pump": "list",
    "What country is Bern in?": "list",
    "Which county is Reno in?": "list",
    "Is it true that Bern is a city?": "ask",
    "was Alan Turing a mathematician?": "ask",
    "Did Kubrick direct more than 10 films?": "ask",
    "HAS PERU ANY DESERTS?": "ask",
    "Can penguins fly?": "ask",
    "What is Bern?": "list",
    "Where was he born?": "list",
    "Whose is it?": "list",
    "who did it": "list",
    "Island of the blue dolphins author": "list",
    "Isaac Newton's birthday": "list",
    "Doesburg mayor": "list",
    "What is the highest mountain?": "most",
    "What is the most recent film of Steven Spielberg?": "most",
    "What is the latest album of Adele?": "most",
    "Name the tallest building in Dubai": "most",
    "Which lake is deepest?": "most",
    "Which is the smallest country in Africa?": "least",
    "who was the first man on the moon?": "least",
    "Who has the fewest goals?": "least",
    "When was the earliest one?": "least",
    "What is the oldest university?": "most least",
    "Is Everest the highest mountain?": "ask most",
    "Do they have the same number of sides?": "ask count",
    "How many moons has the largest planet?": "count most",
    "List the members of Pink Floyd": "list",
    "Who directed Almost Famous?": "list",
    "Who are the Foremost?": "list",
    "Where is Mostar?": "list",
    "What is the last name of Alan?": "list",
    "What is the first name of Turing?": "list",
    "Was he at least 18?": "ask",
    "Who is the count of Monte Cristo?": "list",
    "Which countries are mostly flat?": "list",
    "": "list",
}
OPERATORS_OF = {
    "Are there more than 12,500 people?": "over",
    "Does the population exceed 1000?": "over",
    "Is the height greater than 8000?": "over",
    "Is it over 5?": "over",
    "Was it founded after 1990?": "over",
    "Is the mass lower than 2.5e-08?": "under",
    "Does it have at least 5 members?": "from",
    "Is it no less than 3?": "from",
    "Are there 5 or more?": "from",
    "Are there 5 members or more?": "from",
    "Are there at most 5?": "up to",
    "Is it not more than 3?": "up to",
    "Does the width not exceed 15 mm?": "up to",
    "Are there 5 or fewer?": "up to",
    "Is the age under 30?": "under",
    "Is it less than 3?": "under",
    "Was he born before 1990?": "under",
    "Is the length equal to 5?": "equals",
    "Does it have exactly 5 members?": "equals",
    "Is its population 5?": "equals",
    "Is thunder an overture?": "equals",
}
NUMBERS_OF = {
    "more than 12,500?": ["12500"],
    "12,500.5 or 1,234,567": ["12500.5", "1234567"],
    "lower than 2.5e-08?": ["2.5e-08"],
    "between -5 and +3": ["-5", "+3"],
    "born in 1990.": ["1990"],
    "in 1990, 1991,1992": ["1990", "1991", "1992"],
    "from 3-4 to 10/20": ["3", "4", "10", "20"],
    "$12 and 50%": ["12", "50"],
    "the 1990s, the 5th, B2B, 7up and v1.2.3": [],
    "1.5km or 12,500km": [],
    "٣ or ²": [],
    "none": [],
}


IN_LANGUAGES = {
    "Wie viele Einwohner hat Berlin?": ("de", "count", "equals"),
    "Wie oft gewann Ann den Preis?": ("de", "count", "equals"),
    "Welche Berge liegen in Peru?": ("de", "list", "equals"),
    "Was ist der höchste Berg in Peru?": ("de", "most", "equals"),
    "Wer war der kleinste Präsident?": ("de", "least", "equals"),
    "Welche Stadt hat die meisten Einwohner?": ("de", "most", "equals"),
    "Ist Bern die Hauptstadt der Schweiz?": ("de", "ask", "equals"),
    "Gibt es Berge in Peru, die höher als 6000 Meter sind?": ("de", "ask", "over"),
    "Welche Filme erschienen vor 1990?": ("de", "list", "under"),
    "Welche Filme erschienen nach 1990?": ("de", "list", "over"),
    "Welche Städte haben zwischen 10 und 20 Bezirke?": ("de", "list", "over under"),
    "Wer schrieb Dracula?": ("de", "list", "equals"),
    "In welcher Zeitzone liegt Salt Lake City?": ("de", "list", "equals"),
    "Combien d'habitants a Berlin ?": ("fr", "count", "equals"),
    "Quelle est la plus haute montagne du Pérou ?": ("fr", "most", "equals"),
    "Quel est le plus petit pays d'Afrique ?": ("fr", "least", "equals"),
    "Est-ce que Berne est la capitale de la Suisse ?": ("fr", "ask", "equals"),
    "Danny Boyle est-il né à Londres ?": ("fr", "ask", "equals"),
    "Quand est-il né ?": ("fr", "list", "equals"),
    "Qui est le premier ministre de la France ?": ("fr", "list", "equals"),
    "Quels films sont sortis avant 1990 ?": ("fr", "list", "under"),
    "Quelles villes ont plus de 5 ponts ?": ("fr", "list", "over"),
    "¿Cuántos habitantes tiene Berlín?": ("es", "count", "equals"),
    "¿Cuál es la montaña más alta del Perú?": ("es", "most", "equals"),
    "¿Cuál es el país más pequeño de África?": ("es", "least", "equals"),
    "¿Es Berna la capital de Suiza?": ("es", "ask", "equals"),
    "¿Qué películas se estrenaron antes de 1990?": ("es", "list", "under"),
    "¿Qué ciudades tienen más de 5 puentes?": ("es", "list", "over"),
    "¿Quién escribió Drácula?": ("es", "list", "equals"),
    "How many people live in Die, France?": ("en", "count", "equals"),
    "Who directed Los hijos de la noche?": ("en", "list", "equals"),
    "was Angela Merkel in Hamburg?": ("en", "ask", "equals"),
    "Berlin": ("en", "list", "equals"),
}


@pytest.fixture(scope="module")
def words() -> QueryWords:
    found = load_prompt().words
    assert found is not None
    return found


@pytest.mark.parametrize("question", HEADS_OF)
def test_heads(words: QueryWords, question: str) -> None:
    assert words.heads_of(question) == HEADS_OF[question].split()


@pytest.mark.parametrize("question", OPERATORS_OF)
def test_operators(words: QueryWords, question: str) -> None:
    assert words.operators_of(question) == OPERATORS_OF[question].split(", ")


@pytest.mark.parametrize("question", IN_LANGUAGES)
def test_a_question_has_the_words_of_its_language(words: QueryWords, question: str) -> None:
    found = words.of_question(question)
    asked = found.language, " ".join(found.heads_of(question)), " ".join(found.operators_of(question))
    assert asked == IN_LANGUAGES[question]
    assert (found.class_of, found.subclass_of) == (words.class_of, words.subclass_of)


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_of_all_languages_are_filled_in(words: QueryWords, language: str) -> None:
    found = words.of_question("?", language)
    assert found.language == language
    assert found.heads.keys() == set(ASKED_HEADS) - {"list"}
    assert found.operators.keys() == words.operators.keys()
    assert all((found.function, found.asking, found.either, found.yes, found.no, found.unknown))
    assert words.of_question("Wer?", "xx") is words, "words of a language that is not known are the first one's"


def test_words_of_a_prompt_are_for_all_questions() -> None:
    own = QueryWords.of({"heads": {"count": ["how many"]}})
    assert own.of_question("Wie viele Berge hat das Land?") is own


@pytest.mark.parametrize("question", NUMBERS_OF)
def test_numbers(question: str) -> None:
    found = numbers_of(question)
    assert [number for _, _, number in found] == NUMBERS_OF[question]
    for start, stop, number in found:
        assert question[start:stop].replace(",", "") == number
        assert parse_quantity(number) is not None


def test_every_head_and_operator_of_the_prompt_can_be_meant(words: QueryWords) -> None:
    heads = {head for asked in HEADS_OF for head in words.heads_of(asked)}
    operators = {operator for asked in OPERATORS_OF for operator in words.operators_of(asked)}
    assert heads == set(ASKED_HEADS)
    assert words.operators.keys() <= operators


def test_function_words_name_nothing(words: QueryWords) -> None:
    assert words.is_function("The of, and")
    assert words.is_function("...")
    assert not words.is_function("the country")


def test_without_patterns_a_list_is_meant() -> None:
    assert QueryWords().heads_of("how many?") == ["list"]
    assert QueryWords().operators_of("more than 5") == ["equals"]


def test_a_pattern_begins_at_a_word_in_any_case() -> None:
    words = QueryWords.of({"heads": {"count": ["wie viele"], "most": ["größt"]}, "function": "der die"})
    assert words.heads_of("WIE VIELE Flüsse?") == ["count"]
    assert words.heads_of("der GRÖSSTE, größte Fluss") == ["most"]
    assert words.heads_of("irgendwie viele, zweitgrößte") == ["list"]
    assert words.is_function("Die der")


INVALID: list[tuple[Any, str]] = [
    ("x", "`words` is not a table"),
    (5, "`words` is not a table"),
    ({"head": {}}, r"\[words\] has head: use heads, operators, measures, tables, function, class_of, subclass_of"),
    ({"heads": ["how many"]}, r"\[words.heads\] is not a table of lists of texts"),
    ({"heads": {"count": "how many"}}, r"\[words.heads\] is not a table of lists of texts"),
    ({"heads": {"count": [1]}}, r"\[words.heads\] is not a table of lists of texts"),
    ({"heads": {"sum": ["total"]}}, rf"\[words.heads\] has sum: use {', '.join(ASKED_HEADS)}"),
    ({"operators": {"more": ["more"]}}, rf"\[words.operators\] has more: use {', '.join(OPERATORS)}"),
    ({"heads": {"count": ["how (many"]}}, r"how \(many.*no regular expression"),
    ({"operators": {"over": ["*"]}}, "no regular expression"),
    ({"function": ["a", "the"]}, r"function of its \[words\] is not a text"),
    ({"class_of": 31}, r"class_of of its \[words\] is not a text"),
    ({"subclass_of": True}, r"subclass_of of its \[words\] is not a text"),
]


@pytest.mark.parametrize(("table", "complaint"), INVALID)
def test_invalid_words_are_refused(table: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        QueryWords.of(table)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("words = 5", "`words` is not a table"),
        ("[words]\nfunction = ['a']", "function of its"),
        ("[words.heads]\ncount = ['(']", "no regular expression"),
        ("[words.heads]\nsum = ['total']", "has sum: use list"),
    ],
)
def test_a_prompt_with_invalid_words_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "own.toml"
    file.write_text(f"system = 'a'\n{text}")
    with pytest.raises(InputError, match=complaint):
        load_prompt(str(file))
