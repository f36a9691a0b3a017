"""How far a long task is: a bar on a terminal, and in a pipe a line now and then."""

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

LINE_SECONDS = 30.0
"""After which a pipe gets another line."""
_LINE = "{desc}: {n_fmt} of {total_fmt}, {rate_fmt}, {remaining} left"
_LINE_WITHOUT_TOTAL = "{desc}: {n_fmt}, {rate_fmt}, after {elapsed}"


Listener = Callable[[str, float | None], object]
"""Called with what is done, and the part of it that is (0 to 1; None if that is not known)."""
_listeners: list[Listener] = []


@contextmanager
def told_to(listener: Listener) -> Iterator[None]:
    """Tell a listener, instead of standard error, how far the tasks of this process are.

    >>> states = []
    >>> with told_to(lambda what, part: states.append((what, part))), progress_bar("facts", 4) as bar:
    ...     _ = bar.update(2)
    >>> states
    [('facts', 0.0), ('facts', 0.5), ('facts', 0.5)]
    """
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


class _Told(tqdm):  # type: ignore[misc]
    """A bar that a listener is told of."""

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        for listener in _listeners:
            listener(self.desc.removesuffix(": "), min(1.0, self.n / self.total) if self.total else None)
        return True


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
    if shown and _listeners:
        return _Told(desc=what, total=total, **options | {"miniters": 1, "mininterval": 0.0, "file": io.StringIO()})
    if not shown or sys.stderr.isatty():
        return tqdm(desc=what, total=total, disable=not shown, file=sys.stderr, **options)
    style = {"leave": False, "miniters": 1, "mininterval": LINE_SECONDS, "delay": LINE_SECONDS, "file": _Lines()}
    style["bar_format"] = _LINE if total else _LINE_WITHOUT_TOTAL
    return tqdm(desc=what, total=total, **options | style)
