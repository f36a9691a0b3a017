"""The claims of a text: which the facts of a small world say, and of which they say otherwise."""

import re
from collections.abc import Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.query.sample_world import CHILE, CLAIMS, END, PERU, PROPERTIES, words
from support.query.world import FakeScore, WorldIndex, overlap, result_of
from support.tiny_asker import tiny_asker

from refactx.ask import claims, sentences
from refactx.ask.claims import TextClaim, TextClaims, check_claims
from refactx.ask.sentences import plain_sentence, sentences_of
from refactx.documents import cited, claims_document
from refactx.english import holder_of
from refactx.errors import InputError
from refactx.fact import Link, LinkedFact
from refactx.selection.channel import Channel, QuerySources
from refactx.selection.weights import Weights

FRANCE = "France (country)"
WORLD = WorldIndex(
    [
        *CLAIMS,
        (PERU, "elevation", "6768 metre"),
        (FRANCE, "elevation", "4808.7"),
        ("Nile (river)", "length", "6650 kilometre"),
        *((f"{one} (city)", "instance of", "city") for one in ("Lima", "Santiago", "Paris")),
        (FRANCE, "capital", "Paris (city)"),
        ("1911 Tour (race)", "publication date", "1911-07-02"),
        ("Lolita (film)", "influenced by", "Jaws (film)"),
    ],
    PROPERTIES
    | {
        "influenced by": ("P737", "entity", "influenced by (inverse)"),
        "elevation": ("P2044", "quantity", ""),
        "length": ("P2043", "quantity", ""),
    },
)


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> None:
    score_by_words(monkeypatch)


def score_by_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of a model: each word that a property has in common with a sentence is worth eight nats."""

    def score(*, question: Sequence[int], lead: int) -> FakeScore:
        of_line = overlap(WORLD.tokenizer.decode(list(question[lead:])))
        return FakeScore(WORLD.tokenizer, lambda line: 4 * of_line(line))

    monkeypatch.setattr(claims, "QuestionScore", score)
    monkeypatch.setattr(sentences, "run_jobs", lambda _, jobs: [result_of(job.steps) for job in jobs])


def test_a_sentence_whose_names_are_likelier_exchanged_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in for a model finds sentences with `of France` likelier."""

    def score(*, question: Sequence[int], lead: int) -> FakeScore:
        sentence = WORLD.tokenizer.decode(list(question[lead:]))
        of_line, gain = overlap(sentence), 10 * ("of France" in sentence)
        return FakeScore(WORLD.tokenizer, lambda line: 4 * of_line(line) + gain)

    monkeypatch.setattr(claims, "QuestionScore", score)
    monkeypatch.setattr(sentences, "run_jobs", lambda _, jobs: [result_of(job.steps) for job in jobs])
    fact = "<France> <capital> <Paris>"
    assert said(checked("Paris is the capital, that is, of France.").claims) == [("holds", fact)]
    assert said(checked("France is the capital, that is, of Paris.").claims) == [("differs", fact)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Paris is the capital of France.", [("holds", "<France> <capital> <Paris>")]),
        ("France is the capital of Paris.", [("differs", "<France> <capital> <Paris>")]),
        ("France's capital is Paris.", [("holds", "<France> <capital> <Paris>")]),
        ("The capital of Paris is France.", [("differs", "<France> <capital> <Paris>")]),
        ("Lolita was influenced by Jaws.", [("holds", "<Lolita> <influenced by> <Jaws>")]),
        ("Jaws was influenced by Lolita.", [("differs", "<Lolita> <influenced by> <Jaws>")]),
        ("Ann Lee is the spouse of Bo.", [("holds", "<Ann Lee> <spouse> <Bo>")]),
        ("Bo is the spouse of Ann Lee.", [("holds", "<Ann Lee> <spouse> <Bo>")]),
    ],
)
def test_words_tell_which_of_two_names_has_a_property(text: str, expected: list[tuple[str, str]], scored: None) -> None:
    assert said(checked(text).claims) == expected


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("The [capital] of <Alaska> is <Juneau>.", "Alaska"),
        ("The [capital] of the <USA> is <Washington>.", "USA"),
        ("<Juneau> is <Alaska>’s [capital].", "Alaska"),
        ("<James>' [Boss] is <Ann>.", "James"),
        ("<Acme> was [owned by] the <Bo Group>.", "Acme"),
        ("<Ann> is a [student of] <Bo>.", "Ann"),
        ("<Ann> [student of] <Bo>.", "Ann"),
        ("<Ann> has a [student], <Bo>.", None),
        ("<Juneau>, the [capital] in <Alaska>.", None),
        ("<Ann> and <Bo> have a [boss].", None),
        ("The [spouse] of <Ann> is <Bo>.", None),
    ],
)
def test_english_words_tell_who_has_a_predicate(sentence: str, expected: str | None) -> None:
    text, places, predicate = "", list[tuple[int, int]](), ""
    for part in re.split(r"([<\[][^>\]]*[>\]])", sentence):
        inner = part.strip("<>[]") if part[:1] in ("<", "[") else part
        if part.startswith("<"):
            places.append((len(text), len(text) + len(inner)))
        predicate = inner.lower() if part.startswith("[") else predicate
        text += inner
    for some in (places, places[::-1]):
        found = holder_of(text, predicate, some)
        assert (None if found is None else text[slice(*some[found])]) == expected


