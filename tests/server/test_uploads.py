"""Files that people send: each becomes an index that the server answers from, or an error and nothing."""

import gzip
import io
import json
import os
import signal
import sqlite3
import tempfile
import threading
import zipfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.files.workbooks import write_xlsx
from support.server.running import Running, eventually, said
from support.server.taking_files import MOST, opener_of, taking_files

from refactx.cli.serve import ServiceOpener
from refactx.postgres.catalogue import list_indexes
from refactx.postgres.database import Database
from refactx.postgres.writing import drop

TABLE = b"name,kind,age\nAnn,dog,3\nBo,cat,4\n"
ENTITIES = b"".join(b'<!ENTITY a%d "%s">' % (n + 1, b"&a%d;" % n * 20) for n in range(9)).replace(b"&a0;", b"text")
"""Each is twenty times the one before."""
TYPE = {"Content-Type": "application/octet-stream"}


@pytest.fixture(scope="module")
def opener(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceOpener]:
    with opener_of(module_url, tmp_path_factory.mktemp("facts")) as made:
        yield made


@pytest.fixture
def server(opener: ServiceOpener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A server whose temporary files are in `tmp_path`."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with taking_files(opener) as started:
        yield started


@pytest.fixture
def name(opener: ServiceOpener) -> Iterator[str]:
    """The name of an index that is dropped afterwards."""
    yield "pets"
    database = Database(str(opener.db))
    if "pets" in names_of(opener):
        with database.connection() as connection:
            drop(connection, "pets")
    database.close()


def names_of(opener: ServiceOpener) -> set[str]:
    database = Database(str(opener.db))
    with database.connection() as connection:
        found = {entry.name for entry in list_indexes(connection)}
    database.close()
    return found


def send(server: Running, body: bytes, **given: str) -> httpx2.Response:
    return httpx2.post(f"{server.url}/v1/indexes", params=given, content=body, headers=TYPE, timeout=60)


def documents(reply: httpx2.Response) -> list[dict[str, Any]]:
    events = [line.removeprefix("data: ") for line in reply.text.splitlines() if line.startswith("data: ")]
    return [json.loads(event) for event in events if event != "[DONE]"]


def test_a_table_becomes_an_index_that_answers(
    server: Running, opener: ServiceOpener, name: str, tmp_path: Path
) -> None:
    reply = send(server, TABLE, name=name, file="../pets of us.csv", subject="name")
    first, *_, last = documents(reply)
    assert first == {"stage": "reading", "file": "pets_of_us.csv"}
    assert last == {"stage": "ready", "index": name, "facts": 8, "model": "tiny@pets"}  # of 4 cells and 2 rows
    assert reply.text.endswith("data: [DONE]\n\n")
    assert list(tmp_path.iterdir()) == []
    assert "tiny@pets" in {one["id"] for one in server.get("/v1/models").json()["data"]}
    found = server.get(f"/v1/facts?index={name}&subject=Ann").json()["properties"]
    assert {one["label"] for one in found} == {"kind", "age", "row of"}
    query = {"query": "SELECT * { ?x <age> ?a }"}  # for which an index needs a store
    assert len(server.post(f"/v1/sparql?index={name}", query).json()["results"]["bindings"]) == 2
    asked: dict[str, Any] = {"model": "tiny@pets", "messages": said("hello Fact:"), "max_tokens": 40}
    message: Any = server.openai().chat.completions.create(**asked).choices[0].message
    assert {fact["subject"]["label"] for fact in message.refactx["facts"]} <= {"Ann", "Bo"}
    assert server.get("/v1/facts?prefix=<").json()["index"] == "first"
    assert server.get("/ready").status_code == 200
    again = send(server, TABLE, name=name, file="pets.csv", subject="name")
    assert (again.status_code, "index 'pets' exists" in again.json()["error"]["message"]) == (409, True)


@pytest.mark.parametrize(
    ("body", "given", "says"),
    [
        (TABLE, {"file": "pets.csv"}, "has no column subject"),
        (TABLE, {"file": "pets.csv", "subject": "nam"}, "has no column nam"),
        (b"<a> <b>", {"file": "pets.ttl"}, "pets.ttl"),
        (b"\x00\x01\x02", {"file": "pets.csv"}, "pets.csv"),
        (b"", {"file": "pets.csv", "subject": "name"}, "pets.csv"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_and_leaves_nothing(
    server: Running, opener: ServiceOpener, tmp_path: Path, body: bytes, given: dict[str, str], says: str
) -> None:
    error = documents(send(server, body, name="pets", **given))[-1]["error"]
    assert says in error["message"]
    assert str(tmp_path) not in error["message"]
    assert list(tmp_path.iterdir()) == []
    assert "pets" not in names_of(opener)
    assert len(server.get("/v1/models").json()["data"]) == 3


@pytest.mark.parametrize(
    ("status", "body", "headers", "name"),
    [
        (400, TABLE, TYPE, "a@b"),
        (400, TABLE, TYPE, " a"),
        (400, TABLE, TYPE, ""),
        (415, TABLE, {"Content-Type": "text/plain"}, "pets"),
        (413, b" " * (MOST + 1), TYPE, "pets"),
        (415, gzip.compress(TABLE, mtime=0), TYPE, "pets"),
        (409, TABLE, TYPE, "first"),
    ],
)
def test_requests_that_make_no_index_are_refused(
    server: Running, tmp_path: Path, status: int, body: bytes, headers: dict[str, str], name: str
) -> None:
    reply = httpx2.post(f"{server.url}/v1/indexes", params={"name": name}, content=body, headers=headers, timeout=60)
    assert (reply.status_code, list(tmp_path.iterdir())) == (status, []), reply.text


def test_a_server_without_a_limit_takes_no_files(tiny: Running) -> None:
    assert "makes no indexes of files" in send(tiny, TABLE, name="pets").json()["error"]["message"]
    assert "max_upload" not in tiny.get("/health").json()


@pytest.mark.long
def test_models_share_what_asks_the_database_about_an_index(opener: ServiceOpener, name: str) -> None:
    def threads() -> Counter[str]:
        return Counter(thread.name for thread in threading.enumerate())

    with taking_files(opener, models=("tiny", "other")) as server:
        before = threads()
        assert documents(send(server, TABLE, name=name, file="pets.csv", subject="name"))[-1]["stage"] == "ready"
        made = threads() - before
        assert (made["refactx-database"], made["refactx-following"]) == (1, 1)
        assert {"tiny@pets", "other@pets"} < {one["id"] for one in server.get("/v1/models").json()["data"]}
    assert not {"refactx-database", "refactx-following"} & set(threads())


@pytest.mark.long
def test_files_are_taken_one_by_one_and_an_index_is_made_if_its_client_has_gone(
    opener: ServiceOpener, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, goes = tmp_path / "files", tmp_path / "goes"
    files.mkdir()
    os.mkfifo(goes)
    monkeypatch.setattr(tempfile, "tempdir", str(files))
    with taking_files(opener, waits_for=goes) as server:
        given = {"name": name, "file": "pets.csv", "subject": "name"}
        sent = httpx2.stream("POST", f"{server.url}/v1/indexes", params=given, content=TABLE, headers=TYPE, timeout=60)
        with sent as reply:
            assert json.loads(next(reply.iter_lines()).removeprefix("data: "))["stage"] == "reading"
            other = send(server, TABLE, name="others")
            assert (other.status_code, other.headers["Retry-After"]) == (429, "10")
        goes.write_bytes(b"now")
        assert eventually(lambda: server.get(f"/v1/facts?index={name}&prefix=<").status_code == 200)
        assert eventually(lambda: list(files.iterdir()) == [])


def test_the_stream_says_how_far_the_file_is(server: Running, name: str) -> None:
    first, *states, last = documents(send(server, TABLE, name=name, file="pets.csv", subject="name"))
    assert (first["stage"], last["stage"]) == ("reading", "ready")
    assert {"encode", "load"} & {state["stage"] for state in states}
    assert all(state["fraction"] is None or 0 <= state["fraction"] <= 1 for state in states)


@pytest.mark.long
def test_a_client_that_sends_slowly_does_not_hold_the_place(server: Running, name: str, tmp_path: Path) -> None:
    goes = threading.Event()

    def slowly() -> Iterator[bytes]:
        yield TABLE[:10]
        assert goes.wait(60)
        yield TABLE[10:]

    with ThreadPoolExecutor(1) as pool:
        given = {"name": "slow", "file": "pets.csv", "subject": "nam"}
        slow = pool.submit(
            httpx2.post, f"{server.url}/v1/indexes", params=given, content=slowly(), headers=TYPE, timeout=60
        )
        assert eventually(lambda: len(list(tmp_path.iterdir())) == 1)
        assert documents(send(server, TABLE, name=name, file="pets.csv", subject="name"))[-1]["stage"] == "ready"
        goes.set()
        assert "has no column nam" in documents(slow.result())[-1]["error"]["message"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("file", "body", "says"),
    [
        ("a.rdf", b"<!DOCTYPE r [" + ENTITIES + b"]><rdf:RDF/>", "the entity 'a3' stands for"),
        ("a.jsonld", b'{"@context":{},"p":' * 90 + b"1" + b"}" * 90, "has no triples"),
        ("a.jsonld", b'{"p":' * 300 + b"1" + b"}" * 90, "this is not JSON-LD"),
        ("a.jsonl", b'{"a":' + b"[" * 600, "more than 500"),
        ("a.ttl", b"<x:s> <x:p> " + b"(" * 600, "more than 500"),
    ],
)
def test_a_file_that_would_end_a_parser_is_told(
    server: Running, tmp_path: Path, file: str, body: bytes, says: str
) -> None:
    error = documents(send(server, body, name="pets", file=file))[-1]["error"]
    assert says in error["message"]
    assert list(tmp_path.iterdir()) == []
    assert server.get("/ready").status_code == 200


@pytest.mark.parametrize(
    ("limits", "says"), [({"memory": 1 << 26}, "64 MB of memory"), ({"seconds": 0.01}, "more than 0 s")]
)
def test_a_file_that_takes_too_much_is_told_and_the_server_lives(
    opener: ServiceOpener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: dict[str, Any], says: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with taking_files(opener, **limits) as server:
        error = documents(send(server, TABLE, name="pets", file="pets.csv", subject="name"))[-1]["error"]
        assert says in error["message"]
        assert "pets" not in names_of(opener)
        assert list(tmp_path.iterdir()) == []
        assert server.get("/ready").status_code == 200


def test_a_server_that_stops_ends_what_it_reads_and_removes_the_file(
    opener: ServiceOpener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, never = tmp_path / "files", tmp_path / "never"
    files.mkdir()
    os.mkfifo(never)
    monkeypatch.setattr(tempfile, "tempdir", str(files))
    with ThreadPoolExecutor(1) as pool, taking_files(opener, waits_for=never) as server:
        sent = pool.submit(send, server, TABLE, name="pets", file="pets.csv", subject="name")
        assert eventually(lambda: len(list(files.glob("*/sent/*"))) == 1)
        server.server.handle_exit(signal.SIGTERM, None)
        assert "about to stop" in documents(sent.result())[-1]["error"]["message"]
    assert list(files.iterdir()) == []


@pytest.mark.parametrize("kind", ["sqlite", "workbook"])
def test_a_database_and_a_workbook_become_indexes(server: Running, name: str, tmp_path: Path, kind: str) -> None:
    if kind == "sqlite":
        with sqlite3.connect(tmp_path / "sent") as lite:
            lite.executescript(
                "PRAGMA page_size = 512; CREATE TABLE owner (id INTEGER PRIMARY KEY, name TEXT);"
                "CREATE TABLE pet (id INTEGER PRIMARY KEY, name TEXT, owner_id INTEGER REFERENCES owner);"
                "INSERT INTO owner VALUES (1, 'Ann'); INSERT INTO pet VALUES (1, 'Rex', 1);"
            )
        lite.close()
    else:
        sheets = {"owner": [("id", "name"), (1, "Ann")], "pet": [("id", "name", "owner_id"), (1, "Rex", 1)]}
        write_xlsx(tmp_path / "sent", sheets)
    body = (tmp_path / "sent").read_bytes()
    (tmp_path / "sent").unlink()
    assert documents(send(server, body, name=name, file="pets.bin"))[-1]["stage"] == "ready"
    found = server.get(f"/v1/facts?index={name}&subject=Rex").json()["properties"]
    assert {one["label"] for one in found} == {"owner", "row of"}
    assert list(tmp_path.iterdir()) == []


def test_an_archive_of_zip_that_is_no_workbook_is_refused(server: Running, name: str) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("a.csv", TABLE)
    reply = send(server, packed.getvalue(), name=name, file="a.zip")
    assert (reply.status_code, "a zip archive, and no workbook" in reply.text) == (415, True)
