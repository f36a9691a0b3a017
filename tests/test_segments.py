"""Facts appended to an index, forgotten and compacted: counts are those of an index of the facts that are left."""

import json
from pathlib import Path
from typing import Any

import click.testing
import numpy as np
import psycopg
import pytest
from graph_twin import Line, written
from living_index import LivingIndex, linked, same
from psycopg.types.json import Jsonb
from tiny_model import tiny_fact_tokenizer

from refactx.cli import cli
from refactx.cli_ingest import MANY_SEGMENTS
from refactx.codec import RowCodec
from refactx.errors import CorruptIndexError, IndexExistsError, IndexNotFoundError, TokenizerMismatchError
from refactx.ingest import change
from refactx.ingest.catalogue import drop
from refactx.ingest.locks import name_lock
from refactx.ingest.selection import Selection
from refactx.postgres import Database, list_indexes
from refactx.verify import verify

FIRST = [f"s{subject} p{predicate} o{subject % 4}" for subject in range(9) for predicate in range(3)]
MORE = ["s1 p1 new", "s1 p9 new", "t1 p1 o1", "a a a"]


@pytest.fixture
def living(db_url: str, tmp_path: Path) -> LivingIndex:
    """An index of `FIRST`."""
    made = LivingIndex(db_url, tmp_path)
    made.ingest(*FIRST)
    return made


