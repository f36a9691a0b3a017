"""Queries that are typed on a terminal: Tab completes names, mistakes are reported and do not end it."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from support.query.memory_index import RowsIndex

from refactx.cli.typing import Completer, ReadlineCompletion
from refactx.errors import DatabaseError

REFACTX = str(Path(sys.executable).with_name("refactx"))
GRAPH = frozenset(
    [
        *(("Lou (state)", "p", f"Ann ({letter})") for letter in "xyz"),
        ("Lou (state)", "t", "1812"),
        ("Lob", "n", "1"),
        ("Loon (alias)", "alias of", "Lou (state)"),
        ("Ann (x)", "q", "Bo"),
        ("Ann (x)", "p of", "Lou (state)"),
        ("Ann (y)", "q", "Bob"),
        ("Ann (y)", "n", "7"),
    ]
)


@pytest.fixture(scope="module")
def completer() -> Completer:
    index: object = RowsIndex([(1, GRAPH)])
    return Completer(index)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("typed", "completions"),
    [
        ("", ["list <", "count <", "ask <", "most <", "least <", "sum <", "average <", "difference <"]),
        ("co", ["count <"]),
        ("how many", []),
        ("count <Lou", ["Lou (state)>"]),
        ("most 3 <Lo", ["Lou (state)>", "Lob>", "Loon>"]),  # those with most facts first, an alias as a name
        ("count <Lou (state)> <", ["p>", "t>"]),
        ("count <Lou> <", ["p>", "t>"]),  # a label stands for the entity that it means
        ("list <Lou> <p> <", ["q>", "p of>", "n>"]),
        ("list <Lou> <p> which <", ["q>", "p of>", "n>"]),
        ("list <Lou> <p> which <q> <", ["Bo>", "Bob>"]),
        ("list <Lou> <p> which <n> over <", ["7>"]),
        ("list <Lou> <p> which is <", ["Ann (x)>", "Ann (y)>", "Ann (z)>"]),
        ("list <Lou> <p> which <q> <Bo> and <n", ["n>"]),
        ("most <Lou> <p> by count <", ["q>", "p of>", "n>"]),
        ("ask <Lou> <p> <Ann (", ["Ann (x)>", "Ann (y)>", "Ann (z)>"]),
        ("list <Lou> <p>", []),
        ("list <Nobody> <", []),
    ],
)
def test_what_may_follow(completer: Completer, typed: str, completions: list[str]) -> None:
    assert sorted(completer.completions(typed)) == sorted(completions)


def test_readline_asks_for_one_completion_after_the_other(completer: Completer) -> None:
    found = ReadlineCompletion(completer.completions, lambda: "count <Lou> <")
    assert [found.complete("", state) for state in range(3)] == ["p>", "t>", None]

    def fails(typed: str) -> list[str]:
        raise DatabaseError("gone")

    assert ReadlineCompletion(fails, lambda: "count <Lou> <").complete("", 0) is None


def test_a_query_is_typed_with_tab(sample_url: str) -> None:
    outer, inner = pty.openpty()
    with subprocess.Popen(
        [REFACTX, "query", "--db", sample_url],
        stdin=inner,
        stdout=inner,
        stderr=inner,
        env={**os.environ, "TERM": "xterm"},
        start_new_session=True,
    ) as running:
        os.close(inner)
        seen = ""

        def wait_for(pattern: str) -> str:
            nonlocal seen
            end = time.monotonic() + 60
            while (found := re.search(pattern, seen)) is None:
                assert time.monotonic() < end, seen[-2000:]
                if select.select([outer], [], [], 0.05)[0]:
                    with suppress(OSError):  # the other side has closed it
                        seen += os.read(outer, 65536).decode("utf-8", "replace")
            shown, seen = seen[: found.end()], seen[found.end() :]
            return shown

        try:
            assert "Tab completes names" in wait_for("query> ")
            os.write(outer, b"count <Alaska (\t <language us\t\n")
            shown = wait_for("(?s)query> $")
            assert "Query: count <Alaska (state of the United States of America)> <language used>" in shown
            assert "Answer: 19" in shown
            assert "language used" in shown
            os.write(outer, b"count <Alaska> <kapital>\n")
            assert "did you mean <capital>" in wait_for("(?s)query> $")
            os.write(outer, b"\x04")
            assert running.wait(30) == 0
        finally:
            running.kill()
            os.close(outer)
