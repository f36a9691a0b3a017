"""A second index of a knowledge base, for another tokenizer, has the rows of an ingest, and shares the names."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from support.ingest.living_index import LivingIndex, linked, rows_of, same
from support.ingest.quiet import QUIET
from support.servers import DatabaseServer, database
from support.tiny_model import tiny_fact_tokenizer
from tokenizers import Tokenizer, normalizers

from refactx.errors import IndexExistsError, InputError, TokenizerMismatchError
from refactx.index.open import open_index
from refactx.index.verify import verify
from refactx.ingest import Selection, ingest, retokenise
from refactx.ingest.profile import Profile
from refactx.postgres.catalogue import list_indexes
from refactx.postgres.database import Database
from refactx.postgres.writing import drop
from refactx.tokenizer import FactTokenizer


@pytest.fixture(scope="module")
def smollm2(smollm2_folder: Path) -> FactTokenizer:
    return FactTokenizer.from_file(smollm2_folder / "tokenizer.json")


def build(
    url: str, folder: Path, sources: list[Path], tokenizer: FactTokenizer, name: str, kb: str | None = None
) -> None:
    """Build an index of sources, or of the facts of the index `kb`."""
    opened = Database(url)
    given: Any = {
        "index": name,
        "tokenizer": tokenizer,
        "tokenizer_name": name,
        "work": folder / "work",
        "resources": QUIET,
    }
    if kb is None:
        ingest(sources, opened, selection=Selection(limit=60), **given)
    else:
        retokenise(kb, opened, **given)
    opened.close()


@pytest.fixture(scope="module")
def shared(
    database_server: DatabaseServer, sample: Path, smollm2: FactTokenizer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """The URLs of two databases.

    One has `first`, of real facts for one tokenizer, and `second`, built from it for another tokenizer. The other one
    has `second` alone, from the same source.
    """
    folder = tmp_path_factory.mktemp("shared")
    with database(database_server, "refactx_kb_shared") as url, database(database_server, "refactx_kb_alone") as alone:
        build(url, folder, [sample], smollm2, "first")
        build(url, folder, [], tiny_fact_tokenizer(), "second", kb="first")
        build(alone, folder, [sample], tiny_fact_tokenizer(), "second")
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


@pytest.mark.long
def test_its_rows_are_the_rows_of_an_ingest_of_the_source(shared: tuple[str, str]) -> None:
    url, alone = shared
    assert rows_of_index(url, "second") == rows_of_index(alone, "second")
    with open_index("second", url) as index:
        assert verify(index).faults == []
        assert index.entry.report["facts"] == index.facts
        assert index.entry.report["selection"] == Selection(limit=60, profile=Profile(name="wikidata")).to_json()
        assert index.entry.report["descriptions"] > 0


def test_the_names_are_shared_not_copied(shared: tuple[str, str]) -> None:
    url, _ = shared
    with psycopg.connect(url) as connection:
        first, second = list_indexes(connection)
        assert first.knowledge_base == second.knowledge_base
        assert connection.execute("SELECT count(*) FROM refactx.name_tables").fetchone() == (1,)
    with open_index("first", url) as one, open_index("second", url) as other:
        (subject, _), *_ = one.complete("<", 1)
        (predicate, _), *_ = one.complete(subject + " <", 1)
        fact = one.complete(predicate + " <", 1)[0][0] + " ."
        assert fact in other
        assert linked(one, fact) == linked(other, fact) != [None, None, None]


@pytest.mark.long
def test_forgotten_facts_stay_forgotten_and_names_outlive_the_first_index(db_url: str, tmp_path: Path) -> None:
    living = LivingIndex(db_url, tmp_path)
    living.ingest("a p b", "a p c", "d p c")
    living.append("e p f")
    living.forget("a p c")
    opened = Database(db_url)
    LivingIndex(db_url, tmp_path, "other").retokenise("default")
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


@pytest.mark.long
def test_facts_that_were_appended_and_forgotten_do_not_disturb(db_url: str, tmp_path: Path) -> None:
    """When the segments are merged, they leave a gap of more than a block."""
    living, other = LivingIndex(db_url, tmp_path), LivingIndex(db_url, tmp_path, "other")
    facts = [f"a{number} b c" for number in range(200)]
    living.ingest(*facts)
    for new in ([f"z{number} b c" for number in range(30)], ["0 b c"]):
        living.append(*new)
        living.forget(*new)
    other.retokenise("default")
    with other.open() as index:
        same(index, living.sequences(facts))


@pytest.mark.long
def test_each_index_of_a_knowledge_base_has_its_own_appends(db_url: str, tmp_path: Path) -> None:
    one, other = (LivingIndex(db_url, tmp_path, name) for name in ("default", "other"))
    one.ingest("a p b")
    other.retokenise("default")
    for living in (one, other):
        assert living.append("a p c").facts == 1
    for living in (one, other):
        with living.open() as index:
            assert index.facts == 2


def lossy_tokenizer() -> FactTokenizer:
    """A tokenizer that changes characters such as ²."""
    tokenizer = Tokenizer.from_str(tiny_fact_tokenizer().serialized)
    tokenizer.normalizer = normalizers.NFKC()
    return FactTokenizer(tokenizer.to_str())


@pytest.mark.long
def test_a_tokenizer_that_loses_characters_is_refused_on_either_side(db_url: str, tmp_path: Path) -> None:
    living = LivingIndex(db_url, tmp_path)
    living.ingest("a p b")
    opened = Database(db_url)
    lossy: Any = {
        "index": "other",
        "tokenizer": lossy_tokenizer(),
        "tokenizer_name": "lossy",
        "work": tmp_path / "work",
        "resources": QUIET,
    }
    with pytest.raises(TokenizerMismatchError, match="the tokenizer lossy does not keep every text"):
        retokenise("default", opened, **lossy)
    ingest([living.source(["a p b"])], opened, **lossy)
    with pytest.raises(TokenizerMismatchError, match="ingest the sources again instead of --kb"):
        LivingIndex(db_url, tmp_path, "third").retokenise("other")
    opened.close()


def test_an_index_that_cannot_be_the_source_is_an_error(db_url: str, tmp_path: Path) -> None:
    living = LivingIndex(db_url, tmp_path)
    living.ingest("a p b")
    with pytest.raises(IndexExistsError, match="give --replace"):
        living.retokenise("default")
    living.forget("a p b")
    with pytest.raises(InputError, match="index 'default' is empty"):
        LivingIndex(db_url, tmp_path, "other").retokenise("default")
