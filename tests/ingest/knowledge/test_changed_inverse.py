"""Inverse facts keep their predicates when an index changes, independently in each index of a knowledge base."""

from pathlib import Path

import psycopg
import pytest
from psycopg.types.json import Jsonb
from support.ingest.graph_twin import Line
from support.ingest.living_graph import CLAIMS, LABELS, command, entry, graph
from support.ingest.living_index import LivingIndex, linked

from refactx.errors import CorruptIndexError
from refactx.index.verify import verify
from refactx.ingest.source_options import Selection

INVERSE = Selection(inverse=True)
FATHER: Line = ("claim", "Q1", "P22", "Q2")
FAMILY: list[Line] = [*LABELS, ("label", "P22", "father", "en"), FATHER]
PAIRED: Line = ("claim", "P22", "P1696", "P40")
NEXT: list[Line] = [("claim", "Q3", "P22", "Q1"), ("label", "Q3", "Cid", "en")]


@pytest.fixture
def living(db_url: str, tmp_path: Path) -> LivingIndex:
    return LivingIndex(db_url, tmp_path)


@pytest.mark.long
def test_a_change_without_the_inverse_that_an_index_was_ingested_with_says_what_it_leaves(
    living: LivingIndex,
) -> None:
    source = graph(living, "all.nt", [*LABELS, *CLAIMS, ("claim", "Q3", "P40", "Q1")])
    living.ingest_from(source, selection=INVERSE)
    claim = graph(living, "claim.nt", CLAIMS[:1])
    done = command(living, "forget", claim)
    assert done.exit_code == 0
    assert "1 fact removed" in done.stdout
    (said,) = done.stderr.splitlines()
    assert "index 'default' was ingested with --inverse" in said
    assert "the inverse facts of these sources stay" in said
    done = command(living, "forget", claim, "--inverse")
    assert (done.stderr, "1 fact removed, 1 was not there" in done.stdout) == ("", True)
    assert "were not added" in command(living, "ingest", claim, "--append", "--json").stderr
    assert "1 fact appended, 1 was already" in command(living, "ingest", claim, "--append", "--inverse").stdout
    assert command(living, "forget", living.source(["a b c"])).stderr == "", "nobody inverts ready-made facts"


@pytest.mark.long
@pytest.mark.parametrize("paired", [True, False])
def test_inverse_facts_stay_facts_of_the_same_property(living: LivingIndex, paired: bool) -> None:
    """It does not matter whether the sources of the change have the claim that pairs the properties."""
    made = living.ingest_from(graph(living, "all.nt", [*FAMILY, *[PAIRED][:paired]]), selection=INVERSE)
    assert made.report.inverse_properties == ({"P22": "P40", "P40": "P22"} if paired else {})
    new = graph(living, "new.nt", [("claim", "Q1", "P22", "Q3"), *[PAIRED][paired:], ("label", "Q3", "Cid", "en")])
    done = living.append_from(new, selection=INVERSE)
    assert (done.facts, done.report.collisions) == (2, 0)
    predicate = "child" if paired else "father of"
    with living.open() as index:
        for father, id_ in (("Bob", "Q2"), ("Cid", "Q3")):
            assert linked(index, f"<{father}> <{predicate}> <Ann> .") == [id_, "P40" if paired else "P22", "Q1"]
        assert verify(index).faults == []
    for source in (graph(living, "old.nt", [FATHER]), graph(living, "new.nt", [("claim", "Q1", "P22", "Q3")])):
        assert living.forget_from(source, selection=INVERSE).facts == 2
    with living.open() as index:
        assert index.facts == 0


def test_a_pair_of_properties_that_a_change_brings_is_known_to_the_next(living: LivingIndex) -> None:
    living.ingest_from(graph(living, "all.nt", LABELS + CLAIMS), selection=INVERSE)
    living.append_from(graph(living, "pair.nt", [*FAMILY, PAIRED]), selection=INVERSE)
    living.compact()
    done = living.append_from(graph(living, "next.nt", NEXT), selection=INVERSE)
    assert (done.facts, done.report.collisions) == (2, 0)
    with living.open() as index:
        assert "<Bob> <child> <Ann> ." in index
        assert "<Ann> <child> <Cid> ." in index
        assert index.entry.report["inverse_properties"] == {"P22": "P40"}


def test_a_pair_of_properties_without_a_fact_gives_way_to_one_with(living: LivingIndex) -> None:
    lines: list[Line] = [*LABELS, ("label", "P22", "father", "en"), PAIRED, CLAIMS[1]]
    assert living.ingest_from(graph(living, "all.nt", lines), selection=INVERSE).report.inverse_properties == {}
    other: list[Line] = [*FAMILY, ("label", "P9", "kid", "en"), ("claim", "P22", "P1696", "P9")]
    living.append_from(graph(living, "other.nt", other), selection=INVERSE)
    following: list[Line] = [*NEXT, ("label", "P40", "child", "en")]
    living.append_from(graph(living, "next.nt", following), selection=INVERSE)
    with living.open() as index:
        assert "<Bob> <kid> <Ann> ." in index
        assert "<Ann> <kid> <Cid> ." in index


