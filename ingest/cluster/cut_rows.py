"""What a task that cuts facts hands to the driver, as bytes: pieces of a range of facts, or facts as they are."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from refactx.ingest.cluster.streams import to_bytes
from refactx.ingest.segment.levels import Lifted
from refactx.ingest.segment.ranges import CutRange
from refactx.tree.arrays import Offsets
from refactx.tree.children import Tokens

_NUMBERS = {
    "bounds": pa.int64(),
    "begins": pa.int64(),
    "rows_before": pa.int64(),
    "lifted_before": pa.int64(),
    "tokens": pa.int32(),
    "lengths": pa.int64(),
    "kinds": pa.uint8(),
    "leaves": pa.int64(),
    "items": pa.int64(),
}
_LIFTED = ("tokens", "lengths", "kinds", "leaves", "items")


@dataclass(frozen=True, slots=True, eq=False)
class PlainFacts:
    """Neighbouring facts from position `low` on. `tokens`: int32; `offsets`: int64[n + 1]."""

    low: int
    tokens: Tokens
    offsets: Offsets

    @property
    def high(self) -> int:
        """The position after the last one."""
        return self.low + len(self.offsets) - 1


def dump_facts(facts: PlainFacts) -> bytes:
    """Return facts as bytes for `load_facts`."""
    return _dump({"bounds": np.array([facts.low]), "tokens": facts.tokens, "lengths": np.diff(facts.offsets)})


def load_facts(data: bytes, shift: int) -> PlainFacts:
    """Return the facts that `dump_facts` wrote, `shift` positions further."""
    found = _load(data)
    offsets = np.zeros(len(found["lengths"]) + 1, np.int64)
    np.cumsum(found["lengths"], out=offsets[1:])
    return PlainFacts(int(found["bounds"][0]) + shift, found["tokens"], offsets)


def dump_range(cut: CutRange) -> bytes:
    """Return the pieces of a range as bytes for `load_range`."""
    numbers = {name: getattr(cut, name) for name in ("begins", "rows_before", "lifted_before")}
    numbers |= {name: getattr(cut.lifted, name) for name in _LIFTED}
    rows = {"keys": [key for key, _ in cut.rows], "rows": [row for _, row in cut.rows]}
    return _dump({"bounds": np.array([cut.start, cut.stop, cut.end]), **numbers}, rows)


def load_range(data: bytes, shift: int) -> CutRange:
    """Return the pieces that `dump_range` wrote, `shift` facts further."""
    found = _load(data)
    start, stop, end = (int(bound) + shift for bound in found["bounds"])
    return CutRange(
        start=start,
        stop=stop,
        begins=found["begins"] + shift,
        end=end,
        rows=list(zip(found["keys"], found["rows"], strict=True)),
        rows_before=found["rows_before"],
        lifted=Lifted(**{name: found[name] for name in _LIFTED}),
        lifted_before=found["lifted_before"],
    )


def gap(start: int, stop: int) -> CutRange:
    """Return a range of facts of which no pieces are known."""
    none = np.empty(0, np.int64)
    lifted = Lifted(tokens=none.astype(np.int32), lengths=none, kinds=none.astype(np.uint8), leaves=none, items=none)
    zero = np.zeros(1, np.int64)
    return CutRange(
        start=start, stop=stop, begins=none, end=start, rows=[], rows_before=zero, lifted=lifted, lifted_before=zero
    )


def _dump(numbers: dict[str, Any], rows: dict[str, list[bytes]] | None = None) -> bytes:
    columns = {name: _one(pa.array(values, _NUMBERS[name])) for name, values in numbers.items()}
    columns |= {name: _one(pa.array(values, pa.large_binary())) for name, values in (rows or {}).items()}
    return to_bytes(pa.RecordBatch.from_pydict(columns))


def _one(values: pa.Array) -> pa.Array:
    """Return values as a list in one row."""
    return pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)


def _load(data: bytes) -> dict[str, Any]:
    with pa.ipc.open_stream(data) as reader:
        row = reader.read_all().combine_chunks()
    found = {}
    for name in row.column_names:
        values = row[name].chunk(0).flatten()
        found[name] = values.to_numpy() if name in _NUMBERS else values.to_pylist()
    return found
