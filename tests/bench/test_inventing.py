"""Invented data: gold queries have the rows that were made for them, and wrong ones have none of these."""

import gzip
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.packs.invented_values import parts_of_literal, samples, text_of_literal
from bench.packs.inventing import Invented, gold_queries, homes_of, invent, written
from refactx.errors import InputError
from refactx.sparql.engines import EngineError, QueryRefusedError, Rows, SparqlSyntaxError
from refactx.sparql.packs.invented import INVENTED_DATA, InventedEngine, engine_for, invented_engine, rewritten
from refactx.sparql.packs.pack import Pack, built_in_packs, load_pack
from refactx.sparql.syntax.view import literal

LIITA = load_pack("liita")
GOLD = gold_queries(LIITA)
KEYS = sorted(GOLD)[::12]
WORDS = "PREFIX ex: <http://e.org/> "


@pytest.fixture(scope="module")
def some() -> Invented:
    """The data of some of LiITA's gold queries."""
    return invent({key: GOLD[key] for key in KEYS}, graphs=LIITA.graphs.values(), homes=homes_of(LIITA))


def rows(invented: Invented, query: str) -> set[tuple[str, ...]]:
    result = invented.engine().run(query)
    assert isinstance(result, Rows)
    return {tuple(str(term) for term in row) for row in result.rows}


def invented_of(**queries: str) -> Invented:
    found = invent({key: f"{WORDS}{query}" for key, query in queries.items()})
    assert not found.failures
    return found


def planned(invented: Invented, key: str) -> set[tuple[str, ...]]:
    return {tuple(map(str, row)) for row in invented.planned[key].rows}


def test_gold_queries_have_their_rows(some: Invented) -> None:
    assert some.failures == {}
    engine = some.engine()
    assert [key for key in KEYS if not some.planned[key].is_in(engine.run(GOLD[key]))] == []


def test_the_same_queries_give_the_same_data() -> None:
    queries = {key: GOLD[key] for key in KEYS[:6]}
    one, other = invent(queries), invent(queries)
    assert written(one) == written(other)


QUERIES: Mapping[str, str] = {
    "filter": 'SELECT ?x { ?x ex:name ?n FILTER(REGEX(STR(?n), "^z.*a$") && STRLEN(STR(?n)) > 7) }',
    "number": "SELECT ?x { ?x ex:size ?n FILTER(?n > 1000000) }",
    "year": "SELECT ?x { ?x ex:born ?d FILTER(YEAR(?d) < 1900) }",
    "language": 'SELECT ?n { ?x ex:name ?n FILTER(LANG(?n) IN ("de")) }',
    "equal": "SELECT ?x ?y { ?x ex:name ?n . ?y ex:title ?t FILTER(STR(?n) = STR(?t)) }",
    "unequal": "SELECT ?x { ?x ex:name ?n , ?m FILTER(?n != ?m) }",
    "in": "SELECT ?x { ?x ex:kind ?k FILTER(?k IN (ex:a, ex:b)) }",
    "values": "SELECT ?x ?k { VALUES ?k { ex:a ex:b } ?x ex:kind ?k }",
    "having": "SELECT ?x (COUNT(DISTINCT ?n) AS ?c) { ?x ex:name ?n } GROUP BY ?x HAVING(COUNT(DISTINCT ?n) > 3)",
    "average": "SELECT ?k (AVG(?n) AS ?a) { ?x ex:kind ?k ; ex:size ?n } GROUP BY ?k HAVING(AVG(?n) < 0)",
    "counted": "SELECT (COUNT(*) AS ?c) { ?x ex:kind ex:a }",
    "inner": "SELECT ?x { ?x ex:kind ?k { SELECT ?k { ?y ex:kind ?k } GROUP BY ?k HAVING(COUNT(?y) > 2) } }",
    "path": "SELECT ?x ?y { ?x ex:up+ ?y . ?y ^ex:of/ex:name ?n }",
    "ways": "SELECT ?x ?y { ?x (ex:up|ex:down) ?y }",
    "union": "SELECT ?x { { ?x ex:up ?y } UNION { ?x ex:down ?y } }",
    "missing": "SELECT ?x { ?x ex:name ?n FILTER NOT EXISTS { ?x ex:up ?y } MINUS { ?x ex:down ?z } }",
    "optional": "SELECT ?x ?y { ?x ex:name ?n OPTIONAL { ?x ex:up ?y } }",
    "graph": 'SELECT ?g ?x { GRAPH ?g { ?x ex:name ?n } FILTER(REGEX(STR(?g), "one")) }',
    "bound": 'SELECT ?x ?c { ?x ex:part ?p BIND(REPLACE(STR(?p), "^.*/", "") AS ?c) FILTER(REGEX(STR(?p), "wing")) }',
    "ask": "ASK { ?x ex:kind ex:a ; ex:name ?n }",
}


