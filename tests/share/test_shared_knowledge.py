"""A second index of a knowledge base, for another tokenizer: what an ingest of the same facts builds, with the same names."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from conftest import DatabaseServer
from support.ingest.living_index import LivingIndex, linked, same
from support.tiny_model import tiny_fact_tokenizer
from test_labels import database
from test_segments import rows_of
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from refactx.connect import open_index
from refactx.errors import IndexExistsError, InputError, TokenizerMismatchError
from refactx.index.verify import verify
from refactx.ingest.new_index import Options, ingest
from refactx.ingest.retokenisation import ingest_knowledge_base
from refactx.ingest.selection import Selection
from refactx.postgres.building import drop
from refactx.postgres.database import Database, list_indexes
from refactx.tokenizer import FactTokenizer


@pytest.fixture(scope="module")
def smollm2(smollm2_folder: Path) -> FactTokenizer:
    return FactTokenizer.from_file(smollm2_folder / "tokenizer.json")


def built(
    url: str, folder: Path, sources: list[Path], tokenizer: FactTokenizer, name: str, kb: str | None = None
) -> None:
    """An index of sources, or of the facts of another index."""
    opened = Database(url)
    options = Options(name, tokenizer, name, Selection(limit=60), quiet=True)
    if kb is None:
        ingest(sources, opened, folder / "work", options)
    else:
        ingest_knowledge_base(kb, opened, folder / "work", options)
    opened.close()


@pytest.fixture(scope="module")
def shared(
    database_server: DatabaseServer, sample: Path, smollm2: FactTokenizer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """Two databases: `first`, of some real facts for one tokenizer, with `second` for another beside it by `--kb`; and
    `second` alone, from the same source."""
    folder = tmp_path_factory.mktemp("shared")
    with database(database_server, "refactx_kb_shared") as url, database(database_server, "refactx_kb_alone") as alone:
        built(url, folder, [sample], smollm2, "first")
        built(url, folder, [], tiny_fact_tokenizer(), "second", kb="first")
        built(alone, folder, [sample], tiny_fact_tokenizer(), "second")
        yield url, alone


def rows_of_index(url: str, name: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        (segment,) = connection.execute(
            """SELECT s.id, levels, facts, tokens, codes, dictionary FROM refactx.segments AS s
            JOIN refactx.indexes AS i ON i.id = index_id WHERE name = %s""",
            [name],
        ).fetchall()
        rows = connection.execute(f"SELECT key, piece FROM refactx.pieces_{segment[0]} ORDER BY key".encode())
        return [segment[1:], *rows.fetchall()]


def test_its_rows_are_those_of_an_ingest_of_the_source(shared: tuple[str, str]) -> None:
    url, alone = shared
    assert rows_of_index(url, "second") == rows_of_index(alone, "second")
    with open_index("second", url) as index:
        assert verify(index).faults == []
        assert index.entry["report"]["facts"] == index.facts
        assert index.entry["report"]["selection"] == Selection(limit=60).to_json()
        assert index.entry["report"]["descriptions"] > 0


def test_the_names_are_shared_not_copied(shared: tuple[str, str]) -> None:
    url, _ = shared
    with psycopg.connect(url) as connection:
        first, second = list_indexes(connection)
        assert first["knowledge_base"] == second["knowledge_base"]
        assert connection.execute("SELECT count(*) FROM refactx.name_tables").fetchone() == (1,)
    with open_index("first", url) as one, open_index("second", url) as other:
        (subject, _), *_ = one.complete("<", 1)
        (predicate, _), *_ = one.complete(subject + " <", 1)
        fact = one.complete(predicate + " <", 1)[0][0] + " ."
        assert fact in other
        assert linked(one, fact) == linked(other, fact) != [None, None, None]


def test_what_was_forgotten_does_not_come_back_and_names_outlive_the_first_index(db_url: str, tmp_path: Path) -> None:
    living = LivingIndex(db_url, tmp_path)
    living.ingest("a p b", "a p c", "d p c")
    living.append("e p f")
    living.forget("a p c")
    opened = Database(db_url)
    options = Options("other", living.tokenizer, "tiny", shape=living.shape, quiet=True)
    ingest_knowledge_base("default", opened, tmp_path / "work", options)
    with opened.connection() as connection:
        drop(connection, "default")
        assert connection.execute("SELECT count(*) FROM refactx.knowledge_bases").fetchone() == (1,)
    left = rows_of(db_url)
    LivingIndex(db_url, tmp_path, "other").ingest("a p b", "d p c", "e p f", replace=True)
    assert rows_of(db_url) == left
    with opened.connection() as connection:
        drop(connection, "other")
        for table in ("knowledge_bases", "name_tables", "tokenizers"):
            assert connection.execute(f"SELECT count(*) FROM refactx.{table}".encode()).fetchone() == (0,)
    opened.close()


def test_facts_that_were_all_forgotten_again_are_no_obstacle(db_url: str, tmp_path: Path) -> None:
    """Where the segments are merged nothing is left of them, for longer than a block."""
    living, other = LivingIndex(db_url, tmp_path), LivingIndex(db_url, tmp_path, "other")
    facts = [f"a{number} b c" for number in range(200)]
    living.ingest(*facts)
    for new in ([f"z{number} b c" for number in range(30)], ["0 b c"]):
        living.append(*new)
        living.forget(*new)
    other.ingest_knowledge_base("default")
    with other.open() as index:
        same(index, living.sequences(facts))


def test_each_index_of_a_knowledge_base_is_appended_to_for_itself(db_url: str, tmp_path: Path) -> None:
    one, other = (LivingIndex(db_url, tmp_path, name) for name in ("default", "other"))
    one.ingest("a p b")
    other.ingest_knowledge_base("default")
    for living in (one, other):
        assert living.append("a p c").facts == 1
    for living in (one, other):
        with living.open() as index:
            assert index.facts == 2


def lossy_tokenizer() -> FactTokenizer:
    """One that knows no other case than lower."""
    letters = {letter: number for number, letter in enumerate("[]<>. abcdefghijklmnopqrstuvwxyz")}
    tokenizer = Tokenizer(models.BPE(vocab=letters, merges=[]))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "isolated")
    return FactTokenizer(tokenizer.to_str())


def test_a_tokenizer_that_loses_characters_is_refused_on_either_side(db_url: str, tmp_path: Path) -> None:
    living = LivingIndex(db_url, tmp_path)
    living.ingest("a p b")
    opened = Database(db_url)
    options = Options("other", lossy_tokenizer(), "lossy", quiet=True)
    with pytest.raises(TokenizerMismatchError, match="the tokenizer lossy does not keep every text"):
        ingest_knowledge_base("default", opened, tmp_path / "work", options)
    ingest([living.source(["a p b"])], opened, tmp_path / "work", replace(options, trigger="fact:"))
    with pytest.raises(TokenizerMismatchError, match="ingest the sources again instead of --kb"):
        ingest_knowledge_base(
            "other", opened, tmp_path / "work", Options("third", living.tokenizer, "tiny", quiet=True)
        )
    opened.close()


def test_what_cannot_be_built_from_is_told(db_url: str, tmp_path: Path) -> None:
    living = LivingIndex(db_url, tmp_path)
    living.ingest("a p b")
    opened = Database(db_url)
    options = Options("default", living.tokenizer, "tiny", quiet=True)
    with pytest.raises(IndexExistsError, match="give --replace"):
        ingest_knowledge_base("default", opened, tmp_path / "work", options)
    living.forget("a p b")
    with pytest.raises(InputError, match="index 'default' is empty"):
        ingest_knowledge_base("default", opened, tmp_path / "work", replace(options, index="other"))
    opened.close()
