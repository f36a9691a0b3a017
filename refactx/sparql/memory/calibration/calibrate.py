"""The thresholds of a stored memory: the best ones for cases at random, and their storage."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from refactx.errors import InputError
from refactx.index.index import Index
from refactx.postgres.memory.records import store_thresholds
from refactx.postgres.memory.session import memory_session
from refactx.sparql.memory.calibration.cases import sample_cases
from refactx.sparql.memory.calibration.pairs import pairs_of
from refactx.sparql.memory.thresholds import FEWEST, MATCHES, Match, Threshold, best_threshold
from refactx.sparql.memory.vector_memory import VectorMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCalibration:
    """The thresholds of a memory that were found, by kind. There is none of a kind with fewer than `FEWEST` right or
    wrong pairs."""

    index: str
    encoder: str
    found: Mapping[Match, Threshold]

    def to_json(self) -> dict[str, Any]:
        """Return what `refactx memory calibrate --json` prints."""
        kinds = {
            match: {name: round(value, 4) for name, value in asdict(one).items()} for match, one in self.found.items()
        }
        return {"index": self.index, "encoder": self.encoder, "thresholds": kinds}


def calibrate_memory(
    index: Index,
    memory: VectorMemory,
    *,
    count: int = 500,
    seed: int = 0,
    refusal: float | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> MemoryCalibration:
    """Find the thresholds of the memory of an open index, and store them with it.

    `count`: the cases of each kind; `refusal`: as `best_threshold` has it; `progress`: called with the numbers of cases
    that are done and of all. Raises InputError if the index has too few names with aliases or namesakes; as
    `build_memory` does without the rights of a writer.
    """
    cases = sample_cases(index, memory.record, count, seed)
    pairs = pairs_of(memory, cases, progress)
    found: dict[Match, Threshold] = {}
    for match in MATCHES:
        some = [pair for case, pair in pairs if case.match == match]
        right = sum(one.right for one in some)
        if min(right, len(some) - right) >= FEWEST:
            found[match] = best_threshold(some, refusal)
    if not found:
        raise InputError(
            f"index {index.name!r} has too few names to calibrate its memory by: it needs {FEWEST} with an alias, or with "
            "the label of another entity. The thresholds stay as they are"
        )
    with memory_session(index.database, index.name) as connection:
        store_thresholds(connection, memory.record, {match: one.tau for match, one in found.items()})
    return MemoryCalibration(index=index.name, encoder=memory.record.encoder, found=found)
