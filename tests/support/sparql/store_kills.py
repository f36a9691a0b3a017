"""Processes that kill themselves (SIGKILL) at a line of the code that writes stores, at the same one in each run."""

import os
import signal
import sys
from types import FrameType
from typing import Any

import refactx.sparql.store
from refactx.index.open import open_index
from refactx.sparql.store import building, folder
from refactx.sparql.store import building as updating
from support.broken_writes import PROCESSES

WRITERS = frozenset(module.__file__ for module in (building, folder, updating))


def is_killed_at(line: int, action: str, name: str, url: str) -> bool:
    """Call `build_store` or `update_store` (`action`) in a process that is killed before the nth line of its code,
    counted in the order in which they run first. Return False if it has fewer lines, and ended."""
    process = PROCESSES.Process(target=_write, args=(line, action, name, url))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def _write(line: int, action: str, name: str, url: str) -> None:
    seen = set[tuple[str, int]]()

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename not in WRITERS:
            return None
        if event == "line":
            seen.add((frame.f_code.co_filename, frame.f_lineno))
            if len(seen) == line:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    with open_index(name, url) as index:
        sys.settrace(trace)
        getattr(refactx.sparql.store, action)(index)
        sys.settrace(None)