def tables(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT relname FROM pg_class WHERE relname ~ '^(pieces|names)_[0-9]+$' ORDER BY 1")
        return [name for (name,) in rows]


def rows_of(url: str) -> list[tuple[Any, ...]]:
    """All rows of the tree of the one index with one segment, and what they share."""
    with psycopg.connect(url) as connection:
        (shared,) = connection.execute(
            "SELECT id, levels, cut, facts, tokens, codes, dictionary FROM refactx.segments"
        ).fetchall()
        pieces = connection.execute(
            f"SELECT key, piece FROM refactx.pieces_{shared[0]} ORDER BY key".encode()
        ).fetchall()
    return [shared[1:], *pieces]


def entry(url: str, name: str = "default") -> dict[str, Any]:
    with psycopg.connect(url) as connection:
        (found,) = list_indexes(connection, name)
    return found


def check(living: LivingIndex, facts: list[str], ever: list[str]) -> None:
    """The index holds exactly these facts."""
    with living.open() as index:
        same(index, living.sequences(facts), living.sequences(ever))
        assert len(index) == index.facts == entry(living.url)["facts"] == len(set(facts))
        assert index.tokens == entry(living.url)["tokens"] == sum(map(len, set(living.sequences(facts))))
        assert verify(index).faults == []


def test_what_is_there_already_is_not_counted_twice(living: LivingIndex) -> None:
    done = living.append(*MORE, *FIRST[:5], MORE[0])
    assert (done.facts, done.passed_over, done.total) == (len(MORE), 5, len(FIRST) + len(MORE))
    check(living, FIRST + MORE, FIRST + MORE)


def test_where_nothing_is_new_no_segment_is_written(living: LivingIndex) -> None:
    before = tables(living.url)
    done = living.append(*FIRST[3:6])
    assert (done.facts, done.passed_over) == (0, 3)
    assert (living.forget(*MORE).facts, living.forget(*MORE).passed_over) == (0, len(MORE))
    assert tables(living.url) == before
    assert entry(living.url)["segments"] == 1


def test_a_fact_can_be_forgotten_and_appended_again(living: LivingIndex) -> None:
    assert living.forget(FIRST[0], FIRST[1], "not there at").facts == 2
    check(living, FIRST[2:], FIRST)
    assert living.append(FIRST[0], FIRST[2]).facts == 1
    check(living, [FIRST[0], *FIRST[2:]], FIRST)
    assert living.forget(FIRST[0]).facts == 1
    check(living, FIRST[2:], FIRST)
    assert entry(living.url)["segments"] == 4


def test_compacted_it_is_the_index_that_an_ingest_of_what_is_left_builds(living: LivingIndex) -> None:
    living.append(*MORE)
    living.forget(*FIRST[::3], MORE[0])
    living.append(FIRST[0])
    left = sorted({*FIRST, *MORE} - {*FIRST[::3], MORE[0]} | {FIRST[0]})
    check(living, left, FIRST + MORE)
    done = living.compact()
    assert (done.segments, done.facts) == (4, len(left))
    check(living, left, FIRST + MORE)
    compacted = rows_of(living.url)
    assert len(tables(living.url)) == 2, "the old ones are gone"
    living.ingest(*left, replace=True)
    assert rows_of(living.url) == compacted


def test_an_index_whose_facts_are_all_forgotten_is_empty_and_can_be_filled_again(living: LivingIndex) -> None:
    living.forget(*FIRST)
    check(living, [], FIRST)
    living.compact()
    check(living, [], FIRST)
    assert entry(living.url)["segments"] == 0
    with living.open() as index:
        assert index.complete("<") == []
    assert living.compact().segments == 0
    living.append(*MORE)
    check(living, MORE, FIRST)


def test_the_account_of_an_index_has_its_changes(living: LivingIndex) -> None:
    living.append(*MORE)
    living.forget(FIRST[0], "not there at")
    living.compact()
    found = entry(living.url)
    changes = [(change["change"], change["facts"]) for change in found["report"]["changes"]]
    assert changes == [("append", 4), ("forget", 1), ("compact", len(FIRST) + 3)]
    assert found["report"]["changes"][1]["passed_over"] == 1
    assert len(found["source"]) == 2, "what was forgotten is no source"
    assert found["report"]["facts"] == len(FIRST), "the account of the ingest stays"


def test_another_tokenizer_or_name_is_an_error(living: LivingIndex, smollm2_folder: Path) -> None:
    from refactx.tokenizer import FactTokenizer

    source = living.source(MORE)
    assert living.append_from(source, tokenizer=tiny_fact_tokenizer()).facts == len(MORE)
    with pytest.raises(TokenizerMismatchError, match="leave out --tokenizer"):
        living.append_from(source, tokenizer=FactTokenizer.from_file(smollm2_folder / "tokenizer.json"))
    with pytest.raises(IndexNotFoundError, match="there is no index 'other'"):
        LivingIndex(living.url, living.folder, "other").append_from(source)


def test_a_damaged_tokenizer_is_told_before_a_source_is_read(living: LivingIndex) -> None:
    with psycopg.connect(living.url, autocommit=True) as connection:
        connection.execute("UPDATE refactx.tokenizers SET serialized = 'damaged'")
    bad = living.folder / "bad.txt"
    bad.write_bytes(b"no facts at all")
    with pytest.raises(CorruptIndexError, match="its tokenizer is damaged"):
        living.append_from(bad)


def test_of_two_writers_one_is_told(living: LivingIndex) -> None:
    with (
        psycopg.connect(living.url, autocommit=True) as other,
        name_lock(other, "default"),
        pytest.raises(IndexExistsError, match="another process is writing index 'default'"),
    ):
        living.append(*MORE)


def test_a_dropped_index_takes_all_its_tables(living: LivingIndex) -> None:
    living.append(*MORE)
    database = Database(living.url)
    with database.connection() as connection:
        drop(connection, "default")
    database.close()
    assert tables(living.url) == []


def test_a_fact_that_is_retracted_but_was_never_there_is_found(living: LivingIndex) -> None:
    living.append(*MORE)
    with psycopg.connect(living.url, autocommit=True) as connection:
        connection.execute("UPDATE refactx.segments SET sign = -1 WHERE id = 2")
    with living.open() as index:
        assert ["-1 times, not once or never" in fault for fault in verify(index).faults] == [True]
    with pytest.raises(CorruptIndexError, match="-1 times, not once or never"):
        living.compact()


# A graph with ids: its claims are appended and forgotten by slices.
LABELS: list[Line] = [
    *(("label", f"Q{number}", name, "en") for number, name in ((1, "Ann"), (2, "Bob"), (3, "Cid"))),
    *(("label", f"P{number}", name, "en") for number, name in ((40, "child"), (50, "born"))),
]
CLAIMS: list[Line] = [("claim", "Q1", "P40", "Q2"), ("literal", "Q1", "P50", "1950", None)]


def graph(living: LivingIndex, name: str, lines: list[Line]) -> Path:
    path = living.folder / name
    path.write_text("".join(written(line) + "\n" for line in lines))
    return path


@pytest.fixture
def named(db_url: str, tmp_path: Path) -> LivingIndex:
    """An index of `LABELS` and `CLAIMS`."""
    from refactx.ingest.run import Options, ingest

    living = LivingIndex(db_url, tmp_path)
    database = Database(db_url)
    options = Options("default", living.tokenizer, "tiny", quiet=True)
    ingest([graph(living, "first.nt", LABELS + CLAIMS)], database, tmp_path / "work", options)
    database.close()
    return living


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


def test_names_are_known_wherever_they_stand_among_many(db_url: str, tmp_path: Path) -> None:
    """`child` and 700 things are three blocks of 256 names (`refactx.name_blocks`); each change has a table of its own."""
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


def test_a_damaged_block_of_names_is_told_and_nothing_is_changed(named: LivingIndex) -> None:
    key, numbers = b"Ann", np.array([2, 4], "<i8").tobytes()
    for names in (b"Ann\n\xff", b"\xff"):
        block = RowCodec().pack(key, (2, names, numbers, bytes(2)))
        with psycopg.connect(named.url, autocommit=True) as connection:
            connection.execute("UPDATE refactx.names_1 SET key = %s, block = %s", [key, block])
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


def command(living: LivingIndex, *arguments: object) -> "click.testing.Result":
    given = [*map(str, arguments), "--db", living.url, "--work-dir", str(living.folder / "work")]
    return click.testing.CliRunner().invoke(cli, given, catch_exceptions=False)


def test_of_many_segments_a_change_says_how_to_make_them_one(living: LivingIndex) -> None:
    for number in range(MANY_SEGMENTS - 2):
        done = command(living, "ingest", living.source([f"s p o{number}"]), "--append")
        assert "segments" not in done.stdout
    fact = living.source(["s p last"])
    done = command(living, "ingest", fact, "--append")
    assert f"it has {MANY_SEGMENTS} segments" in done.stdout
    assert "`refactx index compact default` makes them one" in done.stdout
    assert json.loads(command(living, "ingest", fact, "--append", "--json").stdout)["segments"] == MANY_SEGMENTS
    living.compact()
    assert json.loads(command(living, "forget", fact, "--json").stdout)["segments"] == 2


def test_a_change_without_the_inverse_that_an_index_was_ingested_with_says_what_it_leaves(
    db_url: str, tmp_path: Path
) -> None:
    living = LivingIndex(db_url, tmp_path)
    source = graph(living, "all.nt", [*LABELS, *CLAIMS, ("claim", "Q3", "P40", "Q1")])
    living.ingest_from(source, selection=Selection(inverse=True))
    claim = graph(living, "claim.nt", CLAIMS[:1])
    done = command(living, "forget", claim)
    assert done.exit_code == 0
    assert "1 facts retracted" in done.stdout
    (said,) = done.stderr.splitlines()
    assert "index 'default' was ingested with --inverse" in said
    assert "the inverse facts of these sources stay" in said
    done = command(living, "forget", claim, "--inverse")
    assert (done.stderr, "1 facts retracted, 1 were not there" in done.stdout) == ("", True)
    assert "were not added" in command(living, "ingest", claim, "--append", "--json").stderr
    assert "1 facts appended, 1 were already" in command(living, "ingest", claim, "--append", "--inverse").stdout
    assert command(living, "forget", living.source(["a b c"])).stderr == "", "nobody inverts ready-made facts"


FAMILY: list[Line] = [*LABELS, ("label", "P22", "father", "en"), ("claim", "Q1", "P22", "Q2")]
PAIRED: Line = ("claim", "P22", "P1696", "P40")


@pytest.mark.parametrize("paired", [True, False])
def test_inverse_facts_stay_those_of_the_property_whose_they_were(db_url: str, tmp_path: Path, paired: bool) -> None:
    """Whether or not a change's own sources have the claim that pairs the properties."""
    living, inverse = LivingIndex(db_url, tmp_path), Selection(inverse=True)
    made = living.ingest_from(graph(living, "all.nt", [*FAMILY, *[PAIRED][:paired]]), selection=inverse)
    assert made.report.inverse_properties == ({"P22": "P40", "P40": "P22"} if paired else {})
    new = graph(living, "new.nt", [("claim", "Q1", "P22", "Q3"), *[PAIRED][paired:], ("label", "Q3", "Cid", "en")])
    done = living.append_from(new, selection=inverse)
    assert (done.facts, done.report.collisions) == (2, 0)
    predicate = "child" if paired else "father of"
    with living.open() as index:
        for father, id_ in (("Bob", "Q2"), ("Cid", "Q3")):
            assert linked(index, f"<{father}> <{predicate}> <Ann> .") == [id_, "P40" if paired else "P22", "Q1"]
        assert verify(index).faults == []
    for source in (graph(living, "old.nt", FAMILY[-1:]), graph(living, "new.nt", [("claim", "Q1", "P22", "Q3")])):
        assert living.forget_from(source, selection=inverse).facts == 2
    with living.open() as index:
        assert index.facts == 0


def test_a_pair_of_properties_that_a_change_brings_is_known_to_the_next(db_url: str, tmp_path: Path) -> None:
    living, inverse = LivingIndex(db_url, tmp_path), Selection(inverse=True)
    living.ingest_from(graph(living, "all.nt", LABELS + CLAIMS), selection=inverse)
    living.append_from(graph(living, "pair.nt", [*FAMILY, PAIRED]), selection=inverse)
    living.compact()
    following: list[Line] = [("claim", "Q3", "P22", "Q1"), ("label", "Q3", "Cid", "en")]
    done = living.append_from(graph(living, "next.nt", following), selection=inverse)
    assert (done.facts, done.report.collisions) == (2, 0)
    with living.open() as index:
        assert "<Bob> <child> <Ann> ." in index
        assert "<Ann> <child> <Cid> ." in index
        assert index.entry["report"]["inverse_properties"] == {"P22": "P40"}


def test_a_pair_of_properties_without_a_fact_gives_way_to_one_with(db_url: str, tmp_path: Path) -> None:
    living, inverse = LivingIndex(db_url, tmp_path), Selection(inverse=True)
    lines: list[Line] = [*LABELS, ("label", "P22", "father", "en"), PAIRED, CLAIMS[1]]
    assert living.ingest_from(graph(living, "all.nt", lines), selection=inverse).report.inverse_properties == {}
    other: list[Line] = [*FAMILY, ("label", "P9", "kid", "en"), ("claim", "P22", "P1696", "P9")]
    living.append_from(graph(living, "other.nt", other), selection=inverse)
    following: list[Line] = [
        ("claim", "Q3", "P22", "Q1"),
        ("label", "Q3", "Cid", "en"),
        ("label", "P40", "child", "en"),
    ]
    living.append_from(graph(living, "next.nt", following), selection=inverse)
    with living.open() as index:
        assert "<Bob> <kid> <Ann> ." in index
        assert "<Ann> <kid> <Cid> ." in index


@pytest.mark.parametrize("pairs", [{"P22": 40}, {"father": "P40"}, ["P22"]])
def test_damaged_pairs_of_properties_are_told(named: LivingIndex, pairs: object) -> None:
    with psycopg.connect(named.url, autocommit=True) as connection:
        report = Jsonb({"inverse_properties": pairs})
        connection.execute("UPDATE refactx.indexes SET report = report || %s", [report])
    with pytest.raises(CorruptIndexError, match="the inverse properties in its account are damaged"):
        named.append(*MORE)


def test_an_inverse_that_has_its_name_already_does_not_collide_with_itself(db_url: str, tmp_path: Path) -> None:
    living, inverse = LivingIndex(db_url, tmp_path), Selection(inverse=True)
    living.ingest_from(graph(living, "all.nt", LABELS + CLAIMS), selection=inverse)
    done = living.append_from(  # P40 has a label here, and no claim
        graph(living, "more.nt", [*LABELS, ("literal", "Q2", "P50", "1951", None)]), selection=inverse
    )
    assert (done.facts, done.report.collisions) == (1, 0)


@pytest.mark.parametrize("action", ["forget", "append"])
def test_claims_of_nothing_that_has_a_name_change_nothing_and_are_accounted_for(
    named: LivingIndex, action: str
) -> None:
    source = graph(named, "unknown.nt", [("claim", "Q404", "P40", "Q405")])
    done = (named.forget_from if action == "forget" else named.append_from)(source)
    assert (done.facts, done.passed_over, done.total) == (0, 0, 2)
    assert done.report.dropped == {"subject has no label": 1}
    assert entry(named.url)["segments"] == 1


def test_a_change_without_the_aliases_that_an_index_has_says_so_if_its_source_has_some(named: LivingIndex) -> None:
    aliases = graph(named, "aliases.nt", [*LABELS, *CLAIMS, ("alias", "Q1", "Annie", "en")])
    named.ingest_from(aliases, selection=Selection(aliases=True), replace=True)
    assert "ingested with --aliases" in named.forget_from(aliases).note
    assert named.append_from(graph(named, "claims.nt", CLAIMS)).note == ""
    assert named.forget_from(aliases, selection=Selection(aliases=True)).note == ""


def test_what_a_stopped_append_left_is_not_taken_for_an_index_of_other_names(
    named: LivingIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    claim = graph(named, "claim.nt", [("claim", "Q2", "P40", "Q1")])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(change, "_write", stop)
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
    assert (done.facts, done.report.aliases, done.report.kept) == (2, 2, 2)
    assert done.report.dropped == {"duplicate": 1, "subject has no label": 1, "unused name": 1}
    annie = [f"<Annie (alias)> <alias of> <{name}> ." for name in ("Ann", "Bob")]
    with named.open() as index:
        assert [linked(index, fact) for fact in annie] == [["Q1", None, "Q1"], ["Q2", None, "Q2"]]
        assert all(fact in index for fact in annie)
        assert verify(index).faults == []
    assert named.forget_from(source, selection=wanted).facts == 2
    with named.open() as index:
        assert not any(fact in index for fact in annie)
        assert "<Ann> <child> <Bob> ." in index


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
