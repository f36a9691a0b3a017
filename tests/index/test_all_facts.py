"""`Index.all_facts` streams the facts of an index in the order of token ids; `links_of` adds their ids."""

from itertools import islice
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.ingest.living_graph import CLAIMS, LABELS, graph
from support.ingest.living_index import FIRST, MORE, LivingIndex, as_fact

from refactx.errors import CorruptIndexError, IndexNotFoundError
from refactx.fact import Fact
from refactx.index.index import Index
from refactx.ingest.segment.cutting import Shape
from refactx.postgres.database import Database
from refactx.postgres.writing import drop

MANY = [f"s{number:05} p{number % 7} o{number % 11}" for number in range(20_000)]
"""More than twice the facts of a block (8,192)."""


@pytest.fixture
def living(db_url: str, tmp_path: Path) -> LivingIndex:
    return LivingIndex(db_url, tmp_path)


def texts(index: Index) -> list[str]:
    return [fact.text for fact in index.all_facts()]


def expected(living: LivingIndex, facts: set[str]) -> list[str]:
    """The facts sorted by their token ids, by brute force."""
    return [as_fact(fact) for _, fact in sorted(zip(living.sequences(facts), facts, strict=True))]


changes = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["append", "forget"]), st.sets(st.sampled_from([*FIRST, *MORE]), min_size=1)),
        st.just(("compact", set[str]())),
    ),
    max_size=4,
)


@pytest.mark.long
@given(changes)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_they_are_the_facts_that_were_appended_and_not_forgotten(
    living: LivingIndex, steps: list[tuple[str, set[str]]]
) -> None:
    living.ingest(*FIRST, replace=True)
    held = set(FIRST)
    for step, facts in steps:
        match step:
            case "append":
                living.append(*facts)
                held |= facts
            case "forget":
                living.forget(*facts)
                held -= facts
            case _:
                living.compact()
        with living.open() as index:
            assert texts(index) == expected(living, held)


def test_a_fact_has_its_parts_its_text_and_the_count_of_its_token_ids(living: LivingIndex) -> None:
    living.ingest("a b c")
    (sequence,) = living.sequences(["a b c"])
    with living.open() as index:
        assert list(index.all_facts()) == [Fact("a", "b", "c", "<a> <b> <c> .", (0, len(sequence)))]
        assert all(fact.text in index for fact in index.all_facts())


def test_an_index_without_facts_yields_none(living: LivingIndex) -> None:
    living.ingest(*FIRST)
    living.forget(*FIRST)
    with living.open() as index:
        assert texts(index) == []
    living.compact()
    with living.open() as index:
        assert texts(index) == []


@pytest.mark.long
def test_the_first_fact_comes_before_most_rows_are_read(living: LivingIndex) -> None:
    living.shape = Shape(facts=64, inner=64, root=64)
    living.ingest(*MANY)
    with living.open(cache_bytes=0) as index:
        facts = index.all_facts()
        first = next(facts)
        trips = index.round_trips
        assert [first.text, *(fact.text for fact in facts)] == expected(living, set(MANY))
        assert trips < 0.6 * index.round_trips, "a block of 8,192 of 20,000 facts"


@pytest.mark.long
def test_a_stream_continues_when_the_index_is_compacted(living: LivingIndex) -> None:
    living.shape = Shape(facts=64, inner=64, root=64)
    living.ingest(*MANY)
    living.append(*MORE)
    living.forget(*MANY[::3])
    with living.open(cache_bytes=0) as index:
        facts = index.all_facts()
        begun = [fact.text for fact in islice(facts, 100)]
        living.compact()
        assert begun + [fact.text for fact in facts] == expected(living, {*MANY, *MORE} - set(MANY[::3]))
        assert len(index.segments) == 1


def test_a_stream_ends_with_an_error_when_the_index_is_dropped(living: LivingIndex) -> None:
    living.shape = Shape(facts=64, inner=64, root=64)
    living.ingest(*MANY)
    database = Database(living.url)
    with living.open(cache_bytes=0) as index:
        facts = index.all_facts()
        next(facts)
        with database.connection() as connection:
            drop(connection, living.name)
        with pytest.raises(IndexNotFoundError):
            list(facts)
    database.close()


def test_a_retracted_fact_that_was_never_added_is_an_error(living: LivingIndex) -> None:
    living.ingest(*FIRST)
    living.append(*MORE)
    with psycopg.connect(living.url) as connection:
        connection.execute("UPDATE refactx.segments SET sign = -1 WHERE id = (SELECT max(id) FROM refactx.segments)")
    with living.open() as index, pytest.raises(CorruptIndexError, match="-1 times"):
        list(index.all_facts())


def test_links_of_equals_links_one_by_one(living: LivingIndex) -> None:
    living.ingest_from(graph(living, "first.nt", LABELS + CLAIMS))
    more = [
        ("label", "Q9", "Zoe", "en"),
        ("claim", "Q9", "P40", "Q1"),
        ("claim", "Q3", "P40", "Q9"),
        ("literal", "Q9", "P50", "1990", None),
    ]
    living.append_from(graph(living, "more.nt", more))
    with living.open() as index:
        assert len(index.name_tables) == 2
        facts = [*index.all_facts(), Fact("no", "such", "fact", "<no> <such> <fact> .", (0, 0))]
        linked = list(index.links_of(facts))
        assert linked == [index.links(fact) for fact in facts]
        assert [(one.subject.id, one.predicate.id) for one in linked].count(("Q9", "P40")) == 1


def test_links_of_reads_its_facts_as_a_stream(living: LivingIndex) -> None:
    living.ingest_from(graph(living, "first.nt", LABELS + CLAIMS))
    with living.open() as index:
        (fact, *_) = index.all_facts()
        endless = iter(lambda: fact, None)
        assert list(islice(index.links_of(endless), 3000)) == [index.links(fact)] * 3000
