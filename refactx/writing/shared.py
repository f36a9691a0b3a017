"""Engines that several writers share: one scheduler each, and what texts have read that other texts begin with."""

from collections.abc import Sequence
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np

from refactx.engines.engine import Engine
from refactx.engines.job import Job
from refactx.engines.language_model import LanguageModel
from refactx.engines.scheduler import Scheduler

MOST_SHARED = 8
"""The most sequences that texts of an engine continue, such as prefixes and examples of prompts."""

MOST_KEPT = 8
"""The most ended texts of an engine whose sequences are kept for texts that begin like them."""

LEAST_KEPT = 16
"""The fewest ids in common with a kept text that are worth continuing it."""


class SharedEngine:
    """An engine with its scheduler, and the sequences that texts of several writers continue.

    `calls`: held while a function of a caller runs, `until` or a streamer. All methods may be called between two passes
    alone, as the functions of a job are.
    """

    def __init__(self, engine: Engine) -> None:
        self.scheduler, self.calls = Scheduler(engine), Lock()
        self._shared: dict[tuple[int, ...], int] = {}  # by what they have read, the one used last at the end
        self._kept: dict[tuple[int, ...], int] = {}  # likewise; they have what room jobs leave

    def continued(self, job: Job, texts: Sequence[Sequence[int]]) -> list[int]:
        """Return sequences that have read these texts, in their order. They stay at least as long as the job runs."""
        keys, scheduler = [tuple(ids) for ids in texts], self.scheduler
        for key in keys:
            if key in self._shared:
                self._shared[key] = self._shared.pop(key)
                job.continued.append(self._shared[key])
        for key in keys:
            if key not in self._shared:
                for old in self._unused()[: max(0, len(self._shared) + 1 - MOST_SHARED)]:
                    self._release(old)
                scheduler.reserved += len(key)
                try:
                    self.make_room()
                    self._shared[key] = scheduler.engine.prefill(key)
                except BaseException:
                    scheduler.reserved -= len(key)
                    raise
                job.continued.append(self._shared[key])
        return [self._shared[key] for key in keys]

    def begun_like(self, ids: Sequence[int]) -> tuple[int, int]:
        """Return a sequence of the caller's that has read the first ids of a text, and how many; not all of them.

        It continues the kept text that has most of them in common, and has read none without such a text.
        """
        engine, near, most = self.scheduler.engine, None, LEAST_KEPT - 1
        for kept in self._kept:
            if (common := min(_common(kept, ids), len(ids) - 1)) > most:
                near, most = kept, common
        if near is None:
            self.make_room()
            return engine.prefill(()), 0
        self.make_room(but=near)
        is_continued = 2 * most >= len(near)  # else others may continue it
        sequence = self._kept.pop(near) if is_continued or self._is_crowded() else engine.fork(self._kept[near])
        if len(near) > most:
            engine.forget(sequence, len(near) - most)
        return sequence, most

    def keep(self, sequence: int, ids: Sequence[int]) -> None:
        """Keep a copy of a sequence that has read ids, for texts that begin like them, while there is room for it."""
        engine = self.scheduler.engine
        if len(ids) < LEAST_KEPT or not engine.can_forget:
            return
        if (old := self._kept.pop(tuple(ids), None)) is not None:
            engine.drop(old)
        while len(self._kept) >= MOST_KEPT:
            engine.drop(self._kept.pop(next(iter(self._kept))))
        self._kept[tuple(ids)] = engine.fork(sequence)

    def make_room(self, but: tuple[int, ...] | None = None) -> None:
        """Release kept texts, then shared sequences that no running job continues, the oldest first, as far as running
        jobs and the other shared sequences may need their room.

        `but`: ids of a kept text that stays.
        """
        for old in [old for old in self._kept if old != but]:
            if not self._is_crowded():
                return
            self.scheduler.engine.drop(self._kept.pop(old))
        for old in self._unused():
            if not self._is_crowded():
                return
            self._release(old)

    def _unused(self) -> list[tuple[int, ...]]:
        """Return the ids of shared sequences that no running job continues, the one used last at the end."""
        used = {number for job in self.scheduler.running for number in job.continued}
        return [ids for ids, number in self._shared.items() if number not in used]

    def _release(self, ids: tuple[int, ...]) -> None:
        """Release a shared sequence."""
        self.scheduler.engine.drop(self._shared.pop(ids))
        self.scheduler.reserved -= len(ids)

    def _is_crowded(self) -> bool:
        """Whether running jobs may need more room than shared sequences and kept texts leave."""
        scheduler, capacity = self.scheduler, self.scheduler.engine.capacity
        taken = scheduler.reserved + sum(job.room for job in scheduler.running) + sum(map(len, self._kept))
        return capacity is not None and taken > capacity


_engines: WeakKeyDictionary[LanguageModel, SharedEngine] = WeakKeyDictionary()
_engines_lock = Lock()


def share(model: LanguageModel) -> SharedEngine:
    """Return a model's engine with its scheduler, the same one for each writer: one thread at a time uses an engine.

    Raises ValueError for a model without an engine.
    """
    with _engines_lock:
        if model not in _engines:
            if model.engine is None:
                raise ValueError("the model has no engine: its texts are written by generate")
            _engines[model] = SharedEngine(model.engine)
        return _engines[model]


def _common(some: Sequence[int], others: Sequence[int]) -> int:
    """Return the length of the longest common prefix.

    >>> _common([1, 2, 3], [1, 2, 4, 5])
    2
    """
    length = min(len(some), len(others))
    differs = np.flatnonzero(np.asarray(some[:length]) != np.asarray(others[:length]))
    return int(differs[0]) if differs.size else length
