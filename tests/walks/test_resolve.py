"""Labels and aliases in queries stand for entities; names, literals and unknown texts stay as they are."""

import pytest
from support.query.memory_index import RowsIndex

from refactx.linking import LinkedName
from refactx.walks.facts import TreeFacts
from refactx.walks.language import is_line, read_line, write_line
from refactx.walks.resolve import resolve

GRAPH = frozenset(
    [
        ("Lou (state)", "p", "Ann (x)"),
        ("Lou (state)", "t", "1812"),
        *(("Lou (song)", "n", f"{number}") for number in range(5)),
        *(("Lou (song)", "q", f"Ann ({letter})") for letter in "xyz"),
        ("Pel (alias)", "alias of", "Lou (state)"),
        ("Pel (alias)", "alias of", "Lou (song)"),
        ("Bay (its name) (alias)", "alias of", "Lou (state)"),
        *(("Bob (b)", "n", f"{number}") for number in range(9)),
        ("Pel (p)", "n", "1"),
        ("Bob (alias)", "alias of", "Bo"),
        ("Bob (alias)", "alias of", "Lou (song)"),
        ("Bo", "p", "Ann (y)"),
        ("Bo (b)", "p", "Ann (y)"),
        ("Bo (b)", "q", "Ann (y)"),
        *(("Ann (x)", "n", f"{number}") for number in range(9)),
        ("Ann (x)", "p of", "Lou (state)"),
        ("Ann (y)", "p of", "Bo"),
        ("Ann (y)", "q of", "Bo (b)"),
        ("Ann (z)", "q of", "Lou (song)"),
        ("7 (number)", "m of", "Bo"),
        ("Bo", "m", "7"),
        ("Bo", "m", "Cy (c)"),
        ("Cy (c)", "m of", "Bo"),
        ("lou (lower case)", "q", "Ann (x)"),
        ("body_part", "p", "Ann (x)"),
    ]
)


def resolved(text: str) -> tuple[str, tuple[LinkedName, ...]]:
    query, replaced = resolve(read_line(text), TreeFacts(RowsIndex([(1, GRAPH)])))
    return write_line(query), replaced


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("list <Lou> <p>", "list <Lou (state)> <p>"),  # of those that have p, the one with most facts
        ("list <Lou> <q>", "list <Lou (song)> <q>"),
        ("list <Lou> <x>", "list <Lou (song)> <x>"),  # nobody has x
        ("list <Pel> <p>", "list <Lou (state)> <p>"),  # an alias of two, with more facts than <Pel (p)>
        ("list <pel> <p>", "list <Lou (state)> <p>"),  # the first letter differs
        ("list <Bay> <p>", "list <Lou (state)> <p>"),  # no name, but a part of an alias
        ("list <lou> <p>", "list <lou (lower case)> <p>"),  # there is one with the letter as it is
        ("list <Bo> <p>", "list <Bo> <p>"),  # a name with such facts
        ("list <Bo> <q>", "list <Bo (b)> <q>"),  # it has none, and another entity of the name has
        ("list <Bo> <x>", "list <Bo> <x>"),  # nobody has
        ("list <Bob> <n>", "list <Bob (b)> <n>"),  # an alias of others with fewer facts
        ("list <Bob> <q>", "list <Lou (song)> <q>"),  # of these the one that has q, if nothing else has
        ("list <Nobody> <p>", "list <Nobody> <p>"),
        ("list <LOU> <p>", "list <Lou (state)> <p>"),  # in any case
        ("list <body part> <p>", "list <body_part> <p>"),  # as lists of edges have names
        ("list <Body Part> <p>", "list <body_part> <p>"),
        ("list <lOU> <p>", "list <Lou (state)> <p>"),
        ("ask <Lou> <p> <Ann>", "ask <Lou (state)> <p> <Ann (x)>"),
        ("list <Ann> <p of> which <q> <Ann>", "list <Ann (x)> <p of> which <q> <Ann (y)>"),
        ("list <Ann> <p of> which is <Lou>", "list <Ann (x)> <p of> which is <Lou (state)>"),
        ("ask <Bo> <m> <7>", "ask <Bo> <m> <7>"),  # a literal of a predicate with both
        ("ask <Bo> <m> <Cy>", "ask <Bo> <m> <Cy (c)>"),
        ("ask <Lou> <n> equals <7>", "ask <Lou (song)> <n> equals <7>"),
        ("list <Bo> <p> which starts with <Ann>", "list <Bo> <p> which starts with <Ann>"),
        ("most <Lou> <p> by count <n>", "most <Lou (state)> <p> by count <n>"),
    ],
)
def test_the_names_of_a_query(written: str, meant: str) -> None:
    assert resolved(written)[0] == meant


def test_what_was_replaced_is_reported() -> None:
    _, replaced = resolved("ask <Lou> <p> <Ann>")
    assert replaced == (
        LinkedName("Lou", "Lou (state)", 2, ("Lou (song)",)),
        LinkedName("Ann", "Ann (x)", 3, ("Ann (y)", "Ann (z)")),
    )
    assert resolved("list <Bo> <p>")[1] == (LinkedName("Bo", "Bo", 2, ("Bo (b)",)),)
    assert resolved("list <body_part> <p>")[1] == ()


@pytest.mark.parametrize("text", ["count <a> <b>", " most 3 <a>", "list<a> <b>", "ask <a> <b> <c> ."])
def test_a_line_begins_with_a_head_and_a_name(text: str) -> None:
    assert is_line(text)


@pytest.mark.parametrize(
    "text", ["how many?", "list all of <a>", "count", "counts <a> <b>", "<a> <b>", "most of 3 <a>"]
)
def test_other_texts_are_questions(text: str) -> None:
    assert not is_line(text)
