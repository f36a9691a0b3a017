"""What lets an open index show what was appended and forgotten while it is served."""

import logging
from threading import Event, Thread

from refactx.errors import RefactxError
from refactx.index.index import Index
from refactx.server.availability import Availability

_log = logging.getLogger(__name__)


class Following:
    """A thread that refreshes an index every few `seconds`, while its database answers. Close it."""

    def __init__(self, index: Index, availability: Availability, seconds: float) -> None:
        self._index, self._availability, self._seconds = index, availability, seconds
        self._stop, self._reported = Event(), ""
        self._thread = Thread(target=self._follow, name="refactx-following", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Refresh no more."""
        self._stop.set()
        self._thread.join(5)

    def _follow(self) -> None:
        while not self._stop.wait(self._seconds):
            if self._availability.error is None:
                self._refresh()

    def _refresh(self) -> None:
        """Refresh once. An error is logged when it is new: requests have it too."""
        try:
            self._index.refresh()
            self._reported = ""
        except RefactxError as error:
            if (text := f"{type(error).__name__}: {error}") != self._reported:
                self._reported = text
                _log.warning("the index cannot be refreshed: %s", error)