def channel_of(sentence: str, earlier: Sequence[str]) -> Channel:
    known = words()
    sources = QuerySources(facts=WORLD.facts, words=known.of_question(sentence), tokens=WORLD.folded, end=END)
    given: dict[str, Any] = {"examples": (), "question": (), "lead": 0, "weights": Weights()}
    return Channel(text=sentence, earlier=earlier, queries=sources, **given)


def checked(text: str) -> TextClaims:
    shared: Any = SimpleNamespace(scheduler=SimpleNamespace(engine=SimpleNamespace(trees=0)))
    return check_claims(text, channel_of, WORLD.machine, shared)


def said(found: Iterable[TextClaim]) -> list[tuple[str, str]]:
    """The verdicts, each with the fact that says it or stands instead, read forwards and without descriptions."""
    said = list[tuple[str, str]]()
    for one in found:
        fact = one.fact or one.instead
        names = [] if fact is None else [fact.subject, fact.predicate, fact.object]
        forwards = "" if fact is None else fact.predicate.removesuffix(" of").removesuffix(" (inverse)")
        if fact is not None and forwards != fact.predicate and fact.predicate not in PROPERTIES:
            names = [fact.object, forwards, fact.subject]
        said.append((one.verdict, " ".join(f"<{name.partition(' (')[0]}>" for name in names)))
    return said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t ", []),
        ("One. Two!  Three? Four… five", ["One.", "Two!", "Three?", "Four… five"]),
        ("Dr. Lee met J. R. R. Tolkien in the U.S. Senate.", ["Dr. Lee met J. R. R. Tolkien in the U.S. Senate."]),
        ("The area is 3.5. The rest is sea.", ["The area is 3.5.", "The rest is sea."]),
        ("Sold, e.g. apples. They are red.", ["Sold, e.g. apples.", "They are red."]),
        ('"He left." She said so.', ['"He left."', "She said so."]),
        ("# Peru\nLima is big.\n\nIt grows", ["# Peru", "Lima is big.", "It grows"]),
        ("* one\n* two\n1. Ann is in Rome.\n2. Bo left", ["* one", "* two", "1. Ann is in Rome.", "2. Bo left"]),
        ("one line\nthe same sentence", ["one line\nthe same sentence"]),
        ("Am 3. Oktober 1990 kam er. Er blieb.", ["Am 3. Oktober 1990 kam er.", "Er blieb."]),
        ("Это правда. Да.\r\n\r\n他来了。她走了。", ["Это правда.", "Да.", "他来了。", "她走了。"]),
        ("**Lima** is big. **Rome** is old.", ["**Lima** is big.", "**Rome** is old."]),
    ],
)
def test_the_sentences_of_a_text(text: str, expected: list[str]) -> None:
    assert [text[slice(*place)] for place in sentences_of(text)] == expected


