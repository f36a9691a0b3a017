"""A database that interrupts a writer at its nth write, at the same moment in each run.

Writes to the catalogue, tables that are made, filled or dropped, and commits are counted.
"""

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

import psycopg

from support.crashes import wait_for

# In `public`: the schema `refactx` is the default one of a role of that name.
_SETUP = """
CREATE SEQUENCE public.writes;
CREATE TABLE public.break_at (write bigint, how text);
CREATE FUNCTION public.count_write() RETURNS void LANGUAGE plpgsql AS $$
DECLARE number bigint := nextval('public.writes'); asked text;
BEGIN
    SELECT how INTO asked FROM public.break_at WHERE write = number;
    IF asked = 'refused' THEN RAISE 'no more writes'; END IF;
    IF asked = 'lost' THEN PERFORM pg_terminate_backend(pg_backend_pid()), pg_sleep(60); END IF;
    IF asked = 'killed' THEN PERFORM pg_sleep(60); END IF;
END $$;
CREATE FUNCTION public.count_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM public.count_write(); RETURN NULL; END $$;
CREATE FUNCTION public.count_command() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM public.count_write(); END $$;
CREATE EVENT TRIGGER count_command ON ddl_command_start EXECUTE FUNCTION public.count_command();
"""
_TABLE = """
CREATE TRIGGER count_write BEFORE INSERT OR UPDATE OR DELETE ON refactx.{0}
    FOR EACH STATEMENT EXECUTE FUNCTION public.count_row();
CREATE CONSTRAINT TRIGGER count_commit AFTER INSERT OR UPDATE OR DELETE ON refactx.{0}
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.count_row();
"""
_WAITING = "pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
_TABLES = ("indexes", "segments", "name_tables", "knowledge_bases")

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["pytest", "support.ingest.living_steps"])  # seconds of imports


class Break(NamedTuple):
    """Which write fails, and how: PostgreSQL refuses it, the connection is lost, or the process is killed."""

    write: int
    how: Literal["refused", "lost", "killed"]


def prepare(url: str) -> None:
    """Count the writes in a database with a catalogue from now on."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statements in (_SETUP, *map(_TABLE.format, _TABLES)):
            connection.execute(statements.encode())


def killed_at_the_break(url: str, action: Callable[..., object], *arguments: object) -> bool:
    """Call `action` in a new process, and kill that at the write that is to fail. Return False if it ended before."""
    process = PROCESSES.Process(target=action, args=arguments)
    process.start()
    with psycopg.connect(url, autocommit=True) as connection:

        def waits() -> bool:
            return connection.execute(f"SELECT {_WAITING}".encode()).fetchone() is not None

        wait_for(lambda: waits() or not process.is_alive(), seconds=300)  # the first one imports much
        is_killed = waits()
        process.kill()
        process.join()
        # (PostgreSQL itself would notice only when it next sends something to the process.)
        connection.execute(f"SELECT pg_terminate_backend(pid), {_WAITING}".encode())
    assert is_killed or process.exitcode == 0
    return is_killed


@contextmanager
def breaking(url: str, at: Break | None) -> Iterator[None]:
    """Let a write fail during the block. Afterwards all writes succeed, and the interrupted session has ended."""
    with psycopg.connect(url, autocommit=True) as connection:
        if at is not None:
            connection.execute("INSERT INTO public.break_at VALUES (%s, %s)", at)
        connection.execute("SELECT setval('public.writes', 1, false)")
        try:
            yield
        finally:
            connection.execute("DELETE FROM public.break_at")
            wait_for(lambda: not locks(connection))


def locks(connection: "psycopg.Connection[tuple[int]]") -> int:
    """The number of names and knowledge bases in this database that writers have locked."""
    row = connection.execute(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    ).fetchone()
    assert row is not None
    return row[0]
