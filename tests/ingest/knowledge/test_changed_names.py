"""Names in an index that grows: an entity keeps its name, and no other gets it."""

from pathlib import Path

import numpy as np
import psycopg
import pytest
from support.ingest.graph_twin import Line
from support.ingest.living_graph import CLAIMS, LABELS, entry, graph
from support.ingest.living_index import LivingIndex, linked

from refactx.errors import CorruptIndexError
from refactx.index.names import FIRST_KEY, Named
from refactx.index.verify import verify
from refactx.ingest import change
from refactx.ingest.source_options import Selection
from refactx.tree.codes import RowCodec


@pytest.fixture
def named(db_url: str, tmp_path: Path) -> LivingIndex:
    """An index of `LABELS` and `CLAIMS`."""
    made = LivingIndex(db_url, tmp_path)
    made.ingest_from(graph(made, "first.nt", LABELS + CLAIMS))
    return made


def test_an_entity_keeps_its_name_and_a_taken_name_is_not_given_twice(named: LivingIndex) -> None:
    lines: list[Line] = [
        ("label", "Q1", "Anna", "en"),  # called Ann already
        ("label", "Q4", "Bob", "en"),  # Q2 is called so
        ("label", "Q5", "Eve", "en"),
        ("claim", "Q1", "P40", "Q4"),
        ("claim", "Q5", "P40", "Q3"),  # Q3 and P40 have no label here; Q3 was in no fact, so it has no name
        ("claim", "Q5", "P40", "Q1"),
    ]
    done = named.append_from(graph(named, "more.nt", lines))
    assert done.facts == 2
    assert done.report.dropped["object has no label"] == 1
    assert done.report.names == {"as before": 2, "label": 1, "with id": 1}
    with named.open() as index:
        assert linked(index, "<Ann> <child> <Bob (Q4)> .") == ["Q1", "P40", "Q4"]
        assert linked(index, "<Eve> <child> <Ann> .") == ["Q5", "P40", "Q1"]
        assert linked(index, "<Ann> <child> <Bob> .") == ["Q1", "P40", "Q2"]
        assert all(fact in index for fact in ("<Ann> <child> <Bob (Q4)> .", "<Eve> <child> <Ann> ."))
        assert verify(index).faults == []
    named.compact()
    with named.open() as index:
        assert len(index.name_tables) == 1
        assert linked(index, "<Ann> <child> <Bob (Q4)> .") == ["Q1", "P40", "Q4"]
        assert verify(index).faults == []


@pytest.mark.long
def test_names_are_found_anywhere_among_many(db_url: str, tmp_path: Path) -> None:
    """`child` and 700 things are three blocks of 256 names (`refactx.index.names`); each change has its own table."""
    living = LivingIndex(db_url, tmp_path)
    called = {100 + number: f"thing {number:03}" for number in range(700)}
    lines: list[Line] = [
        ("label", "P40", "child", "en"),
        *(("label", f"Q{q}", name, "en") for q, name in called.items()),
    ]
    living.ingest_from(
        graph(living, "all.nt", lines + [("claim", f"Q{q}", "P40", f"Q{q + 1}") for q in range(100, 799)])
    )
    first_of_blocks = ["child", "thing 255", "thing 511"]
    names = [*first_of_blocks, "a", "thing 0001", "thing 254", "thing 254 b", "thing 699", "zebra", "zebra", "é"]
    for number, name in enumerate(names):
        entity, other = f"Q{6000 + number}", 100 + 60 * number
        new: list[Line] = [("label", entity, name, "en"), ("claim", entity, "P40", f"Q{other}")]
        assert living.append_from(graph(living, f"{number}.nt", new)).facts == 1
        is_taken = name in called.values() or name in ("child", *names[:number])
        subject = f"{name} ({entity})" if is_taken else name
        with living.open() as index:
            assert linked(index, f"<{subject}> <child> <{called[other]}> .") == [entity, "P40", f"Q{other}"]


