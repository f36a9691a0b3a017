"""`refactx memory` as typed: build, show, find and drop; a killed build continues; bad input is one line."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from psycopg.conninfo import make_conninfo
from support.command import complains, run_refactx
from support.crashes import kill, start, wait_for
from support.ingest.graph_twin import Line
from support.memory.graph import CLAIMS, NAMED, ingest_named, lines_of, source

from refactx.cli.main import cli
from refactx.errors import RefactxError

LETTERS, WIDE, OTHERS = (f"support.memory.letters:{name}" for name in ("letters", "wide", "others"))


@pytest.fixture(autouse=True)
def own_encoders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands in processes of their own import the encoders of the tests."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)


@pytest.fixture(scope="module")
def url(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("memory")
    ingest_named(module_url, folder)
    ingest_named(module_url, folder, "bare")
    yield module_url


def memory(url: str, *arguments: object) -> Any:
    """Run a subcommand in this process and return its JSON."""
    given = ["memory", *map(str, arguments), "--db", url, "--json"]
    done = CliRunner().invoke(cli, given, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.long
def test_a_memory_is_built_shown_and_dropped(url: str) -> None:
    built = run_refactx("memory", "build", "--encoder", LETTERS, "--db", url)
    assert built.returncode == 0, built.stderr
    assert built.stdout.startswith(
        f"memory of default: 12 texts by {LETTERS} (12 encoded), entries 18 added, 0 removed"
    )
    again = memory(url, "build", "--encoder", LETTERS)
    assert (again["encoded"], again["added"], again["removed"]) == (0, 0, 0)
    (shown,) = memory(url, "show")
    assert (shown["encoder"], shown["width"], shown["texts"]) == (LETTERS, 32, 12)
    assert (shown["complete"], shown["behind"], shown["without_embedding"]) == (True, 0, 0)
    assert run_refactx("memory", "show", "--db", url).stdout.count("\n") == len(shown)
    memory(url, "build", "--encoder", WIDE)
    assert [one["width"] for one in memory(url, "show")] == [32, 48]
    assert memory(url, "drop", "--encoder", WIDE) == [{"index": "default", "encoder": WIDE}]
    dropped = run_refactx("memory", "drop", "--db", url)
    assert dropped.stdout == f"dropped the memory of default by {LETTERS}\n"
    assert memory(url, "show") == []


def test_names_are_found_with_a_memory_and_without(url: str) -> None:
    by_letters = memory(url, "find", "Lousiana", "--index", "bare")
    assert {one["id"] for one in by_letters} == {"Q1", "Q2"}
    assert {one["how"] for one in by_letters} == {"nearest"}
    memory(url, "build", "--encoder", LETTERS)
    (found,) = memory(url, "find", "Louisiana", "--description", "colony of France")
    assert (found["id"], found["how"], found["similarity"]) == ("Q2", "name", 1.0)
    assert [one["id"] for one in memory(url, "find", "spous", "--description", "wife", "--relation", "--limit", 1)] == [
        "P3"
    ]
    assert [one["alias"] for one in memory(url, "find", "City of Light")] == [True]
    line = run_refactx("memory", "find", "Texas", "--db", url).stdout.splitlines()[-1].split()
    assert line[:3] == ["Q3", "1.00", "label"]


@pytest.mark.long
def test_show_says_that_a_memory_is_behind(db_url: str, tmp_path: Path) -> None:
    living = ingest_named(db_url, tmp_path, lines=[*lines_of(["Q1", "P1"]), CLAIMS[0]])
    memory(db_url, "build", "--encoder", LETTERS)
    living.append_from(source(tmp_path, "more.nt", [*lines_of(["Q3", "P1"]), CLAIMS[1]]))
    note = f"the memory of index 'default' is one change of the index behind: run `refactx memory build --index default " \
        f"--encoder {LETTERS}`"  # fmt: skip
    done = run_refactx("memory", "show", "--db", db_url)
    assert done.stderr.strip() == note
    assert memory(db_url, "build", "--encoder", LETTERS)["added"] > 0
    assert run_refactx("memory", "show", "--db", db_url).stderr == ""


def people(count: int) -> list[Line]:
    """People, each with a label, a description that tells namesakes apart, an alias and a class."""
    classes = ("poet", "painter", "sailor")
    found: list[Line] = [("label", "P31", "instance of", "en"), ("label", "P4", "country", "en")]
    found += [("label", f"Q{900 + at}", name, "en") for at, name in enumerate(classes)]
    for at in range(count):
        id_ = f"Q{1000 + at}"
        name = (
            f"{'ABCDEFGHIJKLM'[at % 13]}{'aeiou'[at // 13 % 5]}{'lmnrst'[at // 65 % 6]} {chr(97 + at % 26)}ov{at // 2}"
        )
        found += [("label", id_, name if at % 2 else f"Jo {at // 4}", "en"), ("alias", id_, f"{name}ski", "en")]
        found += [
            ("description", id_, f"{classes[at % 3]} of town {at}", "en"),
            ("claim", id_, "P31", f"Q{900 + at % 3}"),
        ]
    return found


@pytest.mark.long
def test_a_killed_build_continues(db_url: str, tmp_path: Path) -> None:
    count = 1300
    ingest_named(db_url, tmp_path, lines=people(count))
    process = start("memory", "build", "--encoder", LETTERS, "--db", db_url, env={**os.environ, "LETTERS_PAUSE": "0.5"})

    def stored() -> int:
        with psycopg.connect(db_url) as connection:
            row = connection.execute("SELECT to_regclass('refactx.memory_1')").fetchone()
            if row is None or row[0] is None:
                return 0
            (embedded,) = connection.execute("SELECT count(embedding) FROM refactx.memory_1").fetchone() or (0,)
            return int(embedded)

    wait_for(lambda: stored() > 0)
    kill(process)
    (shown,) = memory(db_url, "show")
    left = shown["without_embedding"]
    assert not shown["complete"]
    assert 0 < left < shown["texts"]
    assert "is not complete: its build is running or was killed" in complains("memory", "find", "x", "--db", db_url)
    done = memory(db_url, "build", "--encoder", LETTERS)
    assert done["encoded"] == left  # what was stored is not encoded again
    assert (done["added"], done["removed"]) == (0, 0)
    (shown,) = memory(db_url, "show")
    assert (shown["complete"], shown["without_embedding"]) == (True, 0)
    (near,) = memory(db_url, "find", "Jo 6", "--description", "poet of town 24")
    assert near["id"] == "Q1024"


def mistake(url: str, *arguments: str) -> str:
    """Return the error of a command that fails in this process."""
    done = CliRunner().invoke(cli, ["memory", *arguments, "--db", url])
    assert isinstance(done.exception, RefactxError | SystemExit), done.exception
    assert done.stdout == ""
    return str(done.exception) if isinstance(done.exception, RefactxError) else done.stderr


@pytest.mark.long
def test_mistakes_say_what_to_do(url: str) -> None:
    memory(url, "build", "--encoder", LETTERS)
    for arguments, said in (
        (("find", "x", "--encoder", WIDE), f"built with encoder {LETTERS} (32 numbers"),
        (("find", "x", "--encoder", OTHERS), f"give --encoder {LETTERS}, or run `refactx memory build"),
        (("build", "--encoder", "no.such:thing"), "there is no encoder no.such:thing"),
        (
            ("build", "--encoder", "support.memory.graph:NAMED"),
            "is a dict: expected a function that returns an encoder",
        ),
        (
            ("build", "--encoder", "collections:Counter"),
            "is not an encoder: it has no name, width, fingerprint, encode",
        ),
        (("build", "--index", "nowhere", "--encoder", LETTERS), "there is no index 'nowhere'"),
        (("show", "--index", "nowhere"), "there is no index 'nowhere'"),
        (("drop", "--encoder", "minilm"), f"has no memory of encoder minilm (there are those of {LETTERS})"),
    ):
        assert said in mistake(url, *arguments), arguments
    assert "built with encoder" in complains("memory", "find", "x", "--encoder", WIDE, "--db", url)


def test_an_encoder_that_was_never_built_names_the_command(db_url: str, tmp_path: Path) -> None:
    ingest_named(db_url, tmp_path)
    said = mistake(db_url, "find", "x", "--encoder", LETTERS)
    assert said.endswith(
        f"index 'default' has no memory: run `refactx memory build --index default --encoder {LETTERS}`"
    )


def test_a_missing_extra_is_named(db_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest_named(db_url, tmp_path)
    monkeypatch.setattr("refactx.lazy.find_spec", lambda name: None)
    for command, extra in ((["build"], "memory"), (["find", "x"], "sparql")):
        with pytest.raises(RefactxError, match=rf"pip install 'refactx\[{extra}\]'"):
            CliRunner().invoke(cli, ["memory", *command, "--db", db_url], catch_exceptions=False)


def test_a_database_without_pgvector_says_so(db_url: str, tmp_path: Path) -> None:
    ingest_named(db_url, tmp_path)
    memory(db_url, "build", "--encoder", LETTERS)
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute("DROP EXTENSION vector CASCADE")
    assert "has no extension vector (pgvector), which a memory needs" in complains(
        "memory", "find", "x", "--db", db_url
    )


def test_a_role_that_may_not_create_pgvector_is_told(db_url: str, tmp_path: Path) -> None:
    with psycopg.connect(db_url, autocommit=True) as admin:
        database, role = admin.info.dbname, f"plain_{admin.info.dbname}"
        admin.execute(f"CREATE ROLE {role} LOGIN; GRANT CREATE ON DATABASE {database} TO {role}".encode())
        try:
            plain = make_conninfo(db_url, user=role)
            ingest_named(plain, tmp_path)
            said = complains("memory", "build", "--encoder", LETTERS, "--db", plain)
            assert f"have a superuser run CREATE EXTENSION vector in database {database}" in said
            admin.execute("CREATE EXTENSION vector SCHEMA public")
            assert memory(plain, "build", "--encoder", LETTERS)["texts"] == len(NAMED)
        finally:
            admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def test_a_database_of_before_memories_gets_their_tables(db_url: str, tmp_path: Path) -> None:
    ingest_named(db_url, tmp_path)
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute("DROP TABLE refactx.memories")
    assert memory(db_url, "show") == []
    assert [one["how"] for one in memory(db_url, "find", "Texas")] == ["label"]
    assert memory(db_url, "build", "--encoder", LETTERS)["texts"] == len(NAMED)
    assert memory(db_url, "show")[0]["complete"]