@given(st.text(st.sampled_from("aA.!? \n*#1\")'。\0Ж"), max_size=60))
def test_sentences_are_in_order_and_leave_out_space_alone(text: str) -> None:
    at = 0
    for start, stop in sentences_of(text):
        assert start >= at
        assert stop > start
        assert not text[at:start].strip()
        assert text[start:stop] == text[start:stop].strip()
        at = stop
    assert not text[at:].strip()


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("> 1. **Lima** is `the` _capital_", "Lima is the capital"),
        ("See ![a map](https://e.org/a_b) of [Peru][1].[2][^3] [4](https://e.org)", "See a map of Peru."),
        ("<p>Lima <b class='x'>is</b> big</p>", "Lima is big"),
        ("snake_case and 2*3 stay", "snake_case and 2*3 stay"),
        ("Fact: <a> <b> <c> .", "Fact: <a> <b> <c> ."),
    ],
)
def test_marks_of_markdown_and_html_are_left_out(sentence: str, expected: str) -> None:
    assert plain_sentence(sentence) == expected


@pytest.mark.usefixtures("scored")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The capital of Peru is Lima.", ("holds", "<Peru> <capital> <Lima>")),
        ("* The **capital** of [Peru](https://e.org) is *Lima*.", ("holds", "<Peru> <capital> <Lima>")),
        ("The capital of Peru is Santiago.", ("differs", "<Chile> <capital> <Santiago>")),
        ("The capital of Peru is Zorvath.", ("not in the index", "")),
        ("The publication date of 1911 Tour is 1979.", ("differs", "<1911 Tour> <publication date> <1911-07-02>")),
        ("The director of 1911 Tour is Bo.", ("not in the index", "")),
        ("The capital of Zorvath is Lima.", ("not in the index", "")),
        ("The area of Peru is 1,285,216.", ("holds", "<Peru> <area> <1285216>")),
        ("The area of Peru is 1.3 million.", ("holds", "<Peru> <area> <1285216>")),
        ("The area of Peru is 1,285,000.", ("holds", "<Peru> <area> <1285216>")),
        ("The area of Peru is 1,285,220.", ("not in the index", "")),  # near, but not said to be rounded
        ("The area of Peru is 1 million.", ("not in the index", "")),  # one digit is too few
        ("The area of Peru is 1.4 million.", ("differs", "<Peru> <area> <1285216>")),
        ("The area of Peru is 1,3 Millionen.", ("not in the index", "")),
        ("The area of Peru is 900000 hectares.", ("not in the index", "")),  # the fact says no unit
        ("The elevation of Peru is 6,768 m.", ("holds", "<Peru> <elevation> <6768 metre>")),
        ("The elevation of Peru is 6768 metres.", ("holds", "<Peru> <elevation> <6768 metre>")),
        ("The elevation of Peru is 22,205 feet.", ("not in the index", "")),
        ("The elevation of Peru is 6,768 feet.", ("not in the index", "")),
        ("The elevation of Peru is 5,000 m.", ("differs", "<Peru> <elevation> <6768 metre>")),
        ("The length of Nile is 6,650 km.", ("holds", "<Nile> <length> <6650 kilometre>")),
        ("The elevation of France is 4808.7.", ("holds", "<France> <elevation> <4808.7>")),
        ("The elevation of France is 4809.", ("not in the index", "")),
        ("The publication date of Lolita is 1962.", ("holds", "<Lolita> <publication date> <1962-05-02>")),
        ("The publication date of Lolita is 2 May 1962.", ("holds", "<Lolita> <publication date> <1962-05-02>")),
        ("The publication date of Lolita is May 1962.", ("holds", "<Lolita> <publication date> <1962-05-02>")),
        ("The publication date of Lolita is 3 May 1962.", ("differs", "<Lolita> <publication date> <1962-05-02>")),
        ("The publication date of Lolita is 1963.", ("differs", "<Lolita> <publication date> <1962-05-02>")),
    ],
)
def test_a_claim_holds_differs_or_is_not_in_the_index(text: str, expected: tuple[str, str]) -> None:
    found = checked(text)
    assert said(found.claims) == [expected]
    [claim] = found.claims
    assert (claim.text, claim.start, claim.stop) == (text, 0, len(text))
    assert (found.sentences, found.without_claim) == (1, 0)