def test_a_predicate_that_gets_objects_of_another_kind_is_known_to_have_both(named: LivingIndex) -> None:
    with named.open() as index:
        assert linked(index, "<Ann> <child> <Bob> .")[2] == "Q2"
    named.append_from(graph(named, "more.nt", [("literal", "Q2", "P40", "nobody", "en")]))
    with named.open() as index:
        assert linked(index, "<Bob> <child> <nobody> .") == ["Q2", "P40", None]
        assert linked(index, "<Ann> <child> <Bob> .")[2] == "Q2"


@pytest.mark.long
@pytest.mark.parametrize(
    ("language", "kind"), [("^^gYear", "time"), ("^^decimal", "literal"), (None, "literal"), ("^^boolean", "literal")]
)
def test_a_predicate_keeps_the_kind_of_its_literals_until_another_kind_comes(
    named: LivingIndex, language: str | None, kind: str
) -> None:
    years: list[Line] = [*LABELS, ("literal", "Q1", "P50", "1950", "^^gYear")]
    named.ingest_from(graph(named, "years.nt", years), replace=True)
    named.append_from(graph(named, "more.nt", [("literal", "Q1", "P50", "1951", language)]))
    for _ in range(2):
        with named.open() as index:
            assert index.ids_of(["born"]) == {"born": Named("P50", kind)}
            assert linked(index, "<Ann> <born> <1951> .") == ["Q1", "P50", None]
        named.forget_from(graph(named, "more.nt", [("literal", "Q1", "P50", "1950", "^^gYear")]))
        named.compact()
    named.append_from(graph(named, "claim.nt", [("claim", "Q1", "P50", "Q1")]))
    with named.open() as index:
        assert index.ids_of(["born"])["born"].object_kind == "mixed"


def test_a_damaged_block_of_names_is_an_error_and_nothing_is_changed(named: LivingIndex) -> None:
    key, numbers = b"Ann", np.array([2, 4], "<i8").tobytes()
    for names in (b"Ann\n\xff", b"\xff"):
        block = RowCodec().pack(key, (2, names, numbers, bytes(2)))
        with psycopg.connect(named.url, autocommit=True) as connection:
            connection.execute(
                "UPDATE refactx.names_1 SET key = %s, block = %s WHERE key >= %b", [key, block, FIRST_KEY]
            )
        with pytest.raises(CorruptIndexError, match=r"names b'Ann'.* damaged"):
            named.append_from(graph(named, "more.nt", [("claim", "Q2", "P40", "Q1")]))
    with named.open() as index:
        assert index.facts == len(CLAIMS)


def test_claims_without_labels_are_forgotten_by_their_ids(named: LivingIndex) -> None:
    done = named.forget_from(graph(named, "slice.nt", [*CLAIMS[:1], ("claim", "Q2", "P40", "Q1")]))
    assert (done.facts, done.passed_over, done.total) == (1, 1, 1)
    with named.open() as index:
        assert "<Ann> <child> <Bob> ." not in index
        assert "<Ann> <born> <1950> ." in index


@pytest.mark.parametrize("action", ["forget", "append"])
def test_claims_of_nothing_that_has_a_name_change_nothing_and_are_accounted_for(
    named: LivingIndex, action: str
) -> None:
    source = graph(named, "unknown.nt", [("claim", "Q404", "P40", "Q405")])
    done = (named.forget_from if action == "forget" else named.append_from)(source)
    assert (done.facts, done.passed_over, done.total) == (0, 0, 2)
    assert done.report.dropped == {"subject has no label": 1}
    assert entry(named.url).segments == 1


def test_a_change_without_the_aliases_that_an_index_has_says_so_if_its_source_has_some(named: LivingIndex) -> None:
    aliases = graph(named, "aliases.nt", [*LABELS, *CLAIMS, ("alias", "Q1", "Annie", "en")])
    named.ingest_from(aliases, selection=Selection(aliases=True), replace=True)
    assert "ingested with --aliases" in named.forget_from(aliases).note
    assert named.append_from(graph(named, "claims.nt", CLAIMS)).note == ""
    assert named.forget_from(aliases, selection=Selection(aliases=True)).note == ""