def test_each_kind_of_condition_is_kept() -> None:
    queries = {key: f"{WORDS}{query}" for key, query in QUERIES.items()}
    invented = invent(queries, graphs=["http://g.org/one", "http://g.org/two"])
    assert invented.failures == {}
    engine = invented.engine()
    assert [key for key in queries if not invented.planned[key].is_in(engine.run(queries[key]))] == []


def test_a_query_that_nothing_can_match_is_told() -> None:
    invented = invent({"never": 'SELECT ?x { ?x <a:b> ?n FILTER(STR(?n) = "a" && STR(?n) = "b") }'})
    assert list(invented.failures) == ["never"]
    assert invented.planned == {}
    with pytest.raises(SparqlSyntaxError):
        invent({"bad": "SELECT ?x {"})


GRAPHS = "SELECT ?x ?y {{ GRAPH <http://g.org/{}> {{ ?x ex:knows ?y }} }}"


def test_another_graph_has_other_rows() -> None:
    invented = invented_of(one=GRAPHS.format("one"), two="SELECT ?x { GRAPH <http://g.org/two> { ?x ex:likes ?y } }")
    wrong = rows(invented, WORDS + GRAPHS.format("two"))
    assert wrong  # a near miss
    assert not wrong & planned(invented, "one")
    everywhere = rows(invented, WORDS + "SELECT ?x ?y { ?x ex:knows ?y }")
    assert planned(invented, "one") <= everywhere  # the default graph has all graphs,
    assert not everywhere & wrong  # but no near miss of a graph


def test_a_relation_the_other_way_round_has_other_rows() -> None:
    query = "SELECT ?a ?b {{ ?x ex:sense ?s ; ex:name ?a . {} ex:above {} . ?y ex:sense ?t ; ex:name ?b }}"
    invented = invented_of(one=query.format("?s", "?t"))
    turned = rows(invented, WORDS + query.format("?t", "?s"))
    assert turned  # a near miss, as both ends are senses
    assert not turned & planned(invented, "one")


def test_a_property_between_two_kinds_has_no_rows_the_other_way_round() -> None:
    invented = invented_of(one="SELECT ?x { ?x ex:form ?f . ?f ex:name ?n }")
    assert rows(invented, WORDS + "SELECT ?x { ?f ex:form ?x . ?f ex:name ?n }") == set()


def test_another_constant_has_other_rows() -> None:
    invented = invented_of(one="SELECT ?x { ?x ex:dialect ex:north }", two="SELECT ?x { ?x ex:dialect ex:south }")
    north, south = (rows(invented, f"{WORDS}SELECT ?x {{ ?x ex:dialect ex:{name} }}") for name in ("north", "south"))
    assert not north & south
    assert len(north) > len(planned(invented, "one"))  # the near misses of the other query


def test_data_without_what_is_optional_is_there_too() -> None:
    invented = invented_of(one=QUERIES["optional"])
    assert {len(row[1]) > 4 for row in rows(invented, WORDS + QUERIES["optional"])} == {True, False}


def test_a_graph_has_what_is_at_home_there() -> None:
    invented = invent(
        {"one": f"{WORDS}SELECT ?x {{ ?x a ex:Lemma ; ex:name ?n }}"}, homes={"http://e.org/Lemma": "http://g.org/one"}
    )
    inside = "SELECT ?x { GRAPH <http://g.org/one> { ?x a ex:Lemma ; ex:name ?n } }"
    assert planned(invented, "one") <= rows(invented, WORDS + inside)


FAR = "SELECT ?x ?n { SERVICE <http://s.org/> { ?x ex:name ?n } ?x ex:kind ?k }"


def test_a_service_is_apart() -> None:
    invented = invented_of(far=FAR)
    assert planned(invented, "far") <= rows(invented, WORDS + FAR)
    assert rows(invented, WORDS + "SELECT ?x ?n { ?x ex:name ?n ; ex:kind ?k }") == set()
    assert rows(invented, WORDS + "SELECT ?g { GRAPH ?g { ?x ex:name ?n } }") == set()
    assert rows(invented, WORDS + "SELECT ?x { SERVICE <http://s.org/> { GRAPH ?g { ?x ex:name ?n } } }") == set()
    named = FAR.replace("<http://s.org/>", "s:").replace("SELECT", "PREFIX s: <http://s.org/> SELECT")
    assert rows(invented, WORDS + named) == rows(invented, WORDS + FAR)


def test_a_service_that_is_not_there_fails_as_at_an_endpoint() -> None:
    engine = invented_of(far=FAR).engine()
    with pytest.raises(
        EngineError, match=r"SERVICE <http://t\.org/> cannot be reached: the invented data has <http://s\.org/>"
    ):
        engine.run("ASK { SERVICE <http://t.org/> { ?x ?y ?z } }")
    assert engine.run("ASK { SERVICE SILENT <http://t.org/> { ?x ?y ?z } }") is False
    with pytest.raises(QueryRefusedError):
        engine.run("ASK { SERVICE ?s { ?x ?y ?z } }")
    with pytest.raises(SparqlSyntaxError):
        engine.run("SELECT ?x { SERVICE <http://s.org/> { ?x ?y ?z }")


