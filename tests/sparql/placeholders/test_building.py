"""A memory has the names of its index with embeddings, and after a change those of the index as it is then."""

import random
from pathlib import Path

import pytest
from support.ingest.graph_twin import Line
from support.ingest.living_index import LivingIndex
from support.memory.graph import CLAIMS, NAMED, build, ingest_named, lines_of, source, stored_entries
from support.memory.letters import LetterEncoder

from refactx.entity_ids import entity_number
from refactx.errors import IndexNotFoundError, InputError, ModelError
from refactx.postgres.connections import open_session
from refactx.postgres.database import Database
from refactx.postgres.memory import MemoryRecord, list_memories
from refactx.postgres.writing import drop


def records(url: str, index: str = "default") -> list[MemoryRecord]:
    from refactx.postgres.catalogue import find_index

    database = Database(url)
    try:
        with database.connection() as connection:
            return list_memories(connection, find_index(database, index))
    finally:
        database.close()


def test_a_memory_has_labels_descriptions_and_aliases(db_url: str, tmp_path: Path) -> None:
    living = ingest_named(db_url, tmp_path)
    done = build(living, LetterEncoder())
    expected = set()
    for id_, (label, description, aliases) in NAMED.items():
        expected.add((entity_number(id_), label, description, False, True))
        expected |= {(entity_number(id_), alias, description, True, False) for alias in aliases}
    assert stored_entries(db_url, "letters") == expected
    assert (done.texts, done.encoded, done.added, done.removed) == (len(NAMED), len(NAMED), len(expected), 0)

    with_aliases = build(living, LetterEncoder(), aliases=True)
    assert {has for *_, has in stored_entries(db_url, "letters")} == {True}
    assert with_aliases.encoded == len(expected) - len(NAMED)


def test_the_texts_are_labels_with_descriptions(db_url: str, tmp_path: Path) -> None:
    encoder = LetterEncoder()
    build(ingest_named(db_url, tmp_path), encoder)
    assert sorted(encoder.texts) == sorted(
        f"{label} ({description})" if description else label for label, description, _ in NAMED.values()
    )


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_an_updated_memory_is_that_which_is_built_anew(db_url: str, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    first: list[Line] = [*lines_of(["Q1", "Q3", "Q4", "Q6", "P1", "P2", "P4"]), CLAIMS[0], CLAIMS[2], CLAIMS[5]]
    living = ingest_named(db_url, tmp_path, lines=first)
    build(living, LetterEncoder())
    for step in range(4):
        changed = [*lines_of(chance.sample(sorted(NAMED), 5)), *chance.sample(CLAIMS, 3)]
        path = source(tmp_path, f"{step}.nt", [*changed, *lines_of(["P1", "P2", "P3", "P4"])])
        change = living.forget_from if chance.random() < 0.4 else living.append_from
        change(path)
        before = stored_entries(db_url, "letters")
        encoder = LetterEncoder()
        done = build(living, encoder)
        after = stored_entries(db_url, "letters")
        new_texts = [entry for entry in after - before if not entry[3]]
        assert len(encoder.texts) == done.encoded == len(new_texts)
        assert (done.added, done.removed) == (len(after - before), len(before - after))
        build(living, LetterEncoder(seed=7, name="anew"))
        assert stored_entries(db_url, "anew") == after
        assert [one.behind for one in records(db_url)] == [0, 0]


@pytest.mark.long
def test_it_is_behind_after_append_and_forget_but_not_after_compact(db_url: str, tmp_path: Path) -> None:
    living = ingest_named(db_url, tmp_path, lines=[*lines_of(["Q1", "Q3", "P1"]), CLAIMS[0]])
    build(living, LetterEncoder())
    path = source(tmp_path, "more.nt", [*lines_of(["Q3", "P1"]), CLAIMS[1]])
    living.append_from(path)
    living.compact()
    assert [one.behind for one in records(db_url)] == [1]
    living.forget_from(path)
    assert [one.behind for one in records(db_url)] == [2]
    build(living, LetterEncoder())
    assert [one.behind for one in records(db_url)] == [0]


def test_embeddings_are_copied_from_other_indexes(db_url: str, tmp_path: Path) -> None:
    living = ingest_named(db_url, tmp_path)
    build(living, LetterEncoder())
    other = ingest_named(db_url, tmp_path, "other")
    encoder = LetterEncoder()
    done = build(other, encoder)
    assert (done.copied, done.encoded, encoder.texts) == (len(NAMED), 0, [])
    assert stored_entries(db_url, "letters", "other") == stored_entries(db_url, "letters")


def test_the_memory_goes_with_its_index(db_url: str, tmp_path: Path) -> None:
    living = ingest_named(db_url, tmp_path)
    build(living, LetterEncoder())
    with open_session(db_url) as connection:
        drop(connection, "default")
        tables = connection.execute("SELECT relname FROM pg_class WHERE relname ~ '^memory_[0-9]'").fetchall()
        assert tables == []
        assert connection.execute("SELECT count(*) FROM refactx.memories").fetchone() == (0,)
    with pytest.raises(IndexNotFoundError, match="no index"):
        build(living, LetterEncoder())


def test_an_index_that_is_replaced_has_no_memory(db_url: str, tmp_path: Path) -> None:
    living = ingest_named(db_url, tmp_path)
    build(living, LetterEncoder())
    living.ingest_from(source(tmp_path, "new.nt", [*lines_of(["Q1", "P1"]), CLAIMS[0]]), replace=True)
    assert records(db_url) == []


def test_an_index_without_ids_has_no_memory(db_url: str, tmp_path: Path) -> None:
    living = LivingIndex(db_url, tmp_path)
    living.ingest("a b c")
    with pytest.raises(InputError, match="no names with ids, so"):
        build(living, LetterEncoder())


class _Broken(LetterEncoder):
    def encode(self, texts):  # type: ignore[no-untyped-def]
        return super().encode(texts)[:, :5]


def test_an_encoder_has_to_do_as_it_says(db_url: str, tmp_path: Path) -> None:
    living = ingest_named(db_url, tmp_path)
    with pytest.raises(ModelError, match=r"shape \(12, 5\) for 12 texts: expected \(12, 32\)"):
        build(living, _Broken())
    with pytest.raises(ModelError, match="5000 numbers: expected 1 to 4000"):
        build(living, LetterEncoder(width=5000))
    assert [one.ready for one in records(db_url)] == [False]
    build(living, LetterEncoder())
    assert [one.ready for one in records(db_url)] == [True]
