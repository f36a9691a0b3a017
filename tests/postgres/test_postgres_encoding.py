"""An index works in a database of any encoding, including SQL_ASCII, PostgreSQL's default in the locale C."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from support.ingest.living_index import LivingIndex
from support.servers import DatabaseServer

FACTS = ["Åsa född Malmö", "Ōe geboren Uchiko"]


@pytest.fixture
def url(database_server: DatabaseServer) -> Iterator[str]:
    """The address of a database of encoding SQL_ASCII."""
    name, server = f"refactx_ascii_{uuid.uuid4().hex}", database_server
    parts = {"host": server.host, "port": server.port, "password": server.password, "user": server.user}
    admin = make_conninfo(**parts, dbname=server.maintenance_dbname)
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'".encode()
        )
        yield make_conninfo(admin, dbname=name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def test_a_database_of_encoding_sql_ascii_stores_an_index_and_its_changes(url: str, tmp_path: Path) -> None:
    living = LivingIndex(url, tmp_path, "Wörter")
    living.ingest(FACTS[0])
    living.append(FACTS[1])
    living.compact()
    with living.open() as index:
        assert all(" ".join(f"<{part}>" for part in fact.split()) in index for fact in FACTS)
        assert index.name == "Wörter"