@pytest.mark.parametrize(
    "pairs", [{"P22": 40}, {"father": "P40"}, ["P22"], None, {"P22": "P-5"}, {"P22": "P99999999999999999999"}]
)
def test_damaged_pairs_of_properties_are_an_error(living: LivingIndex, pairs: object) -> None:
    living.ingest("a b c")
    with psycopg.connect(living.url, autocommit=True) as connection:
        report = Jsonb({"inverse_properties": pairs})
        connection.execute("UPDATE refactx.indexes SET report = report || %s", [report])
    with pytest.raises(CorruptIndexError, match="the inverse properties in its account are damaged"):
        living.append("a b d")


@pytest.mark.long
def test_each_index_of_a_knowledge_base_keeps_its_inverses(living: LivingIndex) -> None:
    """One learns a pair; the other does not, and names the same inverse, in the names that both share."""
    other = LivingIndex(living.url, living.folder, "other")
    living.ingest_from(graph(living, "all.nt", LABELS + CLAIMS), selection=INVERSE)
    other.retokenise("default")
    living.append_from(graph(living, "pair.nt", [*FAMILY, PAIRED]), selection=INVERSE)
    other.append_from(graph(other, "father.nt", [FATHER]), selection=INVERSE)
    for index, predicate in ((living, "child"), (other, "father of")):
        assert index.append_from(graph(index, "next.nt", NEXT), selection=INVERSE).facts == 2
        with index.open() as opened:
            assert linked(opened, f"<Ann> <{predicate}> <Cid> .") == ["Q1", "P40" if index is living else "P22", "Q3"]
            assert f"<Ann> <{predicate}> <Cid> ." in opened
            assert f"<Bob> <{predicate}> <Ann> ." in opened
        assert index.forget_from(graph(index, "father.nt", [FATHER]), selection=INVERSE).facts == 2


def test_an_index_without_stored_pairs_learns_them_if_no_fact_is_new(living: LivingIndex) -> None:
    living.ingest_from(graph(living, "all.nt", [*FAMILY, PAIRED]), selection=INVERSE)
    with psycopg.connect(living.url, autocommit=True) as connection:
        connection.execute("UPDATE refactx.indexes SET report = report - 'inverse_properties'")
    taught = living.append_from(graph(living, "pair.nt", [PAIRED]), selection=INVERSE)
    assert (taught.facts, taught.segments) == (0, 1)
    assert "has learned the inverse properties of 2 properties" in taught.note
    assert entry(living.url).report["inverse_properties"] == {"P22": "P40", "P40": "P22"}
    assert living.forget_from(graph(living, "father.nt", [FATHER]), selection=INVERSE).total == 0


def test_a_pair_with_a_property_that_is_named_in_no_fact_is_not_remembered(living: LivingIndex) -> None:
    """If no fact is appended, neither is its name, and the next change would not know it."""
    ready = ["Ann father Bob", "Bob child Ann"]
    living.ingest(*ready)
    done = living.append_from(graph(living, "pair.nt", [*FAMILY, PAIRED]), selection=INVERSE)
    assert (done.facts, done.passed_over) == (0, 2)
    assert done.report.inverse_properties == {"P22": "P40", "P40": "P22"}
    assert not entry(living.url).report.get("inverse_properties")


@pytest.mark.parametrize("paired", [True, False])
def test_a_given_name_that_an_index_does_not_use_is_reported(living: LivingIndex, paired: bool) -> None:
    living.ingest_from(graph(living, "all.nt", [*FAMILY, *[PAIRED][:paired]]), selection=INVERSE)
    name = "child" if paired else "father of"
    names, source = living.folder / "names.tsv", graph(living, "next.nt", NEXT)
    names.write_text("P22\tbegot\n")
    done = command(living, "ingest", source, "--append", "--inverse", "--inverse-names", names)
    assert f"--inverse-names: the inverse of P22 stays '{name}', not 'begot', as the index has it" in done.stdout
    names.write_text(f"P22\t{name}\n")
    done = command(living, "forget", source, "--inverse", "--inverse-names", names)
    assert "2 facts removed" in done.stdout
    assert "--inverse-names" not in done.stdout


