"""The log: a line of JSON for each request, without what was asked and answered unless that is wanted."""

import json
import logging
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

from starlette.types import Scope

from refactx.errors import without_password

LONGEST = 500
"""The most characters of a path, which clients write."""
QUIET_SECONDS, MOST_REPORTS = 60.0, 1000
"""How long a report is not repeated, and how many reports are remembered for that."""


class RequestLog:
    """Lines of JSON on a stream, by default standard error."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def request(self, number: str, scope: Scope, status: int, seconds: float, fields: Mapping[str, Any]) -> None:
        """Write the line of a request. The query of its address is left out: it may have a question."""
        self.write(
            "request",
            id=number,
            method=scope["method"],
            path=scope["path"][:LONGEST],
            client=(scope.get("client") or ["unknown"])[0],
            status=status,
            seconds=round(seconds, 4),
            **fields,
        )

    def write(self, event: str, **fields: Any) -> None:
        """Write a line. `event`: what has happened."""
        now = time.time()
        moment = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1000):03}Z"
        line = json.dumps({"time": moment, "event": event, **fields}, default=str)
        print(line, file=self._stream or sys.stderr, flush=True)


class LogHandler(logging.Handler):
    """What libraries report, as lines of the same log. The same report has one line a minute, with how often it was
    `repeated` before."""

    def __init__(self, log: RequestLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log
        self._last: dict[tuple[str, str, str], tuple[float, int]] = {}  # when it had a line, and how often it had none

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line of a report, unless it had one in the last minute."""
        try:
            fields: dict[str, Any] = {"level": record.levelname.lower(), "source": record.name}
            fields["message"] = without_password(record.getMessage())
            error = record.exc_info[1] if record.exc_info else None
            report, now = (record.name, fields["message"], repr(error)), time.monotonic()
            moment, repeated = self._last.get(report, (-QUIET_SECONDS, 0))
            if now - moment < QUIET_SECONDS:
                self._last[report] = (moment, repeated + 1)
                return
            if len(self._last) >= MOST_REPORTS:
                self._last.clear()
            self._last[report] = (now, 0)
            if repeated:
                fields["repeated"] = repeated
            if record.exc_info:
                fields["trace"] = without_password(logging.Formatter().formatException(record.exc_info))
            self._log.write("log", **fields)
        except Exception:
            self.handleError(record)
