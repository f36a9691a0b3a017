"""What vLLM passes to logits processors, as far as they use it: the tests of every run do without vLLM itself."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from refactx.decoding.machine import Machine
from refactx.decoding.states import FactSource
from refactx.engines.vllm.text import Facts
from refactx.errors import DatabaseError
from refactx.tree.tree import Children
from support.tiny_model import SURPLUS, MemoryIndex, allowed_by_brute_force, ids, tiny_fact_tokenizer

END = ids("</s>")[0]
VOCABULARY = len(tiny_fact_tokenizer().token_bytes) + SURPLUS
TRIGGERS = ids("Fact:", " Fact:", "\nFact:")


class Direction(Enum):
    """Twin of `MoveDirectionality`."""

    UNIDIRECTIONAL = auto()
    SWAP = auto()


@dataclass
class Update:
    """Twin of `BatchUpdate`."""

    removed: list[int] = field(default_factory=list)
    added: list[tuple[int, Any, list[int] | None, list[int]]] = field(default_factory=list)
    moved: list[tuple[int, int, Direction]] = field(default_factory=list)


def params(**extra: Any) -> SimpleNamespace:
    """Twin of `SamplingParams`, with these `extra_args`."""
    return SimpleNamespace(extra_args=extra, eos_token_id=END, stop_token_ids=[], structured_outputs=None)


def facts_of(source: FactSource) -> Facts:
    """The facts of an index for an engine over the tiny tokenizer."""
    return Facts(Machine(source), end=END, vocabulary=VOCABULARY)


class Away:
    """An index whose database goes away when `error` is set. `index`: in memory."""

    def __init__(self, index: MemoryIndex) -> None:
        self.tokenizer, self.trigger, self.terminator = index.tokenizer, index.trigger, index.terminator
        self.index, self.error = index, None

    error: Exception | None

    def children(self, prefix: Sequence[int]) -> Children:
        if self.error is not None:
            raise self.error
        return self.index.children(prefix)

    def go(self) -> None:
        self.error = DatabaseError("cannot reach postgresql://me:secret@db/kb")


def expected(index: MemoryIndex, prompt: Sequence[int], output: Sequence[int]) -> set[int] | None:
    """The ids that may follow by brute force; the prompt must not end within a fact."""
    return allowed_by_brute_force(index, output, index.tokenizer.decode_bytes(prompt))


def finite(row: torch.Tensor) -> set[int]:
    """The ids of a row of logits that are not minus infinity."""
    return set((~row.isneginf()).nonzero()[:, 0].tolist())


def check_row(after: torch.Tensor, before: torch.Tensor, allowed: set[int] | None) -> None:
    """Check that a row has minus infinity exactly for ids that are not allowed, and its other logits unchanged."""
    kept = set(range(len(before))) if allowed is None else allowed
    assert finite(after) == kept
    numbers = sorted(kept)
    assert torch.equal(after[numbers], before[numbers])


def chosen(allowed: set[int] | None, dice: np.random.Generator) -> int:
    """An id that may follow; outside facts often a trigger, so that short texts have many facts."""
    if allowed is not None:
        return int(dice.choice(sorted(allowed)))
    return int(dice.choice(TRIGGERS if dice.random() < 0.5 else ids(" ", "a", "\n")))


class Slots:
    """Twin of `LogitsProcRequestState`: the ids of requests by slot, on the device."""

    def __init__(self, slots: int, length: int) -> None:
        def array(shape: Any) -> SimpleNamespace:
            tensor = torch.zeros(shape, dtype=torch.int32)
            return SimpleNamespace(gpu=tensor, np=tensor.numpy())

        self.all_token_ids = array((slots, length))
        self.prompt_len, self.prefill_len = array(slots), array(slots)

    def put(self, slot: int, prompt: Sequence[int], output: Sequence[int] = ()) -> None:
        """A request enters a slot, or again after it was preempted with some output."""
        self.prompt_len.np[slot], self.prefill_len.np[slot] = len(prompt), len(prompt) + len(output)
        self.write(slot, [*prompt, *output])

    def write(self, slot: int, numbers: Sequence[int]) -> None:
        """The ids of a slot, all of them."""
        self.all_token_ids.gpu[slot, : len(numbers)] = torch.tensor(list(numbers), dtype=torch.int32)


@dataclass(frozen=True)
class RowsOf:
    """The rows of a request in a step: its slot, its ids so far, and draft tokens after them."""

    slot: int
    numbers: Sequence[int]
    drafts: Sequence[int] = ()


def layout(requests: Sequence[RowsOf]) -> SimpleNamespace:
    """Twin of `LogitsContext`: one row after the ids of each request, and one after each of its draft tokens."""
    rows = [
        (each.slot, offset, len(each.numbers) - 1 + offset, token)
        for each in requests
        for offset, token in enumerate([each.numbers[-1], *each.drafts])
    ]
    slots, offsets, positions, tokens = torch.tensor(rows).T if rows else torch.zeros((4, 0), dtype=torch.long)
    return SimpleNamespace(
        expanded_idx_mapping=slots,
        expanded_local_pos=offsets,
        pos=positions,
        input_ids=tokens,
        idx_mapping_np=np.array([each.slot for each in requests], np.int32),
    )


def logits(rows: int, dice: np.random.Generator) -> torch.Tensor:
    """Random logits, float32[rows, vocabulary]."""
    return torch.from_numpy(dice.normal(size=(rows, VOCABULARY)).astype(np.float32))
