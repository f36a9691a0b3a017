"""Facts appended to an index, forgotten and compacted: counts are those of an index of the remaining facts."""

import json
from pathlib import Path

import psycopg
import pytest
from support.ingest.living_graph import command, entry
from support.ingest.living_index import FIRST, MORE, LivingIndex, rows_of, same
from support.tiny_model import tiny_fact_tokenizer

from refactx.cli.ingest import MANY_SEGMENTS
from refactx.errors import CorruptIndexError, IndexExistsError, IndexNotFoundError, TokenizerMismatchError
from refactx.index.verify import verify
from refactx.postgres.database import Database
from refactx.postgres.locks import name_lock
from refactx.postgres.writing import drop


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


def check(living: LivingIndex, facts: list[str], ever: list[str]) -> None:
    """Check that the index has exactly these facts."""
    with living.open() as index:
        same(index, living.sequences(facts), living.sequences(ever))
        assert len(index) == index.facts == entry(living.url).facts == len(set(facts))
        assert index.tokens == entry(living.url).tokens == sum(map(len, set(living.sequences(facts))))
        assert verify(index).faults == []


def test_what_is_there_already_is_not_counted_twice(living: LivingIndex) -> None:
    done = living.append(*MORE, *FIRST[:5], MORE[0])
    assert (done.facts, done.passed_over, done.total) == (len(MORE), 5, len(FIRST) + len(MORE))
    check(living, FIRST + MORE, FIRST + MORE)


def test_if_nothing_is_new_no_segment_is_written(living: LivingIndex) -> None:
    before = tables(living.url)
    done = living.append(*FIRST[3:6])
    assert (done.facts, done.passed_over) == (0, 3)
    assert (living.forget(*MORE).facts, living.forget(*MORE).passed_over) == (0, len(MORE))
    assert tables(living.url) == before
    assert entry(living.url).segments == 1


@pytest.mark.long
def test_a_fact_can_be_forgotten_and_appended_again(living: LivingIndex) -> None:
    assert living.forget(FIRST[0], FIRST[1], "not there at").facts == 2
    check(living, FIRST[2:], FIRST)
    assert living.append(FIRST[0], FIRST[2]).facts == 1
    check(living, [FIRST[0], *FIRST[2:]], FIRST)
    assert living.forget(FIRST[0]).facts == 1
    check(living, FIRST[2:], FIRST)
    assert entry(living.url).segments == 4


@pytest.mark.long
def test_compacted_it_is_the_index_that_an_ingest_of_the_remaining_facts_builds(living: LivingIndex) -> None:
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
    assert entry(living.url).segments == 0
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
    changes = [(change["change"], change["facts"]) for change in found.report["changes"]]
    assert changes == [("append", 4), ("forget", 1), ("compact", len(FIRST) + 3)]
    assert found.report["changes"][1]["passed_over"] == 1
    assert len(found.source) == 2, "what was forgotten is no source"
    assert found.report["facts"] == len(FIRST), "the account of the ingest stays"


def test_a_tokenizer_that_writes_facts_alike_is_the_same_for_a_change(living: LivingIndex) -> None:
    """The GGUF file of a model may have no normaliser where its folder has NFC, in which facts are."""
    from refactx.tokenizer import FactTokenizer

    form = json.loads(tiny_fact_tokenizer().serialized)
    with_nfc = FactTokenizer(json.dumps({**form, "normalizer": {"type": "NFC"}}))
    assert living.append_from(living.source(MORE), tokenizer=with_nfc).facts == len(MORE)
    check(living, FIRST + MORE, FIRST + MORE)


@pytest.mark.long
def test_another_tokenizer_or_name_is_an_error(living: LivingIndex, smollm2_folder: Path) -> None:
    from refactx.tokenizer import FactTokenizer

    source = living.source(MORE)
    assert living.append_from(source, tokenizer=tiny_fact_tokenizer()).facts == len(MORE)
    with pytest.raises(TokenizerMismatchError, match="leave out --tokenizer"):
        living.append_from(source, tokenizer=FactTokenizer.from_file(smollm2_folder / "tokenizer.json"))
    with pytest.raises(IndexNotFoundError, match="there is no index 'other'"):
        LivingIndex(living.url, living.folder, "other").append_from(source)


def test_a_damaged_tokenizer_is_reported_before_a_source_is_read(living: LivingIndex) -> None:
    with psycopg.connect(living.url, autocommit=True) as connection:
        connection.execute("UPDATE refactx.tokenizers SET serialized = 'damaged'")
    bad = living.folder / "bad.txt"
    bad.write_bytes(b"no facts at all")
    with pytest.raises(CorruptIndexError, match="its tokenizer is damaged"):
        living.append_from(bad)


def test_of_two_writers_one_gets_an_error(living: LivingIndex) -> None:
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


@pytest.mark.long
def test_a_change_of_an_index_with_many_segments_says_how_to_merge_them(living: LivingIndex) -> None:
    for number in range(MANY_SEGMENTS - 2):
        done = command(living, "ingest", living.source([f"s p o{number}"]), "--append")
        assert "segments" not in done.stdout
    fact = living.source(["s p last"])
    done = command(living, "ingest", fact, "--append")
    assert f"it has {MANY_SEGMENTS} segments" in done.stdout
    assert "`refactx index compact default` merges them" in done.stdout
    assert json.loads(command(living, "ingest", fact, "--append", "--json").stdout)["segments"] == MANY_SEGMENTS
    living.compact()
    assert json.loads(command(living, "forget", fact, "--json").stdout)["segments"] == 2
