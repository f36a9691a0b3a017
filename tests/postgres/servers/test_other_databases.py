"""Databases that speak PostgreSQL's protocol, and cannot hold an index, are refused with the reason."""

import pytest
from support.complaints import complains
from support.postgres.front import other_database

from refactx.errors import DatabaseError
from refactx.postgres.connections import open_session
from refactx.postgres.database import Database

DATABASES = [
    ({"server_version": "13.0.0", "crdb_version": "CockroachDB CCL v24.1.0"}, "CockroachDB, whose advisory locks"),
    ({"server_version": "15.2-YB-2.25.1.0-b0"}, "YugabyteDB, which does not take COPY with FREEZE"),
]


@pytest.mark.parametrize(("status", "reason"), DATABASES, ids=["CockroachDB", "YugabyteDB"])
def test_another_database_is_refused_with_the_reason(status: dict[str, str], reason: str) -> None:
    with other_database(**status) as url:
        for connect in (Database, open_session):
            with pytest.raises(DatabaseError, match=reason):
                connect(url)
        assert reason in complains(url, "index", "list")
