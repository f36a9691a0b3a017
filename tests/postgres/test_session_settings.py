"""Settings of the environment, the role and the database do not change what is read and written."""

import os
from pathlib import Path

import psycopg
import pytest
from psycopg import pq, sql
from support.ingest.living_index import LivingIndex
from support.postgres.embedded_server import FACTS

from refactx.errors import DatabaseError
from refactx.index.open import connect, database, open_index
from refactx.index.verify import verify
from refactx.postgres.connections import open_session
from refactx.postgres.locks import check_rights
from refactx.share import export_index, import_index

VARIABLES = {option.envvar.decode() for option in pq.Conninfo.get_defaults() if option.envvar}
VARIABLES |= {"PGDATESTYLE", "PGTZ", "PGGEQO", "PGSERVICEFILE", "PGSYSCONFDIR", "PGLOCALEDIR"}
HOSTILE = ("none", "127.0.0.9", "-c default_transaction_read_only=on")
OWN = {"PGSERVICE", "PGDATESTYLE", "PGTZ", "PGGEQO"}
"""Libpq reads these whatever the parameters of a connection are; some values are none."""


@pytest.mark.parametrize("variable", sorted(VARIABLES))
def test_no_variable_of_the_user_changes_the_embedded_server(
    variable: str, indexed_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFACTX_HOME", str(indexed_home))
    for value in HOSTILE:
        monkeypatch.setenv(variable, value)
        try:
            with database() as opened, opened.connection() as connection:
                check_rights(connection)
                assert opened.retry(lambda c: c.execute("SELECT 1").fetchone()) == (1,)
        except DatabaseError as error:
            assert variable in OWN
            assert variable in str(error)


@pytest.mark.parametrize("variable", sorted(VARIABLES - {"PGOPTIONS"}))
def test_a_variable_that_keeps_a_server_of_the_users_from_answering_is_named(
    variable: str, db_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in HOSTILE:
        monkeypatch.setenv(variable, value)
        try:
            with database(db_url):
                pass
        except DatabaseError as error:
            assert variable in str(error)


def test_options_of_the_environment_that_forbid_writing_are_named(db_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c default_transaction_read_only=on")
    with database(db_url) as opened, opened.connection() as connection, pytest.raises(DatabaseError, match="PGOPTIONS"):
        check_rights(connection)


@pytest.mark.parametrize("style", ["German", "SQL, DMY", "Postgres, MDY"])
def test_a_date_style_of_the_environment_changes_nothing(
    style: str, indexed_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDATESTYLE", style)
    with open_index(db=indexed_url) as index:
        assert all(fact in index for fact in FACTS)


def test_settings_of_the_role_or_the_database_change_nothing(db_url: str, tmp_path: Path) -> None:
    settings = {
        "DateStyle": "German",
        "IntervalStyle": "sql_standard",
        "TimeZone": "<X>-13:37",
        "extra_float_digits": "-15",
        "bytea_output": "escape",
        "standard_conforming_strings": "off",
        "array_nulls": "off",
        "transform_null_equals": "on",
        "client_encoding": "latin1",
        "search_path": "nowhere",
        "default_transaction_isolation": "serializable",
        "row_security": "off",
        "lock_timeout": "1h",
        "quote_all_identifiers": "on",
    }
    with psycopg.connect(db_url, autocommit=True) as connection:
        for name, value in settings.items():
            connection.execute(
                sql.SQL("ALTER DATABASE {} SET {} = {}").format(
                    sql.Identifier(connection.info.dbname), sql.Identifier(name), sql.Literal(value)
                )
            )
    living = LivingIndex(db_url, tmp_path, "Wörter 東京")
    living.ingest("Åsa född Malmö", "東京 is 都")
    living.append("Ōe geboren Uchiko")
    living.forget("Åsa född Malmö")
    living.compact()
    living.append("a b c")
    with database(db_url) as opened:
        export_index(opened, living.name, tmp_path / "file")
        import_index(opened, tmp_path / "file", "copy")
    for name in (living.name, "copy"):
        with open_index(name, db_url) as index:
            assert sorted(fact.text for fact in index.all_facts()) == [
                "<a> <b> <c> .",
                "<Ōe> <geboren> <Uchiko> .",
                "<東京> <is> <都> .",
            ]
            assert verify(index).faults == []


@pytest.mark.parametrize("by_environment", [False, True])
def test_the_client_encoding_is_utf_8_whatever_the_user_sets(
    db_url: str, monkeypatch: pytest.MonkeyPatch, by_environment: bool
) -> None:
    if by_environment:
        monkeypatch.setenv("PGCLIENTENCODING", "latin1")
    with open_session(db_url if by_environment else f"{db_url}&client_encoding=latin1") as connection:
        assert connection.info.encoding == "utf-8"


def test_the_embedded_server_is_not_taken_from_a_service(
    indexed_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "services").write_text("[mine]\nhost=nowhere.invalid\nhostaddr=127.0.0.9\nport=1\noptions=-c x=y\n")
    monkeypatch.setenv("REFACTX_HOME", str(indexed_home))
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    monkeypatch.setenv("PGSERVICE", "mine")
    opened, close = connect()
    assert opened.address[0] == os.path.realpath(indexed_home / "embedded" / "run")
    opened.close()
    close()
