"""The names that stand in a question are found whatever the tokenizer, and nothing else is."""

from collections import defaultdict

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.engines.texts import Source
from support.query.name_search import (
    TOKENIZERS,
    WHOLE,
    Named,
    index_of,
    named_by,
    search_names,
    spans_of,
    tokenizer_of,
)
from support.tiny_model import MemoryIndex

from refactx.decoding.machine import Machine
from refactx.linking.names import unaccented
from refactx.selection.mentions import FoldedTokens, find_mention_spans
from refactx.tree.tree import Children

WORDS = (
    "Ann",
    "ann",
    "Bo",
    "Bon",
    "Bé",
    "be",
    "Łó",
    "city",
    "Cities",
    "U.S.",
    "J.",
    "j",
    "Jr.",
    "foxes",
    "Fox",
    "11",
    "O'Ann",
)
DESCRIBED = ("", "", " (n)", ' ("b" n)', " ((b) n)", " (alias)", " (Ann) (alias)")
ASKED = (*WORDS, "BO", "b", "é", "ŁÓ", "łó", "Lo", "anns", "FOXES", "citys", "U.S", "US", "u", "jr", "Bo (n)", "Bo (")
BETWEEN = (" ", " ", " ", "  ", ", ", ".", "'s ", "_", "-", " (", "\n")
NAMES = st.sets(
    st.builds(
        lambda words, end: " ".join(words) + end,
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
        st.sampled_from(DESCRIBED),
    ),
    min_size=1,
    max_size=8,
)
QUESTIONS = st.lists(st.tuples(st.sampled_from(ASKED), st.sampled_from(BETWEEN)), max_size=9).map(
    lambda pairs: "".join(word + between for word, between in pairs)
)


def found(index: MemoryIndex, question: str) -> set[Named]:
    return {named_by(index, span) for span in spans_of(index, question)}


@pytest.mark.parametrize("kind", TOKENIZERS)
@settings(max_examples=60)
@given(names=NAMES, question=QUESTIONS)
@example(names={"Ann J. Bo Jr.", "Ann J. Bo"}, question="Ann J. Bo Jr. ")
@example(names={"Bé", "Łó (n)"}, question="be, łó, Łó, BÉ")
@example(names={'Bo ("b" n)', "Bo (n)", "Bo"}, question="bo")
@example(names={"O'Ann foxes"}, question="o'ann FOXES")
def test_the_longest_names_of_each_place_are_found(kind: str, names: set[str], question: str) -> None:
    index = index_of(names, kind)
    assert found(index, question) == search_names(names, question, WHOLE.get(kind, ""))


@pytest.mark.parametrize("kind", TOKENIZERS)
@settings(max_examples=25)
@given(names=NAMES, question=QUESTIONS)
def test_the_spans_of_a_name_lead_to_all_of_its_facts(kind: str, names: set[str], question: str) -> None:
    index, total = index_of(names, kind), defaultdict[Named, int](int)
    machine = Machine(index)
    for span in spans_of(index, question):
        assert machine.follow(machine.begin(0), span.ids) == span.state
        total[named_by(index, span)] += span.state.children.total
    assert total == {one: sum(name == one[2] or name.startswith(f"{one[2]} (") for name in names) for one in total}