@pytest.mark.usefixtures("scored")
@pytest.mark.parametrize(
    "text",
    [
        "Is Lima the capital of Peru?",
        "Lima is not the capital of Peru.",
        "Lima isn’t the capital of Peru.",
        "Lima was never the capital of Peru.",
        "Lima ist nicht die Hauptstadt von Peru.",
        "Lima n'est pas la capitale du Peru.",
        "Fact: <Peru> <capital> <Lima> .",
        "```\nThe capital of Peru is Lima\n```",
        "peru",
        "The area of Peru is 1e99999999.",
        "12",
        f"The capital of Peru is Lima{' and so on' * 60}.",
        "\0\x1b[2J",
    ],
)
def test_what_makes_no_claim_is_left_alone_and_counted(text: str) -> None:
    found = checked(text)
    assert (found.claims, found.sentences, found.without_claim) == ((), 1, 1)


@pytest.mark.usefixtures("scored")
def test_each_value_of_a_sentence_makes_a_claim_of_its_own() -> None:
    found = checked("Official languages of Peru are Spanish and Quechua.")
    assert sorted(said(found.claims)) == [
        ("holds", "<Peru> <official language> <Quechua>"),
        ("holds", "<Peru> <official language> <Spanish>"),
    ]
    two = checked("The capital of Peru is Lima and its area is 1,285,216.")
    assert sorted(said(two.claims)) == [
        ("holds", "<Peru> <area> <1285216>"),
        ("holds", "<Peru> <capital> <Lima>"),
    ]
    assert (two.sentences, two.without_claim) == (1, 0)
    mixed = checked("The capital of Peru is Lima and its area is 999,111.")
    assert sorted(said(mixed.claims)) == [
        ("differs", "<Peru> <area> <1285216>"),
        ("holds", "<Peru> <capital> <Lima>"),
    ]


@pytest.mark.usefixtures("scored")
def test_a_pronoun_stands_for_what_a_sentence_before_names() -> None:
    text = "Peru is a country.\n\nIts capital is Lima. Its capital is Santiago."
    found = checked(text)
    assert said(found.claims)[-2:] == [
        ("holds", "<Peru> <capital> <Lima>"),
        ("differs", "<Chile> <capital> <Santiago>"),
    ]
    assert [text[one.start : one.stop] for one in found.claims] == [one.text for one in found.claims]


@pytest.mark.usefixtures("scored")
@pytest.mark.parametrize(
    "text", ["The area of Zorvath is 1,285,216.", "Zorvath says its area is 1,285,216.", "Zorvath it is."]
)
def test_what_the_index_does_not_name_is_not_what_a_sentence_before_names(text: str) -> None:
    found = checked(f"Peru is a country. {text}").claims
    assert [one.verdict for one in found if one.text == text] == ["not in the index"]


def test_many_objects_may_have_more_than_were_read(scored: None, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "The official language of Peru is French."
    assert [one.verdict for one in checked(text).claims] == ["differs"]
    monkeypatch.setattr(claims, "OBJECTS", 1)
    assert [one.verdict for one in checked(text).claims] == ["not in the index"]


@pytest.mark.usefixtures("scored")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (" \n", "the text is empty: give one with sentences"),
        ("a" * 50_001, "the text has 50,001 characters: check at most 50,000 at once"),
        ("Yes. " * 501, "the text has 501 sentences: check at most 500 at once"),
    ],
)
def test_a_text_that_is_empty_or_too_long_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=re.escape(reason)):
        checked(text)


@pytest.mark.usefixtures("scored")
@pytest.mark.parametrize(
    "text",
    ["Dr. X " * 8000, "\n" * 49_999 + "x", "[" * 50_000, "<a " * 16_000, "*_`" * 16_000, "." * 50_000, "a" * 50_000],
)
def test_hostile_texts_are_read_in_linear_time(text: str) -> None:
    assert checked(text).claims == ()