def test_a_limit_does_not_choose_rows() -> None:
    invented = invented_of(one="SELECT ?x { ?x ex:kind ?k }")
    engine = invented.engine()
    whole = engine.run(WORDS + "SELECT ?x { ?x ex:kind ?k }")
    short = engine.run(WORDS + "SELECT ?x { ?x ex:kind ?k } LIMIT 1 OFFSET 1")
    assert isinstance(whole, Rows)
    assert isinstance(short, Rows)
    assert sorted(map(str, short.rows)) == sorted(map(str, whole.rows))


def test_text_that_looks_like_a_service_stays() -> None:
    query = 'SELECT ?x { ?x ?y "SERVICE <http://s.org/> {" } # GRAPH ?g {'
    assert rewritten(query, ()) == query


@settings(max_examples=60)
@given(st.text(alphabet='SERVICE GRAPH?g<http:a>{}"# .', max_size=60))
def test_any_text_is_answered_or_refused(text: str) -> None:
    engine = InventedEngine(invent({}).store, {"http:a"})
    for query in (text, f"ASK {{ {text} }}"):
        try:
            engine.run(query)
        except (EngineError, QueryRefusedError, SparqlSyntaxError):
            continue


REGEXES = st.recursive(
    st.sampled_from(["a", "zì", "[bc]", "[^a]", r"\s", r"\d", ".", "x?", "y+", "z{2}"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join), st.tuples(inner, inner).map("|".join).map("({})".format)
    ),
    max_leaves=6,
)


@given(REGEXES)
def test_samples_match_their_expression(pattern: str) -> None:
    found = list(samples(f"^{pattern}$"))
    assert found
    assert all(re.search(f"^{pattern}$", text) for text in found)


def test_a_pack_with_its_data_is_answered_as_where_it_was_made(tmp_path: Path) -> None:
    made = invented_of(far=FAR, one=QUERIES["language"])
    (tmp_path / INVENTED_DATA).write_bytes(written(made))
    read = invented_engine(Pack(name="mine", title="mine", version=1, languages=("en",), base="", folder=tmp_path))
    for query in (FAR, QUERIES["language"], "SELECT ?g { GRAPH ?g { ?x ?y ?z } }"):
        one, other = (engine.run(WORDS + query) for engine in (read, made.engine()))
        assert isinstance(one, Rows) and isinstance(other, Rows)
        assert sorted(map(str, one.rows)) == sorted(map(str, other.rows))
    with pytest.raises(EngineError, match=r"the invented data has <http://s\.org/>"):
        read.run("ASK { SERVICE <http://t.org/> { ?x ?y ?z } }")


def test_names_of_earlier_releases_are_still_taken(tmp_path: Path) -> None:
    (tmp_path / "frozen.nq.gz").write_bytes(written(invented_of(one=QUERIES["language"])))
    pack = Pack(name="mine", title="mine", version=1, languages=("en",), base="", folder=tmp_path)
    engine = engine_for(pack, "frozen", lambda _: pytest.fail("no index is needed"))
    assert isinstance(engine, InventedEngine)
    found = engine.run(WORDS + QUERIES["language"])
    assert isinstance(found, Rows) and found.rows


@pytest.mark.parametrize("content", [None, b"no gzip", gzip.compress(b"<a> <b>", mtime=0)])
def test_data_that_is_missing_or_damaged_is_an_error(content: bytes | None, tmp_path: Path) -> None:
    pack = Pack(name="mine", title="mine", version=1, languages=("en",), base="", folder=tmp_path)
    if content is not None:
        (tmp_path / INVENTED_DATA).write_bytes(content)
    message = "mine has no invented data.*--run-on" if content is None else "invented.nq.gz cannot be read"
    with pytest.raises(InputError, match=message):
        invented_engine(pack)


@pytest.mark.long
@pytest.mark.parametrize("name", built_in_packs())
def test_each_gold_query_of_a_pack_has_rows_in_its_data(name: str) -> None:
    pack = load_pack(name)
    engine, queries = invented_engine(pack), gold_queries(pack)
    assert queries
    results = {key: engine.run(query) for key, query in queries.items()}
    assert [key for key, one in results.items() if not (one.rows if isinstance(one, Rows) else one)] == []


@pytest.mark.long
@given(st.text(), st.sampled_from([("", ""), ("it", ""), ("", "http://www.w3.org/2001/XMLSchema#string")]))
def test_literals_are_written_and_read(text: str, kind: tuple[str, str]) -> None:
    assert parts_of_literal(literal(text, *kind)) == (text, *kind)
    assert (text_of_literal('"a"@it'), text_of_literal("?a")) == ("a", None)