def test_what_a_stopped_append_left_is_not_taken_for_an_index_of_other_names(
    named: LivingIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    claim = graph(named, "claim.nt", [("claim", "Q2", "P40", "Q1")])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(change, "load_segment", stop)
        named.append_from(claim)
    with psycopg.connect(named.url) as connection:
        connection.execute("DROP SCHEMA refactx CASCADE")  # numbers begin with 1 again, as on another server
    others: list[Line] = [("label", "Q1", "Zoe", "en"), *LABELS[1:]]
    named.ingest_from(graph(named, "others.nt", others + CLAIMS))
    assert named.append_from(claim).facts == 1
    with named.open() as index:
        assert "<Bob> <child> <Zoe> ." in index
        assert "<Bob> <child> <Ann> ." not in index


def test_aliases_are_appended_to_an_index_without_them_and_forgotten(named: LivingIndex) -> None:
    lines: list[Line] = [
        ("alias", "Q1", "Annie", "en"),
        ("alias", "Q2", "Annie", "en"),
        ("alias", "Q2", "Bob", "en"),  # is called so
        ("alias", "Q4", "Nan", "en"),  # has no name
        ("alias", "P40", "son", "en"),  # a property
    ]
    source, wanted = graph(named, "aliases.nt", lines), Selection(aliases=True)
    done = named.append_from(source, selection=wanted)
    assert (done.facts, done.report.aliases, done.report.kept) == (2, 2, 3)
    assert done.report.dropped == {"duplicate": 1, "subject has no label": 1}
    annie = [f"<Annie (alias)> <alias of> <{name}> ." for name in ("Ann", "Bob")]
    with named.open() as index:
        assert [linked(index, fact) for fact in annie] == [["Q1", None, "Q1"], ["Q2", None, "Q2"]]
        assert all(fact in index for fact in annie)
        assert index.property_aliases == {"child": ["son"]}
        assert verify(index).faults == []
    assert named.forget_from(source, selection=wanted).facts == 2
    with named.open() as index:
        assert not any(fact in index for fact in annie)
        assert "<Ann> <child> <Bob> ." in index


def test_other_names_of_properties_are_kept_without_any_fact(named: LivingIndex) -> None:
    lines: list[Line] = [("alias", "P40", name, "en") for name in ("son", "daughter", "child", "son")]
    lines += [("alias", "P9999", "nothing", "en")]  # in no fact
    done = named.append_from(graph(named, "aliases.nt", lines), selection=Selection(aliases=True))
    assert (done.facts, done.report.kept) == (0, 2)
    with named.open() as index:
        assert index.property_aliases == {"child": ["daughter", "son"]}
    named.append_from(graph(named, "more.nt", [("alias", "P40", "kid", "en")]), selection=Selection(aliases=True))
    with named.open() as index:
        assert index.property_aliases == {"child": ["daughter", "kid", "son"]}


def test_what_reads_like_an_alias_gets_its_id_with_or_without_aliases(named: LivingIndex) -> None:
    named.append_from(graph(named, "alias.nt", [("alias", "Q1", "Bob", "en")]), selection=Selection(aliases=True))
    lines: list[Line] = [
        *(("label", "Q5", "Bob", "en"), ("description", "Q5", "alias", "en"), ("claim", "Q5", "P40", "Q1")),
        *(("label", "P60", "alias of", "en"), ("claim", "Q2", "P60", "Q1")),
    ]
    named.append_from(graph(named, "more.nt", lines))
    with named.open() as index:
        assert linked(index, "<Bob (alias)> <alias of> <Ann> .") == ["Q1", None, "Q1"]
        assert linked(index, "<Bob (alias) (Q5)> <child> <Ann> .") == ["Q5", "P40", "Q1"]
        assert linked(index, "<Bob> <alias of (P60)> <Ann> .") == ["Q2", "P60", "Q1"]
        assert "<Bob (alias) (Q5)> <child> <Ann> ." in index and "<Bob> <alias of (P60)> <Ann> ." in index
