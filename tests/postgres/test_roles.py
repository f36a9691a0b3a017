"""The SQL of docs/how-to/roles-and-limits.md makes a reader that can only read, and a writer without other rights."""

import json
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from support.ingest.tiny import ingest_tiny
from support.servers import DatabaseServer
from support.tiny_model import tiny_model, tiny_tokenizer

import refactx
from refactx.errors import DatabaseError
from refactx.postgres.connections import open_session
from refactx.postgres.writing import drop, migrate

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "roles-and-limits.md"
FACTS = "<Ann> <p> <b> .\n<Ann> <q> <c> .\n<Bo> <p> <b> .\n"

As = Callable[[str], str]


def run(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


@pytest.fixture(scope="module")
def database(database_server: DatabaseServer) -> Iterator[As]:
    """A database with the roles of the page: a function from a role ("": the administrator) to its address."""
    name = f"refactx_roles_{uuid.uuid4().hex}"
    parts = {"host": database_server.host, "port": database_server.port, "password": database_server.password}
    admin = make_conninfo(**parts, user=database_server.user, dbname=database_server.maintenance_dbname)
    run(admin, f"CREATE DATABASE {name}")
    own = make_conninfo(admin, dbname=name)
    before, after = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    try:
        run(own, before, "CREATE ROLE ann LOGIN; GRANT refactx_writer TO ann; CREATE ROLE stranger LOGIN")
        yield lambda role: make_conninfo(own, user=role) if role else own
        run(own, after)  # the SQL for existing tables must run unchanged
    finally:
        run(admin, f"DROP DATABASE {name} WITH (FORCE)")
        run(admin, "DROP ROLE refactx_writer, refactx_reader, ann, stranger")


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("roles") / "facts.txt"
    file.write_text(FACTS)
    return file


@pytest.fixture(scope="module")
def written(database: As, facts: Path) -> As:
    """The same database with an index that the writer wrote."""
    ingest_tiny(database("refactx_writer"), facts, "first")
    return database


def command(*arguments: str) -> Any:
    """Run a command in this process."""
    from click.testing import CliRunner

    from refactx.cli.main import cli

    return CliRunner().invoke(cli, list(arguments))


def test_the_reader_reads_every_index_including_later_ones(written: As, facts: Path) -> None:
    ingest_tiny(written("refactx_writer"), facts, "later")
    reader = written("refactx_reader")
    for name in ("first", "later"):
        with refactx.open_index(name, reader) as index:
            grounded = refactx.ground(tiny_model(), tiny_tokenizer(), index)
            out = grounded.generate(**tiny_tokenizer()("Fact:", return_tensors="pt"), max_new_tokens=40)
            assert {fact.text for fact in grounded.facts(out)[0]} <= set(FACTS.splitlines())
            assert grounded.facts(out)[0]
            assert (index.has_hubs, index.hubs(["Ann"]), index.names_of(["Q1"])) == (True, {}, {})
            assert index.links(grounded.facts(out)[0][0]).subject.label in ("Ann", "Bo")
    for arguments in (["facts", "<", "--index", "first"], ["index", "show", "first"], ["index", "verify", "later"]):
        done = command(*arguments, "--db", reader)
        assert done.exit_code == 0, done.output
    listed = json.loads(command("index", "list", "--json", "--db", reader).stdout)
    assert [entry["name"] for entry in listed] == ["first", "later"]


def test_the_reader_cannot_write_which_is_an_error_before_a_source_is_read(written: As, tmp_path: Path) -> None:
    damaged = tmp_path / "facts.txt"
    damaged.write_text("nothing that could be ingested\n")
    with pytest.raises(DatabaseError, match=r"role refactx_reader may not write.*GRANT refactx_writer TO"):
        ingest_tiny(written("refactx_reader"), damaged, "own")
    with open_session(written("refactx_reader")) as connection:
        for write_something in (lambda: drop(connection, "first"), lambda: migrate(connection)):
            with pytest.raises(DatabaseError, match="role refactx_reader may not"):
                write_something()
    for arguments in (["ingest", "--append", damaged], ["forget", damaged], ["index", "compact", "first"]):
        name = [] if "compact" in arguments else ["--index", "first"]
        done = command(*map(str, arguments), *name, "--db", written("refactx_reader"))
        assert "role refactx_reader may not" in str(done.exception), done.output


@pytest.mark.parametrize(
    "change",
    [
        ["remember", "<Ann> <p> <c> .", "--also"],
        ["correct", "<Ann> <p> <b> .", "<Ann> <p> <c> ."],
        ["forget", "--fact", "<Ann> <p> <b> ."],
        ["rename", "Ann", "Annie"],
    ],
    ids=lambda change: change[0],
)
def test_the_reader_cannot_change_facts_which_stay(written: As, change: list[str]) -> None:
    reader = written("refactx_reader")
    done = command(*change, "--index", "first", "--db", reader)
    assert "role refactx_reader may not write" in str(done.exception), done.output
    with refactx.open_index("first", reader) as index:
        assert {fact.text for fact in index.all_facts()} == set(FACTS.splitlines())


def test_the_grant_in_the_error_for_a_role_without_rights_is_enough(written: As, facts: Path) -> None:
    with pytest.raises(DatabaseError, match="GRANT refactx_writer TO stranger") as caught:
        ingest_tiny(written("stranger"), facts, "strange")
    with psycopg.connect(written(""), autocommit=True) as connection:
        connection.execute("GRANT refactx_writer TO stranger")
        (ending,) = re.findall(r"\((\?options=\S+) at the end", str(caught.value))
        ingest_tiny(f"postgresql:///{ending}&{urlencode(conninfo_to_dict(written('stranger')))}", facts, "strange")
        connection.execute("REVOKE refactx_writer FROM stranger")
    with refactx.open_index("strange", written("refactx_reader")) as index:
        assert "<Bo> <p> <b> ." in index


def test_an_export_without_the_right_to_read_a_table_names_the_grant(written: As, tmp_path: Path) -> None:
    with psycopg.connect(written("refactx_writer"), autocommit=True) as connection:
        connection.execute("REVOKE SELECT ON refactx.pieces_1 FROM refactx_reader")
    done = command("index", "export", "first", str(tmp_path / "out"), "--db", written("refactx_reader"))
    with psycopg.connect(written("refactx_writer"), autocommit=True) as connection:
        connection.execute("GRANT SELECT ON refactx.pieces_1 TO refactx_reader")
    assert "GRANT SELECT ON ALL TABLES IN SCHEMA refactx" in str(done.exception)
    assert "ALTER DEFAULT PRIVILEGES" in str(done.exception)


def test_a_reader_without_rights_gets_the_grant_in_the_error(written: As) -> None:
    with pytest.raises(DatabaseError, match="GRANT USAGE ON SCHEMA refactx and GRANT SELECT ON ALL TABLES"):
        refactx.open_index("first", written("stranger"))


def test_a_member_of_the_writer_can_write(written: As, facts: Path) -> None:
    as_herself = written("ann")
    as_writer = make_conninfo(as_herself, options="-c role=refactx_writer")
    ingest_tiny(as_writer, facts, "anns")
    with refactx.open_index("anns", written("refactx_reader")) as index:
        assert "<Bo> <p> <b> ." in index
    with open_session(as_writer) as connection:
        drop(connection, "anns")


@pytest.mark.parametrize("role", ["ann", ""])
def test_a_role_that_is_not_the_owner_gets_the_owner_in_the_error(written: As, facts: Path, role: str) -> None:
    with pytest.raises(
        DatabaseError,
        match=r"belong to role refactx_writer.*\(\?options=-c%20role%3Drefactx_writer at the end of --db\)",
    ):
        ingest_tiny(written(role), facts, "first")
    with refactx.open_index("first", written("refactx_reader")) as index:
        assert "<Bo> <p> <b> ." in index
    ingest_tiny(make_conninfo(written(role), options="-c role=refactx_writer"), facts, f"by_{role}")
    with refactx.open_index(f"by_{role}", written("refactx_reader")) as index:
        assert "<Bo> <p> <b> ." in index


def test_a_role_without_membership_gets_the_owner_in_the_error(written: As, facts: Path) -> None:
    run(written(""), "GRANT USAGE, CREATE ON SCHEMA refactx TO stranger")
    with pytest.raises(DatabaseError, match=r"belongs to role refactx_writer.*run GRANT refactx_writer TO stranger"):
        ingest_tiny(written("stranger"), facts, "own")
    run(written(""), "REVOKE ALL ON SCHEMA refactx FROM stranger")


def test_each_missing_right_is_one_sentence_whose_grant_helps(
    database_server: DatabaseServer, facts: Path, db_url: str
) -> None:
    role = f"writer {uuid.uuid4().hex[:8]}"
    quoted = f'"{role}"'
    as_role = make_conninfo(db_url, user=role)
    run(db_url, f"CREATE ROLE {quoted} LOGIN")
    try:
        with pytest.raises(DatabaseError) as caught:
            ingest_tiny(as_role, facts, "default")
        grant = re.search(r'GRANT CREATE ON DATABASE \S+ TO "writer [0-9a-f]+"', str(caught.value))
        assert grant, caught.value
        run(db_url, grant[0])
        run(db_url, f"ALTER ROLE {quoted} SET default_transaction_read_only = on")
        with pytest.raises(DatabaseError, match="read-only transactions"):
            ingest_tiny(as_role, facts, "default")
        run(db_url, f"ALTER ROLE {quoted} SET default_transaction_read_only = off")
        run(db_url, f"ALTER ROLE {quoted} SET statement_timeout = 1")  # a millisecond, which does not apply to writers
        with open_session(as_role) as connection:
            assert connection.execute("SHOW statement_timeout").fetchone() == ("0",)
        ingest_tiny(as_role, facts, "default")
        run(db_url, "ALTER TABLE refactx.pieces_1 OWNER TO CURRENT_USER")
        with open_session(as_role) as connection, pytest.raises(DatabaseError, match=r"refactx\.pieces_1") as caught:
            drop(connection, "default")
        remedy = re.search(r'ALTER TABLE refactx\.pieces_1 OWNER TO "writer [0-9a-f]+"', str(caught.value))
        assert remedy, caught.value
        run(db_url, remedy[0])
        with open_session(as_role) as connection:
            drop(connection, "default")
    finally:
        run(db_url, f"DROP OWNED BY {quoted}; DROP ROLE {quoted}")
