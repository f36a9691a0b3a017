"""The snapshot of an index that a reader uses, and its renewal when a table is gone or another server answers."""

import threading

from refactx.errors import IndexNotFoundError
from refactx.index.patience import Patience
from refactx.index.snapshot import Snapshot
from refactx.index.source import IndexSource


class LivingSnapshot:
    """The latest snapshot of an index, `now`. `gone_round_trips`: the queries of segments that it no longer has."""

    def __init__(self, source: IndexSource, cache_bytes: int) -> None:
        self._source, self._cache_bytes = source, cache_bytes
        self._renewing = threading.Lock()
        self.now: Snapshot = source.snapshot(cache_bytes)
        self.gone_round_trips = 0

    def refresh(self) -> bool:
        """Take the snapshot anew. Return whether the index has changed.

        Raises IndexNotFoundError if the index was dropped or replaced.
        """
        with self._renewing:
            before = self.now
            fresh = self._source.snapshot(self._cache_bytes, before.segments)
            if fresh.same_as(before):
                if fresh.server != before.server:
                    self.now = fresh
                return False
            kept = {id(segment.rows) for segment in fresh.segments}
            self.gone_round_trips += sum(s.rows.round_trips for s in before.segments if id(s.rows) not in kept)
            self.now = fresh
            return True

    def renew(self, stale: Snapshot, error: IndexNotFoundError, patience: Patience | None) -> Patience | None:
        """Take the snapshot anew, since a table of `stale` is gone, or another server answers.

        Raise `error` if that changes nothing, unless the server that answered may be behind: then wait, with the
        `patience` that the last call returned.
        """
        if self.now is stale and not self.refresh() and self.now is stale:
            patience = patience or self._source.patience()
            if patience is None:
                raise error
            patience.wait()
        return patience
