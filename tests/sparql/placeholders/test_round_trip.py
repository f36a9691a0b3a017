"""Any query with placeholders has its ids replaced and nothing else, and becomes the same query again."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.query.pgmr import MadeNames, Pieces, ids_of, placeholders_of, queries, written

from refactx.sparql.placeholders.text import Style, from_pgmr, read_pgmr, to_pgmr
from refactx.sparql.syntax.parser import read_sparql
from refactx.sparql.syntax.tokens import tokens_of
from refactx.sparql.syntax.tree import shape_of
from refactx.walks.language import QueryError

NAMES = MadeNames()
BLOCKS = [Style(lower=lower, one_line=one, prefixes=kept) for lower, one, kept in product([False, True], repeat=3)]
PUT = ["", "entity1", "relation9", " = [ENT] ", "[/REL]", "starturi A enduri", "}", "'", "wd:Q5", "wdt:relation1"]
INLINE = [Style(dialect="inline", lower=lower, one_line=one) for lower, one in product([False, True], repeat=2)]


def tree_of(sparql: str) -> Any:
    """The tree of a query, in which blank nodes are not named by their places."""
    return shape_of(read_sparql(sparql).query)


def words(sparql: str) -> list[str]:
    """The tokens of a query without white space, in lower case, and with line ends in strings escaped."""
    tokens = [token.text for token in tokens_of(sparql) if not token.is_space]
    return [text.replace("\r", "\\r").replace("\n", "\\n").lower() for text in tokens]


@settings(max_examples=50)
@given(queries())
def test_ids_alone_are_replaced_and_come_back_to_the_character(pieces: Pieces) -> None:
    sparql, placeholders = written(pieces), placeholders_of(ids_of(pieces))
    query = read_pgmr(to_pgmr(sparql, NAMES))
    assert query.sparql == written(pieces, placeholders.__getitem__).strip()
    assert query.mentions == {name: NAMES.mention(id_) for id_, name in placeholders.items()}
    assert query.resolved(NAMES) == sparql.strip()


@settings(max_examples=50)
@given(queries(), st.sampled_from(BLOCKS))
def test_a_query_in_any_style_becomes_the_same_query_again(pieces: Pieces, style: Style) -> None:
    sparql = written(pieces)
    text = to_pgmr(sparql, NAMES, style)
    again = from_pgmr(text, NAMES)
    assert tree_of(again) == tree_of(sparql)
    if style.prefixes:
        assert words(again) == words(sparql)
    if style.one_line:
        assert "\n" not in text
        assert "\r" not in text


@settings(max_examples=30)
@given(queries(properties_as_entities=False), st.sampled_from(INLINE))
def test_a_query_in_the_inline_dialect_becomes_the_same_query_again(pieces: Pieces, style: Style) -> None:
    sparql = written(pieces)
    text = to_pgmr(sparql, NAMES, style)
    again = from_pgmr(text, NAMES)
    assert tree_of(again) == tree_of(sparql)
    assert words(again) == words(sparql)
    assert all(mention.description is None for mention in read_pgmr(text).mentions.values())


@settings(max_examples=70)
@given(queries(), st.sampled_from([*BLOCKS, *INLINE]), st.data())
def test_damaged_text_is_an_error_or_a_whole_query(pieces: Pieces, style: Style, data: st.DataObject) -> None:
    try:
        text = to_pgmr(written(pieces), NAMES, style)
    except QueryError as error:
        assert "stands for an entity" in str(error)
        return
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(len(text), start + 30)))
    put = data.draw(st.sampled_from(PUT))
    try:
        query = read_pgmr(text[:start] + put + text[stop:])
    except QueryError:
        return
    ids = {name: f"{'P' if name[0] == 'r' else 'Q'}77{at}" for at, name in enumerate(query.mentions)}
    again = read_pgmr(to_pgmr(query.with_ids(ids), NAMES))
    assert set(again.mentions.values()) == {NAMES.mention(id_) for id_ in ids.values()}


@pytest.mark.parametrize("style", [*BLOCKS, *INLINE])
def test_a_query_without_ids_is_its_own_text(style: Style) -> None:
    assert to_pgmr("ask { ?x rdfs:label 'wd:Q5' }", NAMES, style) == "ask { ?x rdfs:label 'wd:Q5' }"
