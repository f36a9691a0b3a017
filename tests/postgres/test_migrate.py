"""A database with an older catalogue (the first is catalogue_1.sql) is recognised, and migrated without a change to its
rows. One of version 2 can be read as it is."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner
from support.ingest.living_index import LivingIndex
from support.ingest.tiny import ingest_tiny
from support.shared_index import opened

from refactx.cli.main import cli
from refactx.errors import IndexExistsError, RefactxError
from refactx.fact import Fact, split_fact
from refactx.index.names import Named
from refactx.index.open import open_index
from refactx.index.verify import verify
from refactx.postgres.catalogue import list_indexes
from refactx.postgres.database import Database
from refactx.postgres.locks import name_lock
from refactx.postgres.writing import drop, migrate
from refactx.share.export import export_index
from refactx.share.importing import import_index

FACT = "<Ann> <child> <Bob> ."
_LABEL = '<http://www.wikidata.org/entity/{}> <http://www.w3.org/2000/01/rdf-schema#label> "{}"@en .\n'
_CLAIM = (
    "<http://www.wikidata.org/entity/Q1> <http://www.wikidata.org/prop/direct/P40> "
    "<http://www.wikidata.org/entity/Q2> .\n"
)
OLD_ID = 7
"""The id of the old index, which differs from that of its segment, as after some ingests."""


def ingest_people(url: str, source: Path) -> None:
    """Write a source with one fact, and ingest it as `people`."""
    labels = (_LABEL.format(*named) for named in (("Q1", "Ann"), ("Q2", "Bob"), ("P40", "child")))
    source.write_text("".join(labels) + _CLAIM)
    ingest_tiny(url, source, "people")


@pytest.fixture
def old_url(db_url: str, tmp_path: Path) -> Iterator[str]:
    """A database with the first catalogue: a ready index, and one whose ingest was killed."""
    ingest_people(db_url, tmp_path / "graph.nt")
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute("ALTER SCHEMA refactx RENAME TO built")
        connection.execute(Path(__file__).with_name("catalogue_1.sql").read_bytes())
        connection.execute("INSERT INTO refactx.tokenizers SELECT * FROM built.tokenizers")
        for number, name, state in ((OLD_ID, "people", "ready"), (OLD_ID + 1, "killed", "building")):
            connection.execute(
                """INSERT INTO refactx.indexes OVERRIDING SYSTEM VALUE
                SELECT
                    %s, %s, %s, format, tokenizer, fingerprint, vocabulary_size, trigger, terminator, source, report,
                    created
                FROM built.indexes""",
                [number, name, state],
            )
        connection.execute(
            f"""INSERT INTO refactx.segments OVERRIDING SYSTEM VALUE
            SELECT id, {OLD_ID}, sign, levels, cut, facts, tokens, codes, dictionary FROM built.segments""".encode()
        )
        connection.execute("ALTER TABLE built.pieces_1 SET SCHEMA refactx")
        connection.execute(f"ALTER TABLE built.names_1 RENAME TO names_{OLD_ID}".encode())
        connection.execute(f"ALTER TABLE built.names_{OLD_ID} SET SCHEMA refactx".encode())
        connection.execute(f"CREATE TABLE refactx.names_{OLD_ID + 1} (key bytea, block bytea)".encode())
        connection.execute("SELECT setval('refactx.indexes_id_seq', 8), setval('refactx.segments_id_seq', 1)")
        connection.execute("DROP SCHEMA built CASCADE")
    yield db_url


def test_every_command_on_an_old_database_names_the_migration(old_url: str, tmp_path: Path) -> None:
    advice = r"catalogue 1, expected 3\): run `refactx index migrate`"
    with pytest.raises(RefactxError, match=advice):
        open_index("people", old_url)
    source = tmp_path / "facts.txt"
    source.write_text(FACT + "\n")
    database = Database(old_url)
    with pytest.raises(RefactxError, match=advice):
        ingest_tiny(old_url, source, "x", replace=True)
    with pytest.raises(RefactxError, match=advice), database.connection() as connection:
        drop(connection, "people")
    database.close()


def test_a_migrated_index_reads_as_before_and_can_be_ingested_again(old_url: str, tmp_path: Path) -> None:
    runner = CliRunner()
    assert "version 3 (was 1)" in runner.invoke(cli, ["index", "migrate", "--db", old_url]).output
    assert "version 3 (nothing to do)" in runner.invoke(cli, ["index", "migrate", "--db", old_url]).output
    parts = split_fact(FACT)
    assert parts is not None
    with open_index("people", old_url) as index:
        assert FACT in index
        assert index.links(Fact(*parts, FACT, (0, 0))).subject.id == "Q1"
        assert verify(index).faults == []
    database = Database(old_url)
    with database.connection() as connection:
        assert [entry.name for entry in list_indexes(connection, every=True)] == ["killed", "people"]
        drop(connection, "killed")
    source = tmp_path / "facts.txt"
    source.write_text("<Eve> <child> <Bob> .\n")
    assert ingest_tiny(old_url, source, "people", replace=True).report.facts == 1
    with database.connection() as connection:
        left = connection.execute("SELECT relname FROM pg_class WHERE relname ~ '^(pieces|names)_[0-9]+$'").fetchall()
    database.close()
    assert len(left) == 2, "the old index's tables are gone"


def test_a_migration_does_not_wait_and_is_complete_or_absent(old_url: str) -> None:
    with psycopg.connect(old_url, autocommit=True) as writer, psycopg.connect(old_url, autocommit=True) as other:
        with (
            name_lock(writer, "people"),
            pytest.raises(IndexExistsError, match="another process is writing index 'people'"),
        ):
            migrate(other)
        assert other.execute("SELECT to_regclass('refactx.knowledge_bases')").fetchone() == (None,)
        assert migrate(other) == 1


def test_a_newer_catalogue_is_refused(db_url: str, tmp_path: Path) -> None:
    source = tmp_path / "facts.txt"
    source.write_text(FACT + "\n")
    database = Database(db_url)
    ingest_tiny(db_url, source, "x")
    with database.connection() as connection:
        connection.execute("UPDATE refactx.catalogue SET version = 4")
        with pytest.raises(RefactxError, match="newer refactx"):
            migrate(connection)
    with pytest.raises(RefactxError, match="newer refactx"):
        open_index("x", db_url)
    database.close()


@pytest.fixture
def url_2(db_url: str, tmp_path: Path) -> str:
    """A database of catalogue 2, with an index as it was made then."""
    ingest_people(db_url, tmp_path / "graph.nt")
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute("DROP TABLE refactx.hubs; UPDATE refactx.catalogue SET version = 2")
        connection.execute("UPDATE refactx.indexes SET report = report - 'hubs'")
        connection.execute("DELETE FROM refactx.names_1 WHERE key < '\\x01'")
    return db_url


def check_readable(url: str) -> None:
    with open_index("people", url) as index:
        assert FACT in index
        assert index.ids_of(["Ann"]) == {"Ann": Named("Q1", None)}
        assert index.names_of(["Q1"]) == {}
        assert index.hubs(["Ann"]) == {}
        assert not index.has_hubs
        assert verify(index).faults == []


def test_catalogue_2_is_read_as_it_is_and_written_after_a_migration(url_2: str, tmp_path: Path) -> None:
    living = LivingIndex(url_2, tmp_path, "people")
    check_readable(url_2)
    with opened(url_2) as database:
        export_index(database, "people", tmp_path / "people.refactx")
        advice = r"catalogue 2, expected 3\): run `refactx index migrate`"
        for write in (
            lambda: living.ingest("a b c", replace=True),
            lambda: living.append("a b c"),
            lambda: living.forget("a b c"),
            living.compact,
            lambda: LivingIndex(url_2, tmp_path, "other").retokenise("people"),
            lambda: import_index(database, tmp_path / "people.refactx", "other"),
        ):
            with pytest.raises(RefactxError, match=advice):
                write()
        check_readable(url_2)
        migrated = CliRunner().invoke(cli, ["index", "migrate", "--db", url_2])
        assert "version 3 (was 2)" in migrated.output
        check_readable(url_2)
        LivingIndex(url_2, tmp_path, "other").retokenise("people")
        import_index(database, tmp_path / "people.refactx", "imported")
    living.append("a b c")
    living.compact()
    for name in ("people", "other", "imported"):
        with open_index(name, url_2) as index:
            assert not index.has_hubs
            assert FACT in index


def test_the_last_index_of_catalogue_2_can_be_dropped(url_2: str) -> None:
    with psycopg.connect(url_2, autocommit=True) as connection:
        drop(connection, "people")
        assert list_indexes(connection, every=True) == []
