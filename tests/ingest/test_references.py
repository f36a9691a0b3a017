"""References of Wikidata's statements: kept beside the facts through every change, in files, and of indexes read as one."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.ingest.quiet import QUIET
from support.ingest.statement_world import NAMES, Moment, Statement, json_lines, rdf_lines
from support.ingest.tiny import ingest_tiny
from support.ingest.whole_index import whole_index
from support.shared_index import opened
from support.tiny_model import tiny_fact_tokenizer

from refactx.documents import fact_document, to_json
from refactx.errors import InputError
from refactx.index.index import Index
from refactx.index.names import REFERENCES, is_id_key, language_of
from refactx.index.open import open_index
from refactx.index.verify import verify
from refactx.ingest import append, compact, forget, forget_things, rename, retokenise, update
from refactx.ingest.source_options import Selection
from refactx.share.export import export_index
from refactx.share.importing import import_index
from refactx.walks import TreeFacts, answer_query, read_line

ONE, OTHER, PAGE = "https://one.example/", "https://other.example/", "https://www.wikidata.org/wiki/Q3"
SINCE = (("P580", Moment(1990, 5, 3, 11, False)), ("P642", "Q3"))
MAYOR = Statement("Q1", "P10", "Q2", "normal", SINCE, 1, ((("P854", OTHER), ("P854", ONE)), (("P248", "Q3"),)))
BARE = Statement("Q2", "P10", "Q3", "normal", (), 2)
PLAIN = "<Springfield> <mayor> <Ann Lee> ."
LONG = "<Springfield> <mayor> <Ann Lee> <start time> <1990-05-03> <of> <Bob> ."
ALL = {PLAIN: (ONE, OTHER, PAGE), LONG: (ONE, OTHER, PAGE)}
WITH = Selection(references=True)


def put(folder: Path, *statements: Statement) -> Path:
    source = folder / "entities.json"
    source.write_text("\n".join(json_lines(statements)))
    return source


def references(index: Index) -> dict[str, tuple[str, ...]]:
    """The references of the facts that have some, one by one and together; check that the index is sound."""
    facts = list(index.all_facts())
    found = {fact.text: one.references for fact, one in zip(facts, index.links_of(facts), strict=True)}
    assert verify(index).faults == []
    assert {fact.text: index.links(fact).references for fact in facts} == found
    assert REFERENCES not in index.languages
    assert index.labels_of(NAMES.values(), REFERENCES) == {}
    return {text: urls for text, urls in found.items() if urls}


def test_without_the_option_an_index_is_the_same_to_the_byte(db_url: str, tmp_path: Path) -> None:
    ingest_tiny(db_url, put(tmp_path, replace(MAYOR, references=()), BARE), "none")
    source = put(tmp_path, MAYOR, BARE)
    ingest_tiny(db_url, source, "without")
    ingest_tiny(db_url, source, "with", selection=WITH)
    with (
        open_index("none", db_url) as none,
        open_index("without", db_url) as without,
        open_index("with", db_url) as kept,
    ):
        assert whole_index(db_url, "without")["rows"] == whole_index(db_url, "with")["rows"]
        rows = [one.name_rows(b"") for one in (none, without)]
        assert rows[0] == rows[1] == [row for row in kept.name_rows(b"") if not of_references(row[0])]
        assert "references" not in without.entry.report["selection"]
        assert references(none) == references(without) == {}
        assert references(kept) == ALL
        assert without.entry.report["dropped"]["reference"] == 2
        assert "references are kept of 2 facts" in kept.entry.report["notes"]


def of_references(key: bytes) -> bool:
    return is_id_key(key) and language_of(key) == REFERENCES


def test_references_stay_in_files_and_copies(db_url: str, tmp_path: Path) -> None:
    """Exported, imported, for another tokenizer, and in answers of queries and their JSON."""
    ingest_tiny(db_url, put(tmp_path, MAYOR, BARE), "kb", selection=WITH)
    file = tmp_path / "kb.refactx"
    with opened(db_url) as database:
        export_index(database, "kb", file)
        import_index(database, file, "again")
        options = {"index": "other", "tokenizer": tiny_fact_tokenizer(), "tokenizer_name": "tiny"}
        retokenise("kb", database, work=tmp_path / "work", resources=QUIET, **options)
    for name, place in ((str(file), None), ("again", db_url), ("other", db_url)):
        with open_index(name, place) as index:
            assert references(index) == ALL
    with open_index(str(file)) as index:
        (fact,) = answer_query(read_line("list <Springfield> <mayor>"), TreeFacts(index)).facts
        assert fact.references == ALL[PLAIN]
        assert to_json(fact_document(fact, PLAIN))["references"] == [*ALL[PLAIN]]
        (fact,) = answer_query(read_line("list <Ann Lee> <mayor>"), TreeFacts(index)).facts
        assert "references" not in to_json(fact_document(fact, ""))


def test_references_follow_changes(db_url: str, tmp_path: Path) -> None:
    """Appended, also to an index without any; updated, also for facts that stay; of things with another name; forgotten."""
    machine = {"index": "grown", "work": tmp_path / "work", "resources": QUIET}
    ingest_tiny(db_url, put(tmp_path, replace(MAYOR, references=())), "grown")

    def now() -> dict[str, tuple[str, ...]]:
        with open_index("grown", db_url) as index:
            return references(index)

    with opened(db_url) as database:
        assert now() == {}
        append([put(tmp_path, MAYOR)], database, selection=WITH, **machine)
        assert now() == ALL
        append([put(tmp_path, BARE, replace(MAYOR, references=((("P143", "Q4"),),)))], database, **machine)
        wiki = dict.fromkeys(ALL, ("https://www.wikidata.org/wiki/Q4",))
        assert now() == wiki
        compact(database, **{name: machine[name] for name in ("index", "work", "resources")})
        assert now() == wiki
        rename("Springfield", "Graz", database, **machine)
        of_graz = {fact.replace("Springfield", "Graz"): urls for fact, urls in wiki.items()}
        assert now() == of_graz
        rename("Graz", "Springfield", database, **machine)
        update([put(tmp_path, BARE, replace(MAYOR, references=MAYOR.references[1:]))], database, **machine)
        assert now() == dict.fromkeys(ALL, (PAGE,))
        update([put(tmp_path, BARE, replace(MAYOR, references=()))], database, **machine)
        assert now() == {}
        update([put(tmp_path, BARE, MAYOR)], database, **machine)
        assert now() == ALL
        forget_things(["Bob"], database, **machine)
        assert now() == {PLAIN: ALL[PLAIN]}


def test_a_fact_that_was_forgotten_comes_back_without_its_references(db_url: str, tmp_path: Path) -> None:
    machine = {"index": "kept", "work": tmp_path / "work", "resources": QUIET}
    ingest_tiny(db_url, put(tmp_path, MAYOR, BARE), "kept", selection=WITH)
    plain = tmp_path / "plain.txt"
    plain.write_text(f"{PLAIN}\n")

    def now() -> dict[str, tuple[str, ...]]:
        with open_index("kept", db_url) as index:
            return references(index)

    with opened(db_url) as database:
        forget([plain], database, **machine)
        rest = {LONG: ALL[LONG]}
        assert now() == rest
        append([plain], database, **machine)
        assert now() == rest
        compact(database, **{name: machine[name] for name in ("index", "work", "resources")})
        assert now() == rest
        append([put(tmp_path, MAYOR)], database, **machine)
        assert now() == ALL


def test_of_two_indexes_as_one_both_are_asked(db_url: str, tmp_path: Path) -> None:
    """By the names that each has for a fact."""
    source = tmp_path / "all.nt"
    source.write_text("\n".join(rdf_lines([MAYOR, BARE])))
    ingest_tiny(db_url, source, "one", selection=WITH)
    theirs = replace(MAYOR, references=((("P854", "https://third.example/"),),))
    source.write_text("\n".join(rdf_lines([theirs])).replace("Springfield", "Capital City"))
    ingest_tiny(db_url, source, "two", selection=WITH)
    with open_index("one,two", db_url) as index:
        both = (ONE, OTHER, PAGE, "https://third.example/")
        assert references(index) == {PLAIN: both, LONG: both}


def test_references_are_of_statements_given_in_full() -> None:
    with pytest.raises(InputError, match="--references and --qualifiers none were both given"):
        Selection(references=True, qualifiers=())
