"""The wait for a server that is behind another one, which was read before."""

import logging
import time

from refactx.errors import DatabaseError

_log = logging.getLogger(__name__)

_PAUSES = (0.01, 0.5)
"""The seconds of the first pause, and of the longest: a standby is mostly behind by milliseconds."""


class Patience:
    """A wait of at most `seconds` for a server that has not got an index as it was read already."""

    def __init__(self, index: str, seconds: float) -> None:
        self._index, self._seconds = index, seconds
        self._deadline: float | None = None
        self._pause = _PAUSES[0]

    def wait(self) -> None:
        """Wait a little. Raises DatabaseError after the limit."""
        now = time.monotonic()
        if self._deadline is None:
            self._deadline = now + self._seconds
        left = self._deadline - now
        if left <= 0:
            raise DatabaseError(
                f"the server that answers is behind: it did not get index {self._index!r} as it was read elsewhere within "
                f"{self._seconds:g} s. Look at the lag of the standby, or open the index again to read it as it is there "
                "(REFACTX_OUTAGE_SECONDS sets how long to wait)"
            )
        time.sleep(min(self._pause, left))
        if self._pause < _PAUSES[1] <= self._pause * 2:
            _log.warning("a standby is behind: waiting for index %r there for at most %g s", self._index, self._seconds)
        self._pause = min(self._pause * 2, _PAUSES[1])
