"""Queries of `refactx sparql` that are typed on a terminal: over several lines, with Tab completing names."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.ingest.living_index import LivingIndex

REFACTX = str(Path(sys.executable).with_name("refactx"))
CTRL_C = "\x03"
Type = Callable[[str, str], str]
"""Types a text, waits until a pattern is on the screen, and returns what came up to there."""


@pytest.fixture
def terminal(stored: LivingIndex) -> Iterator[Type]:
    outer, inner = pty.openpty()
    command = [REFACTX, "sparql", "--db", stored.url, "--index", stored.name]
    with subprocess.Popen(
        command, stdin=inner, stdout=inner, stderr=inner, env={**os.environ, "TERM": "xterm"}, start_new_session=True
    ) as running:
        os.close(inner)
        seen = ""

        def type_(text: str, pattern: str) -> str:
            nonlocal seen
            if text != CTRL_C:
                os.write(outer, text.encode())
            end, again = time.monotonic() + 60, 0.0
            while (found := re.search(pattern, seen, re.DOTALL)) is None:
                assert time.monotonic() < end, seen[-2000:]
                if text == CTRL_C and time.monotonic() > again:
                    # The terminal is not the one that controls the process; and a signal between readline's prompt and
                    # its wait for a key is heard with the next key alone.
                    running.send_signal(signal.SIGINT)
                    again = time.monotonic() + 5
                if select.select([outer], [], [], 0.05)[0]:
                    with suppress(OSError):  # the other side has closed it
                        seen += os.read(outer, 65536).decode("utf-8", "replace")
            shown, seen = seen[: found.end()], seen[found.end() :]
            return shown

        try:
            yield type_
            os.write(outer, b"\x04")
            assert running.wait(30) == 0
        finally:
            running.kill()
            os.close(outer)


@pytest.mark.long
def test_queries_are_typed(terminal: Type) -> None:
    assert "Tab completes names" in terminal("", "sparql> ")
    terminal("SELECT ?x {\n", r"\.\.\.> ")
    terminal("<Ann (a p\t", r"<Ann \(a poet\)>")
    terminal(" <ch\t", "<child>")
    terminal(" ?x .\n", r"\.\.\.> ")
    terminal("?x <d\t", "<day>")
    shown = terminal(" ?d }\n", "sparql> $")
    assert "Eve" in shown
    assert "Q4" in shown
    assert "\x1b]8;" in shown  # a link to its page
    assert "https://www.wikidata.org/wiki/Q4" in shown

    assert "did you mean <spouse>" in terminal("ASK { <Bob> <spuose> ?x }\n", "sparql> $")
    assert "the bracket { is not closed" in terminal("ASK { <Bob> <spouse> ?x\n\n", "sparql> $")
    terminal("ASK {\n", r"\.\.\.> ")
    terminal(CTRL_C, "sparql> $")  # begins the query again
    assert "yes" in terminal("ASK { <Bob> <spouse> ?x }\n", "sparql> $")
