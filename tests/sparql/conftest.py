"""A small index for tests of queries, with and without a store."""

import os
from collections.abc import Iterator

import pytest
from support.ingest.living_index import LivingIndex
from support.servers import DatabaseServer, database
from support.sparql.small_graph import FIXED, ingest_graph

from refactx.sparql.store import build_store


@pytest.fixture(scope="session")
def people(database_server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivingIndex]:
    """The index `people` of the claims `FIXED`, without a store. Tests do not change it."""
    with database(database_server, f"refactx_people_{os.getpid()}") as url:
        yield ingest_graph(url, tmp_path_factory.mktemp("people"), FIXED, "people")


@pytest.fixture(scope="session")
def stored(people: LivingIndex) -> LivingIndex:
    """The index `stored` of the same claims, with a store. Tests do not change them."""
    living = ingest_graph(people.url, people.folder, FIXED, "stored")
    with living.open() as index:
        build_store(index)
    return living