NAMES = [
    "Peru",
    "Chile",
    "France",
    "Lima",
    "Santiago",
    "Spanish",
    "French",
    "Lolita",
    "Stanley Kubrick",
    "Bo",
    "Zorvath",
]
VALUES = [*NAMES, "1962", "1,285,216", "756950", "2 May 1962", "1.3 million", "Europe"]
SAID = ["capital", "area", "official language", "director", "publication date", "spouse", "continent", "population"]
SENTENCES = st.one_of(
    st.builds("The {} of {} is {}.".format, st.sampled_from(SAID), st.sampled_from(NAMES), st.sampled_from(VALUES)),
    st.builds("{} is the {} of {}!".format, st.sampled_from(VALUES), st.sampled_from(SAID), st.sampled_from(NAMES)),
    st.builds("Its {} is {}.".format, st.sampled_from(SAID), st.sampled_from(VALUES)),
)


@given(st.lists(SENTENCES, min_size=1, max_size=4))
def test_no_claim_holds_whose_fact_is_not_in_the_index(sentences: list[str]) -> None:
    text = " ".join(sentences)
    with pytest.MonkeyPatch.context() as patch:
        score_by_words(patch)
        found = checked(text)
    assert found.sentences == len(sentences)
    makes = {(one.start, one.stop) for one in found.claims}
    assert found.without_claim == found.sentences - len(makes)
    for one in found.claims:
        assert text[one.start : one.stop] == one.text
        fact = one.fact or one.instead
        assert (one.fact is not None, one.instead is not None) == (one.verdict == "holds", one.verdict == "differs")
        if fact is not None:
            assert (fact.subject, fact.predicate, fact.object) in WORLD.graph
        if fact and one.verdict == "differs":  # no object of it is named, unless as what has the property
            owner, value = (one.partition(" (")[0] for one in (fact.subject, fact.object))
            if fact.predicate.endswith(" of"):
                owner, value = value, owner
            if owner in one.text and f"{fact.predicate.removesuffix(' of')} of {value}" in one.text:
                continue
            objects = {o for s, p, o in WORLD.graph if (s, p) == (fact.subject, fact.predicate)}
            assert not any(value.partition(" (")[0] in one.text for value in objects if value[0].isalpha())


class Linked:
    """An index that links subjects alone."""

    def links_of(self, facts: Iterable[Any]) -> Iterator[LinkedFact]:
        for one in facts:
            subject = Link(one.subject, "Q1", "https://e.org/Q1")
            yield LinkedFact(subject, Link(one.predicate, "P1"), one.object)


@pytest.mark.usefixtures("scored")
def test_a_text_gets_footnotes_with_links() -> None:
    text = "Old.[^4] The capital of Peru is Lima. Santiago is the capital of Peru.\n\nThe capital of Peru is Lima.\n"
    index: Any = Linked()
    assert cited(index, text, checked(text)) == (
        "Old.[^4] The capital of Peru is Lima.[^5] Santiago is the capital of Peru.[^6]\n\n"
        "The capital of Peru is Lima.[^5]\n\n"
        f"[^5]: `<Lima (city)> <capital of> <{PERU}> .` https://e.org/Q1#P1\n"
        f"[^6]: The index has: `<Santiago (city)> <capital of> <{CHILE}> .` https://e.org/Q1#P1"
    )
    document = claims_document(index, checked(text))
    assert [one.end - one.start for one in document.claims] == [len(one.text) for one in document.claims]
    assert cited(index, "Old.\n", checked("Old.\n")) == "Old."


def test_an_index_in_postgresql_is_needed() -> None:
    with pytest.raises(InputError, match="there is no index for the sentences of the text: give one"):
        tiny_asker(facts=None).check("Ann is b.")
    with pytest.raises(InputError, match="with an index in PostgreSQL, and a prompt"):
        tiny_asker().check("Ann is b.")


def test_a_check_that_is_cancelled_ends_with_an_error() -> None:
    with pytest.raises(InputError, match="was cancelled"):
        tiny_asker().check("Ann is b.", cancelled=lambda: True)
