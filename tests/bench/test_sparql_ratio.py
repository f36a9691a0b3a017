"""The bench of engines: both run each query, on the same store."""

from pyoxigraph import Literal, NamedNode, Quad, Store

from bench.sparql.ratio import alone, measure, summary


def test_both_run_each_query() -> None:
    store = Store()
    store.extend(
        Quad(NamedNode("http://www.wikidata.org/entity/Q1"), NamedNode("http://p"), Literal(n)) for n in range(9)
    )
    queries = ["SELECT ?x { wd:Q1 ?p ?x }", "ASK { wd:Q2 ?p ?x }"]
    times = measure(queries, store, runs=2)
    assert [(one.query, one.rows) for one in times] == [(queries[0], 9), (queries[1], 1)]
    assert all(one.engine > 0 and one.alone > 0 for one in times)
    found = summary(times)
    assert found["rows"] == 10
    assert found["ratio of all"] == sum(one.engine for one in times) / sum(one.alone for one in times)
    assert alone("SELECT * { ?s ?p ?o }", store) == 9