def test_inverse_facts_of_hubs_are_forgotten_too(living: LivingIndex) -> None:
    """Each source has few subjects of an object, which together make it a hub."""
    claims: list[list[Line]] = [
        [line for n in numbers for line in (("claim", f"Q{n}", "P40", "Q2"), ("label", f"Q{n}", f"n{n}", "en"))]
        for numbers in ((11, 12), (13, 14))
    ]
    few = Selection(inverse=True, inverse_limit=2)
    living.ingest_from(graph(living, "first.nt", LABELS + claims[0]), selection=few)
    assert living.append_from(graph(living, "more.nt", claims[1]), selection=few).facts == 4
    done = living.forget_from(graph(living, "all.nt", [line for lines in claims for line in lines]), selection=few)
    assert (done.facts, done.total) == (8, 0)


@pytest.mark.long
def test_the_note_of_a_change_without_the_given_names_says_what_it_left_out(living: LivingIndex) -> None:
    given = Selection(inverse=True, inverse_names=(("P22", "begot"), ("employs", "works for")))
    living.ingest_from(graph(living, "all.nt", FAMILY), selection=given)
    assert living.append_from(graph(living, "next.nt", NEXT), selection=INVERSE).note == "", "as the index has it"
    with living.open() as index:
        assert "<Ann> <begot> <Cid> ." in index
    ready = [living.source(["Ann employs Bob"])]
    assert "were not added" in living.append_from(*ready, selection=INVERSE).note
    assert "stay" in living.forget_from(*ready, selection=INVERSE).note
    spouse = graph(living, "spouse.nt", [("claim", "Q1", "P26", "Q2"), ("label", "P26", "spouse", "en")])
    assert "1 predicate of inverse facts" in living.append_from(spouse, selection=INVERSE).note
    assert living.forget_from(spouse, selection=INVERSE).note == ""


def test_a_given_name_may_be_that_of_a_property_which_only_the_index_knows(living: LivingIndex) -> None:
    living.ingest_from(graph(living, "all.nt", LABELS + CLAIMS), selection=INVERSE)
    given = Selection(inverse=True, inverse_names=(("father", "child"),))
    source = graph(living, "father.nt", [FATHER, ("label", "P22", "father", "en")])
    done = living.append_from(source, selection=given)
    assert (done.facts, done.report.collisions) == (2, 0)
    with living.open() as index:
        assert linked(index, "<Bob> <child> <Ann> .") == ["Q2", "P40", "Q1"]
        assert "<Bob> <child> <Ann> ." in index
    again = living.forget_from(source, selection=given)
    assert (again.facts, again.report.notes) == (2, ())


def test_a_given_name_is_that_of_the_property_in_the_index_not_of_a_new_one(living: LivingIndex) -> None:
    living.ingest_from(graph(living, "all.nt", LABELS + CLAIMS), selection=INVERSE)
    given = Selection(inverse=True, inverse_names=(("P22", "child"),))
    new: list[Line] = [*FAMILY, ("label", "P99", "child", "en"), ("claim", "Q3", "P99", "Q1")]
    living.append_from(graph(living, "new.nt", new), selection=given)
    with living.open() as index:
        assert "<Bob> <child> <Ann> ." in index
        assert "<Cid> <child (P99)> <Ann> ." in index


def test_of_many_given_names_that_are_not_used_three_are_reported(living: LivingIndex) -> None:
    numbers = range(101, 106)
    lines = [("label", f"P{n}", f"kin {n}", "en") for n in numbers]
    lines += [("claim", "Q1", f"P{n}", "Q2") for n in numbers]
    source = graph(living, "all.nt", [*LABELS, *lines])
    living.ingest_from(source, selection=INVERSE)
    given = Selection(inverse=True, inverse_names=tuple((f"P{n}", "x" * 500 + str(n)) for n in numbers))
    (note,) = living.forget_from(source, selection=given).report.notes
    assert "P101 stays 'kin 101" in note
    assert "; and 2 more" in note
    assert len(note) < 1000


@pytest.mark.long
def test_an_inverse_that_got_its_id_is_not_reported_as_different(living: LivingIndex) -> None:
    given = Selection(inverse=True, inverse_names=(("P22", "child"), ("P40", "born")))
    other = Selection(inverse=True, inverse_names=(("P22", "Ann of"), ("P40", "Ann of")))
    for selection in (given, other):
        living.ingest_from(graph(living, "all.nt", [*FAMILY, *CLAIMS]), selection=selection, replace=True)
        done = living.append_from(graph(living, "next.nt", NEXT), selection=selection)
        assert (done.facts, done.report.notes) == (2, ())
    with living.open() as index:
        assert "<Ann> <Ann of (inverse of P22)> <Cid> ." in index


def test_an_inverse_that_has_its_name_already_does_not_collide_with_itself(living: LivingIndex) -> None:
    living.ingest_from(graph(living, "all.nt", LABELS + CLAIMS), selection=INVERSE)
    done = living.append_from(  # P40 has a label here, and no claim
        graph(living, "more.nt", [*LABELS, ("literal", "Q2", "P50", "1951", None)]), selection=INVERSE
    )
    assert (done.facts, done.report.collisions) == (1, 0)