@pytest.mark.parametrize(
    ("name", "question", "words"),
    [
        ("Barack Obama (n)", "where was barack obama born", "barack obama"),
        ("Michael J. Fox", "who is Michael J Fox?", "Michael J Fox"),
        ("Michael J. Fox", "michael j. fox's wife", "michael j. fox"),
        ("U.S. (n)", "states of the U.S", "U.S"),
        ("Martin L. King Jr.", "was Martin L. King Jr. shot", "Martin L. King Jr."),
        ("Martin L. King Jr.", "was martin l king jr. shot", "martin l king jr."),
        ("city", "which cities are there", "cities"),
        ("fox", "how many foxes", "foxes"),
        ("language", "How many Languages?", "Languages"),
        ("Łódź", "is Łódź large", "Łódź"),
        ("POŁ", "is poŁ large", "poŁ"),
        ("Diego Forlán", "diego forlán", "diego forlán"),
        ("Sea  of X".replace("  ", " "), "the sea   of\tx", "sea   of\tx"),
        ("Route 66", "is route 66 long", "route 66"),
        ("St. John's", "capital St. John's", "St. John's"),
    ],
)
@pytest.mark.parametrize("kind", TOKENIZERS)
def test_ways_in_which_a_name_may_be_written(kind: str, name: str, question: str, words: str) -> None:
    [(start, stop, _)] = found(index_of([name], kind), question)
    assert question[start:stop] == words


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("Ann", "Anna and Joann"),
        ("Ann", "hann ann1"),
        ("Ann Lee", "ann and lee"),
        ("bus", "bu"),
        ("as", "a"),
        ("a", "as"),
        ("(500) Days", "500 days"),
        ("a b c d e f g h i", "a b c d e f g h i"),
    ],
)
def test_parts_of_words_and_longer_names_are_not_found(name: str, question: str) -> None:
    assert not found(index_of([name]), question)


def test_a_name_within_a_longer_one_is_found_elsewhere_alone() -> None:
    index = index_of(["New York", "New York City", "York"])
    assert found(index, "new york city or york") == {(0, 13, "New York City"), (17, 21, "York")}


def test_names_that_overlap_are_both_found() -> None:
    assert found(index_of(["a b", "b c"]), "a b c") == {(0, 3, "a b"), (2, 5, "b c")}


def test_accents_may_be_left_out_if_a_letter_is_one_id() -> None:
    for kind in TOKENIZERS:
        assert bool(found(index_of(["Bé (n)"], kind), "is be here")) == (kind == "whole letters")
        assert found(index_of(["Bé (n)"], kind), "is bé here")


class Counted:
    """The continuations of an index, and how often they were looked up."""

    def __init__(self, index: MemoryIndex) -> None:
        self.index, self.number = index, 0

    def children(self, prefix: tuple[int, ...]) -> Children:
        self.number += 1
        return self.index.children(prefix)

    def spans(self, question: str) -> int:
        """How many lookups the mention spans of a question need."""
        machine, before = Machine(self.index), self.number
        start, tokens = machine.begin(0), FoldedTokens(self.index.tokenizer.token_bytes)
        find_mention_spans(machine.over(Source(self.children)), start, tokens, question)
        return self.number - before


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_names_that_are_not_in_the_question_need_no_lookups(kind: str) -> None:
    few, question = ["Ann Lee (n)", "Ann", "Bo"], "when did ann lee meet bo in the bay?"
    many = [f"z{n} {name}" for n in range(100) for name in few] + [f"Ann Lee (n{n})" for n in range(100)]
    lookups = Counted(index_of(few, kind)).spans(question)
    assert lookups == Counted(index_of([*few, *many], kind)).spans(question)
    letters = sum(map(len, few)) + len(few)
    assert 0 < lookups <= 4 * letters
    assert Counted(index_of(few, kind)).spans("q w q") <= 6


def keys_of(piece: bytes) -> set[bytes]:
    """The texts with which an id may be found."""
    try:
        return {piece.lower(), unaccented(piece.decode()).encode()} - {b""}
    except UnicodeDecodeError:
        return {piece.lower()}


@settings(max_examples=40)
@given(st.sampled_from(TOKENIZERS), st.text("aAbBéÉn> (<Ł", max_size=8))
def test_folded_tokens_are_those_with_which_a_text_may_begin_or_end(kind: str, text: str) -> None:
    pieces, wanted = tokenizer_of(kind).token_bytes, unaccented(text).encode()
    keys = [(token, key) for token, piece in enumerate(pieces) for key in keys_of(piece)]
    tokens = FoldedTokens(pieces)
    begins = {(token, len(key)) for token, key in keys if wanted.startswith(key)}
    assert set(tokens.beginning(wanted)) == begins
    plain = wanted.partition(b">")[0].partition(b" (")[0]
    for closing in (b">", b" ("):
        expected = {token for token, key in keys if key.startswith(plain + closing)}
        assert set(tokens.closing(plain + closing)) == expected
