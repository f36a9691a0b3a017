"""How far a long task is: a bar on a terminal, and in a pipe a line now and then."""

import sys
from typing import Any

from tqdm import tqdm

LINE_SECONDS = 30.0
"""After which a pipe gets another line."""
_LINE = "{desc}: {n_fmt} of {total_fmt}, {rate_fmt}, {remaining} left"
_LINE_WITHOUT_TOTAL = "{desc}: {n_fmt}, {rate_fmt}, after {elapsed}"


class _Lines:
    """Standard error, on which each state of a bar is a line of its own."""

    def write(self, text: str) -> None:
        if state := text.strip():
            sys.stderr.write(f"refactx: {state}\n")

    def flush(self) -> None:
        sys.stderr.flush()


def progress_bar(what: str, total: int | None = None, *, shown: bool = True, **options: Any) -> "tqdm[Any]":
    """Return a bar of tqdm on standard error, which is a line of text each `LINE_SECONDS` where that is no terminal.

        with progress_bar("verdicts", total=1000, unit=" questions") as bar:
            bar.update(25)  # in a pipe, 30 s later: refactx: verdicts: 25 of 1000, 1.20s/ questions, 19:30 left

    `what`: of which task; `total`: how much there is, if that is known; `shown`: False for neither; `options`: of tqdm.
    """
    if not shown or sys.stderr.isatty():
        return tqdm(desc=what, total=total, disable=not shown, file=sys.stderr, **options)
    style = {"leave": False, "miniters": 1, "mininterval": LINE_SECONDS, "delay": LINE_SECONDS, "file": _Lines()}
    style["bar_format"] = _LINE if total else _LINE_WITHOUT_TOTAL
    return tqdm(desc=what, total=total, **options | style)
