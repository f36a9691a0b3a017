"""The wrong queries of `bench.packs.mutations` are wrong in one place, and in the way that their kind says."""

import pytest

from bench.packs.inventing import invent
from bench.packs.mutations import KINDS, outcome, spread
from refactx.sparql.engines.checking import view_query
from refactx.sparql.packs.pack import load_pack
from refactx.sparql.packs.validation import validate

LIITA = load_pack("liita")
GOLD = """PREFIX ontolex: <http://www.w3.org/ns/lemon/ontolex#>
PREFIX lila: <http://lila-erc.eu/ontologies/lila/>
SELECT ?word (COUNT(?sense) AS ?n) {
  GRAPH <http://liita.it/data> { ?lemma lila:hasPOS lila:noun ; ontolex:writtenRep ?word }
  ?entry ontolex:canonicalForm ?lemma
  SERVICE <https://klab.ilc.cnr.it/graphdb-compl-it/> { ?entry ontolex:sense ?sense }
} GROUP BY ?word"""


@pytest.mark.parametrize("kind", KINDS)
def test_each_wrong_query_differs_and_is_caught(kind: str) -> None:
    assert validate(GOLD, LIITA).ok
    mutants = dict(KINDS[kind](GOLD, LIITA))
    assert len(mutants) >= 3
    assert GOLD not in mutants.values()
    assert [did for did, mutant in mutants.items() if validate(mutant, LIITA).ok] == []


def test_a_direction_is_turned_once() -> None:
    gold = {pattern.text for pattern in view_query(GOLD).patterns}
    for did, mutant in KINDS["direction"](GOLD, LIITA):
        turned = {pattern.text for pattern in view_query(mutant).patterns}
        assert len(gold - turned) == len(turned - gold) == 1, did


def test_what_a_wrong_query_returns_is_told() -> None:
    query = "SELECT ?x { ?x <a:p> ?y }"
    invented = invent({"one": query, "two": "SELECT ?x { ?x <a:q> ?y }"})
    engine = invented.engine()
    gold = engine.run(query)
    others = ("SELECT ?z { ?z <a:p> ?y }", "SELECT ?x { ?x <a:q> ?y }", "SELECT ?x { ?x <a:r> ?y }", "SELECT ?x {")
    assert [outcome(other, gold, engine) for other in others] == ["same", "other", "none", "error"]


def test_queries_take_turns() -> None:
    found = [("a", "1", "x"), ("a", "2", "x"), ("b", "1", "x"), ("a", "3", "x"), ("b", "2", "x")]
    assert "".join(key for key, _, _ in spread(found)) == "ababa"
