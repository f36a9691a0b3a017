"""The limits of an answer, and what is left of them while it is computed."""

import time
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of an answer to a query.

    `members`: the most members of a set; `reads`: the most facts that are read on the way, for all sets and filters;
    `facts`: the most facts that are shown as proof; `seconds`: the most time; `scanned`: the most facts of an index that
    is scanned as a whole for those of hubs.

    An answer beyond them is a part of the whole one, and says so; what needs all members is refused.
    """

    members: int = 20_000
    reads: int = 500_000
    facts: int = 100
    seconds: float = 10.0
    scanned: int = 5_000_000


class Budget:
    """What is left of limits. `reason`: the limit that was reached first; empty if none was."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.reason, self._is_spent = limits, "", False
        self._end, self._reads = time.monotonic() + limits.seconds, limits.reads

    def spend(self, reads: int = 0) -> bool:
        """Take some reads, and return whether anything is left: else nothing more should be read.

        >>> budget = Budget(Limits(reads=3))
        >>> budget.spend(2), budget.spend(2), budget.spend(), budget.reason
        (True, False, False, 'more than 3 facts have to be read')
        """
        self._reads -= reads
        if self._reads < 0:
            self._stop(f"more than {self.limits.reads:,} facts have to be read")
        elif time.monotonic() > self._end:
            self._stop(f"it takes more than {self.limits.seconds:g} seconds")
        return not self._is_spent

    def half(self) -> "Budget":
        """Return a budget with half of what is left, and no scan, for an attempt that may fail."""
        seconds = (self._end - time.monotonic()) / 2
        limits = replace(self.limits, reads=self._reads // 2, seconds=seconds, scanned=0)
        return Budget(limits)

    def scan(self, lookups: float = 0.2) -> "Budget":
        """Return a budget for a scan, which leaves a share of the time to look up what its members lead to."""
        return Budget(replace(self.limits, seconds=(self._end - time.monotonic()) * (1 - lookups)))

    def settle(self, scan: "Budget") -> None:
        """Take a scan into account: a part of its facts may be missing."""
        if scan.reason:
            self.reason = self.reason or f"all facts cannot be scanned in {self.limits.seconds:g} seconds"

    def admits(self, members: int) -> bool:
        """Return whether a set may have so many members."""
        if members > self.limits.members:
            self.reason = self.reason or f"a set has more than {self.limits.members:,} members"
            return False
        return True

    def _stop(self, reason: str) -> None:
        self.reason, self._is_spent = self.reason or reason, True
