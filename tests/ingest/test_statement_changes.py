"""Facts with qualifiers stay what they are through every change of an index, in a file, and for another tokenizer."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.ingest.quiet import QUIET
from support.ingest.statement_world import NAMES, Moment, Statement, expected_facts, json_lines, rdf_lines
from support.ingest.tiny import ingest_tiny
from support.shared_index import opened
from support.tiny_model import tiny_fact_tokenizer

from refactx.fact import qualifiers_of, split_fact, verbalise
from refactx.index.index import Index
from refactx.index.open import open_index
from refactx.index.verify import verify
from refactx.ingest import append, compact, forget, forget_things, retokenise, update
from refactx.share.export import export_index

PARTS = st.sampled_from(["A", "Ann", "b", "c"])
PAIRS = st.lists(st.tuples(PARTS, PARTS), max_size=2).map(lambda pairs: tuple(chain(*pairs)))
FACTS = st.frozensets(st.tuples(PARTS, PARTS, PARTS, PAIRS).map(lambda fact: (*fact[:3], *fact[3])), min_size=1)
GENERATE = (Phase.explicit, Phase.generate)
numbers = count()


def lines(facts: Iterable[tuple[str, ...]]) -> str:
    return "".join(" ".join(f"<{part}>" for part in fact) + " .\n" for fact in facts)


def facts_of(index: Index) -> set[tuple[str, ...]]:
    """Return the facts of an index; check that it is sound, and that it has them, as facts and with their parts."""
    found = {(*(split_fact(one.text) or ()), *chain(*one.qualifiers)): one for one in index.all_facts()}
    assert not verify(index).faults
    assert len(found) == len(index)
    assert index.has_statements or all(len(fact) == 3 for fact in found)
    for fact, one in found.items():
        assert one.text in index
        assert one.qualifiers == qualifiers_of(one.text) == tuple(zip(fact[3::2], fact[4::2], strict=True))
        assert one.text == verbalise(one.subject, one.predicate, one.object, one.qualifiers).lstrip() + index.terminator
        linked = index.links(one)
        assert [name.label for name, _ in linked.qualifiers] == list(fact[3::2])
    return set(found)


@pytest.mark.long
@settings(max_examples=6, phases=GENERATE, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(FACTS, st.lists(st.tuples(st.booleans(), FACTS), min_size=1, max_size=3))
def test_an_index_has_what_was_added_and_not_forgotten(
    db_url: str,
    tmp_path: Path,
    first: frozenset[tuple[str, ...]],
    changes: list[tuple[bool, frozenset[tuple[str, ...]]]],
) -> None:
    """Appended, forgotten, compacted, exported and for the same tokenizer again, facts are those of a set."""
    name, source = f"statements {next(numbers)}", tmp_path / "facts.txt"
    source.write_text(lines(first))
    ingest_tiny(db_url, source, name)
    given_facts = set(first)
    with opened(db_url) as database:
        for adds, some in changes:
            source.write_text(lines(some))
            change = append if adds else forget
            change([source], database, index=name, work=tmp_path / "work", resources=QUIET)
            given_facts = given_facts | some if adds else given_facts - some
        with open_index(name, db_url) as index:
            assert facts_of(index) == given_facts
        if not given_facts:
            return
        compact(database, index=name, work=tmp_path / "work", resources=QUIET)
        export_index(database, name, tmp_path / f"{name}.refactx")
        with open_index(name, db_url) as index:
            assert facts_of(index) == given_facts
        with open_index(str(tmp_path / f"{name}.refactx")) as index:
            assert facts_of(index) == given_facts
        options = {"index": f"{name} again", "tokenizer": tiny_fact_tokenizer(), "tokenizer_name": "tiny"}
        retokenise(name, database, work=tmp_path / "work", resources=QUIET, **options)
        with open_index(f"{name} again", db_url) as index:
            assert facts_of(index) == given_facts


MAYOR = Statement("Q1", "P10", "Q2", "normal", (("P580", Moment(1990, 5, 3, 11, False)), ("P642", "Q3")), 1)
OTHER = Statement("Q2", "P10", "Q3", "normal", (("P582", Moment(1994, 1, 1, 9, False)),), 2)


@pytest.mark.long
@pytest.mark.parametrize("write", [json_lines, rdf_lines])
def test_things_are_updated_and_forgotten_with_their_statements(db_url: str, tmp_path: Path, write: object) -> None:
    """An update replaces the statements of a thing; one that is forgotten is in no qualifier any more; a new index of plain
    facts learns that facts have qualifiers."""
    assert callable(write)
    source = tmp_path / ("entities.json" if write is json_lines else "all.nt")
    machine = {"index": "mayors", "work": tmp_path / "work", "resources": QUIET}

    def put(*statements: Statement, labels: bool = True) -> list[Path]:
        text = "\n".join(write(list(statements)))
        source.write_text(
            text if labels else "\n".join(line for line in text.split("\n") if "P10" in line or line in "[]")
        )
        return [source]

    bare = [replace(one, qualifiers=()) for one in (MAYOR, OTHER)]
    ingest_tiny(db_url, put(*bare)[0], "mayors")
    with opened(db_url) as database, open_index("mayors", db_url) as index:
        assert not index.has_statements
        append(put(MAYOR, OTHER), database, **machine)
        index.refresh()
        assert index.has_statements
        assert facts_of(index) == expected_facts([MAYOR, OTHER], None)
        later = replace(MAYOR, qualifiers=(("P580", Moment(1995, 1, 1, 9, False)), ("P642", "Q3")))
        update(put(later, OTHER), database, **machine)
        index.refresh()
        assert facts_of(index) == expected_facts([later, OTHER], None)
        (one,) = (fact for fact in index.all_facts() if "1995" in fact.text)
        linked = index.links(one).qualifiers
        assert [(name.id, getattr(value, "id", value)) for name, value in linked] == [("P580", "1995"), ("P642", "Q3")]
        forget_things([NAMES["Q3"]], database, **machine)
        index.refresh()
        assert facts_of(index) == {("Springfield", "mayor", "Ann Lee")}
