"""An index of a graph that is not Wikidata's, through its life: ids, links, queries, changes, files and stores."""

import os
from pathlib import Path

import pytest
from support.command import run_refactx
from support.ingest.living_index import LivingIndex

from refactx.index.open import open_index
from refactx.index.verify import verify
from refactx.ingest.source_options import Selection
from refactx.share.export import export_index
from refactx.sparql.store import build_store, open_store
from refactx.sparql.walks import from_sparql
from refactx.walks.answered import answer_query
from refactx.walks.facts import TreeFacts
from refactx.walks.language import read_line

EX = "http://e.org/"
GRAPH = """PREFIX : <http://e.org/> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
:a rdfs:label "A" ; :likes :b ; :home [ :city :c ] . :b rdfs:label "B" ; :likes :a . :d :likes :b ; :age 5 .
GRAPH :g { :b :likes :c }
"""
MORE = """PREFIX : <http://e.org/> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
:new rdfs:label "New" ; :likes :a . :d rdfs:label "another name of d" ; :likes :a . :likes :kind :b .
"""


@pytest.fixture
def living(db_url: str, tmp_path: Path) -> LivingIndex:
    (tmp_path / "graph.trig").write_text(GRAPH)
    (tmp_path / "more.ttl").write_text(MORE)
    made = LivingIndex(db_url, tmp_path)
    made.ingest_from(tmp_path / "graph.trig", selection=Selection(inverse=True, link="https://kb.e.org/{local}"))
    return made


def facts_of(living: LivingIndex) -> set[tuple[str, str, str]]:
    with living.open() as index:
        return {(fact.subject, fact.predicate, fact.object) for fact in index.all_facts()}


BEFORE = {
    ("A", "likes", "B"), ("B", "likes", "A"), ("d", "likes", "B"), ("B", "likes", "c"),
    ("A", "home: city", "c"), ("d", "age", "5"),
    ("B", "likes (inverse)", "A"), ("A", "likes (inverse)", "B"), ("B", "likes (inverse)", "d"), ("c", "likes (inverse)", "B"),
    ("c", "home: city of", "A"),
}  # fmt: skip
ADDED = {
    ("New", "likes", "A"), ("d", "likes", "A"), ("likes", "kind", "B"),
    ("A", "likes (inverse)", "New"), ("A", "likes (inverse)", "d"), ("B", "kind of", "likes"),
}  # fmt: skip


def test_an_index_has_the_ids_of_its_graph_and_pages_by_a_pattern(living: LivingIndex) -> None:
    with living.open() as index:
        assert {(fact.subject, fact.predicate, fact.object) for fact in index.all_facts()} == BEFORE
        named = index.ids_of(["A", "likes", "likes (inverse)", "home: city", "5"])
        assert {name: one.id for name, one in named.items()} == {
            "A": f"{EX}a",
            "likes": f"{EX}likes",
            "likes (inverse)": f"{EX}likes",
            "home: city": f"<{EX}home>/<{EX}city>",
        }
        assert [named[name].is_property for name in ("A", "likes")] == [False, True]
        assert index.names_of([f"{EX}a", f"{EX}likes", "Q42"]) == {f"{EX}a": "A", f"{EX}likes": "likes"}
        assert index.names_of([f"{EX}likes"], inverse=True) == {f"{EX}likes": "likes (inverse)"}
        linked = {index.links(fact).subject for fact in index.all_facts() if fact.subject == "A"}
        assert {(link.label, link.id, link.url) for link in linked} == {("A", f"{EX}a", "https://kb.e.org/a")}
        assert verify(index).sound


@pytest.mark.long
def test_changes_follow_the_names_and_the_profile_of_the_index(living: LivingIndex, tmp_path: Path) -> None:
    options = {"selection": Selection(inverse=True)}
    assert living.append_from(tmp_path / "more.ttl", **options).facts == len(ADDED)
    assert facts_of(living) == BEFORE | ADDED
    assert living.append_from(tmp_path / "more.ttl", **options).facts == 0
    with living.open() as index:
        assert index.ids_of(["New", "d"])["d"].id == f"{EX}d"
        assert index.names_of([f"{EX}new"]) == {f"{EX}new": "New"}
    living.compact()
    assert facts_of(living) == BEFORE | ADDED
    with living.open() as index:
        assert index.names_of([f"{EX}new", f"{EX}likes"]) == {f"{EX}new": "New", f"{EX}likes": "likes"}
        assert verify(index).sound
    living.forget_from(tmp_path / "more.ttl", **options)
    assert facts_of(living) == BEFORE


def test_a_walk_and_its_sparql_have_the_same_rows(living: LivingIndex) -> None:
    with living.open() as index:
        build_store(index)
        facts = TreeFacts(index)
        with open_store(index) as store:
            for walk in ("<A> <likes>", "<A> <likes> <likes (inverse)>", "<A> <home: city>", "<c> <home: city of>"):
                answered = answer_query(read_line(f"list {walk} ."), facts)
                assert answered.sparql is not None
                rows = {row[0].value for row in store.query(answered.sparql)}
                assert rows == {row.id for row in answered.rows if not isinstance(row, str)}
                read_back = from_sparql(answered.sparql, facts)
                assert read_back is not None
                assert set(answer_query(read_back, facts).result.values) == set(answered.result.values)


@pytest.mark.long
def test_a_store_has_the_graph_as_it_was_published(living: LivingIndex, tmp_path: Path) -> None:
    def rows(query: str) -> list[str]:
        done = run_refactx(
            "sparql", f"PREFIX : <{EX}> {query}", "--index", "default", "--db", living.url, "--engine", "store"
        )
        assert done.returncode == 0, done.stderr
        return sorted(done.stdout.split()[1:])

    built = run_refactx("store", "build", "default", "--published", tmp_path / "graph.trig", "--db", living.url)
    assert built.returncode == 0, built.stderr
    assert rows("SELECT ?x { GRAPH :g { ?x :likes :c } }") == ["B", "https://kb.e.org/b"]
    assert rows("SELECT ?x { :a :home/:city ?x }") == ["c", "https://kb.e.org/c"]
    assert rows("SELECT ?x { :d :age ?x }") == ["5"]
    wrong = run_refactx("store", "build", "default", "--published", living.source(["a b c"]), "--db", living.url)
    assert (wrong.returncode, "expected RDF" in wrong.stderr) == (2, True)


def test_an_index_file_of_a_graph_is_read_after_a_fork(living: LivingIndex, tmp_path: Path) -> None:
    path = tmp_path / "graph.refactx"
    with living.open() as index:
        export_index(index.database, "default", path)
    with open_index(path) as index:
        assert index.names_of([f"{EX}a"]) == {f"{EX}a": "A"}
        with index._source._file._lock:  # as a thread that reads meanwhile has it
            child = os.fork()
            if not child:
                os._exit(0 if index.ids_of(["B"])["B"].id == f"{EX}b" else 1)
            assert os.waitpid(child, 0)[1] == 0
