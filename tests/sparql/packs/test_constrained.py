"""Models of our engines can write nothing but SPARQL with a pack's names."""

import random
import re
from copy import deepcopy
from dataclasses import replace
from itertools import count

import pytest
from support.tiny_model import tiny_model, tiny_tokenizer
from support.translate.kennel import CATS, DOGS, KENNEL

from refactx.decoding.matching import Matcher, new_matcher
from refactx.engines.transformers.rows import TransformersModel
from refactx.sparql.engines import SparqlSyntaxError
from refactx.sparql.engines.checking import check_query
from refactx.sparql.packs.constrained import constrained_model, grammar_of, names_of
from refactx.sparql.packs.pack import load_pack
from refactx.sparql.packs.prompt import with_prefixes, without_prefixes

BYTES = [bytes([number]) for number in range(256)]
"""A vocabulary of single bytes."""


@pytest.fixture(scope="module")
def kennel() -> Matcher:
    return new_matcher(BYTES, grammar_of(KENNEL))


def reads(matcher: Matcher, text: str) -> bool:
    state: Matcher | None = matcher
    for byte in f" {text}\n".encode():
        state = None if state is None else state.after(byte)
    return state is not None


@pytest.mark.parametrize(
    "query",
    [
        DOGS,
        CATS,
        "ASK { ex:rex ex:age 3 }",
        "SELECT * WHERE { ?x ex:age ?n FILTER(?n > 2) } LIMIT 5",
        "PREFIX ex: <http://e.org/> ASK { ex:rex a ex:Dog }",
    ],
)
def test_queries_with_the_pack_s_names_can_be_written(kennel: Matcher, query: str) -> None:
    assert reads(kennel, query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT ?x { ?x a ex:Wolf }",
        "SELECT ?x { ?x foaf:name ?y }",
        "SELECT ?x { ?x a <http://e.org/Dog2> }",
        "SELECT ?x { SERVICE <http://evil.invalid/> { ?x a ex:Dog } }",
        "DELETE WHERE { ?x a ex:Dog }",
        "Here is the query",
        "PREFIX ex: <http://other.org/> ASK { ex:rex a ex:Dog }",
        "A\u017fK { ex:rex a ex:Dog }",
    ],
)
def test_nothing_else_can_be_written(kennel: Matcher, query: str) -> None:
    assert not reads(kennel, query)


@pytest.mark.long
def test_all_queries_of_the_examples_can_be_written() -> None:
    pack = load_pack("liita")
    matcher = new_matcher(BYTES, grammar_of(pack))
    own = [without_prefixes(one.sparql, pack.prefixes) for one in pack.examples]
    known = [query for query in own if not query.startswith("PREFIX")]  # the others give a prefix another name
    assert len(known) >= len(own) - 4
    assert [query for query in known if not reads(matcher, query)] == []


PARTS = """
SELECT select ASK DISTINCT WHERE { } ( ) . ; , [ ] ?x ?y ?n * + - / | ^ ! = < >= && || AS ORDER BY DESC LIMIT 5 OPTIONAL
UNION MINUS FILTER NOT EXISTS BIND VALUES UNDEF IN STR REGEX CONTAINS "a" "b"@en 2.5 true a ex:age ex:owner ex:Dog ex:rex
rdfs:label
"""
ENDS = (b"\n", b" } ", b" ) ", b" ] ")


def random_line(matcher: Matcher, words: list[bytes], draw: random.Random) -> str:
    """A text that the matcher allows, of at most 200 parts; not whole if it does not end in a line end."""
    written = list[bytes]()
    while written[-1:] != [b"\n"] and len(written) < 200:
        tokens = matcher.allowed.tokens.tolist()
        ends = [token for token in tokens if words[token] in ENDS]
        token = draw.choice(ends) if ends and draw.random() < min(0.9, 0.3 + len(written) / 30) else draw.choice(tokens)
        after = matcher.after(token)
        assert after is not None
        matcher = after
        written.append(words[token])
    return b"".join(written).decode()


def test_random_walks_through_the_grammar_are_sparql() -> None:
    """But for what no context-free grammar says: here, new variables are made distinct, and none is selected twice."""
    words = [*(f" {part} ".encode() for part in dict.fromkeys(PARTS.split())), b"\n"]
    matcher = new_matcher(words, grammar_of(KENNEL))
    lines = [random_line(matcher, words, random.Random(seed)) for seed in range(50)]
    whole = [line for line in lines if line.endswith("\n")]
    assert len(whole) > 25
    for line in whole:
        distinct = _with_new_variables(line)
        if re.search(r"(?i)(select|values)\b[^{]*(\?\w)\b[^{]*\2\b", distinct):
            continue  # a variable is there twice
        try:
            check_query(with_prefixes(distinct.strip(), KENNEL.prefixes))
        except SparqlSyntaxError as error:
            assert "Duplicated variable name in SELECT" in str(error), line


def _with_new_variables(line: str) -> str:
    numbers = count()
    return re.sub(r"AS  \?\w", lambda _: f"AS ?new{next(numbers)}", line)


def test_a_model_writes_a_query_and_nothing_else() -> None:
    model = TransformersModel(tiny_model(), deepcopy(tiny_tokenizer()))
    model.tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
    written = constrained_model(model, KENNEL).generate(
        [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}], 30
    )
    words = ("SELECT", "ASK", "PREFIX")
    assert any(written.upper().startswith(word) or word.startswith(written.upper()) for word in words)


def test_names_of_data_can_be_written_though_no_example_has_them() -> None:
    matcher = new_matcher(BYTES, grammar_of(load_pack("wikidata")))
    assert reads(matcher, "SELECT ?x { wd:Q99999999 wdt:P9999 ?x }")
    assert not reads(matcher, "SELECT ?x { wd:Q99999999 foo:P9999 ?x }")


def test_names_come_from_the_schema_and_the_examples() -> None:
    properties, terms = names_of(replace(KENNEL, schema={}))
    assert "ex:age" in properties
    assert {"ex:Dog", "ex:Cat", "ex:rex"} <= set(terms)
    assert "ex:owner" in names_of(KENNEL)[0]
