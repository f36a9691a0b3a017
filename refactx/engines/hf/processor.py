"""A logits processor for Hugging Face Transformers' own decoding loops.

The state of a row is looked up by its ids, never by its number: beam search reorders rows at every step, assisted
decoding takes ids back, finished rows are padded. The processor remembers the ids and states of its last few calls;
a row is one of those plus one id, or it is replayed from its prompt. So the memo changes nothing but the time taken.

Continuous batching (`generate_batch`, `cache_implementation="paged"`) hands processors only the last ids, and
Transformers drops this one there with a warning, which leaves the text unconstrained: `refactx.grounded.model` blocks it, and
who uses the bare processor must not use it so.
"""

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LogitsProcessor

from refactx.decoding.machine import FactSource, Free, Machine, State
from refactx.decoding.mask import allowed_behind
from refactx.decoding.partial import Partial, kept
from refactx.errors import RefactxError, TokenizerMismatchError
from refactx.tokenizer import FactTokenizer
from refactx.tree.children import Tokens

# The fingerprint of a tokenizer, by the tokenizer: it takes seconds for a vocabulary of 150,000, and a processor is
# made for each generate call. Weak keys: it keeps no tokenizer alive.
_fingerprints: "weakref.WeakKeyDictionary[Any, str]" = weakref.WeakKeyDictionary()


def check_tokenizer(index: FactSource, tokenizer: Any) -> None:
    """Raise TokenizerMismatchError unless `tokenizer` (Transformers, fast) encodes as the index's tokenizer does."""
    found = _fingerprints.get(tokenizer)
    if found is None:
        found = _fingerprints[tokenizer] = FactTokenizer.from_transformers(tokenizer).fingerprint
    expected = index.tokenizer.fingerprint
    if found != expected:
        raise TokenizerMismatchError(
            f"the index was built for another tokenizer ({getattr(index, 'tokenizer_name', 'unnamed')}, fingerprint "
            f"{expected[:12]}) than the model's ({found[:12]}); use a model with that tokenizer, or ingest again"
        )


_ID_BYTES = 8


class _Step(NamedTuple):
    """One call: how many ids each row has, the rows (int64 in bytes, which compare fastest; those behind `length` belong to
    a later call that shares them), and the state of each.
    """

    length: int
    rows: Sequence[bytes]
    states: Sequence[State]

    def own_rows(self) -> list[bytes]:
        """Its rows alone."""
        return [row[: _ID_BYTES * self.length] for row in self.rows]


class FactLogitsProcessor(LogitsProcessor):
    """Lets a model write nothing but facts of the index behind the trigger, and none twice in a sequence.

    Give it last in `generate(logits_processor=[...])`. `prompt_length`: how many ids of each row are the prompt,
    padding included; None: as many as the first call has. Such a processor serves one `generate` call; call `reset()`
    before the next (one with other prompts is noticed by itself, one whose prompts only go on from the last is not).
    An assistant with another tokenizer needs `prompt_length` (or `refactx.ground`, which gives it): it calls the processor
    with ids of its own, which look like other prompts, and facts that were written before would be written again.
    `memo_size`: how many calls are remembered; any number gives the same result, 0 replays every row at every step.
    The default covers the drafts of assisted decoding. Several threads need a processor each; they may share the index.

    Raises TokenizerMismatchError if `tokenizer` is not the index's.
    """

    supports_continuous_batching = False

    def __init__(
        self, index: FactSource, tokenizer: Any, prompt_length: int | None = None, memo_size: int = 64
    ) -> None:
        check_tokenizer(index, tokenizer)
        self._setup(Machine(index), padding_of(tokenizer), prompt_length, memo_size)

    @classmethod
    def of(
        cls, machine: Machine, padding: frozenset[int] | None, prompt_length: int | None = None, memo_size: int = 64
    ) -> "FactLogitsProcessor":
        """A processor over a machine that is there already (`padding`: the ids that pad rows)."""
        processor = cls.__new__(cls)
        processor._setup(machine, padding, prompt_length, memo_size)
        return processor

    def _setup(
        self, machine: Machine, padding: frozenset[int] | None, prompt_length: int | None, memo_size: int
    ) -> None:
        self._machine, self._padding, self._memo_size = machine, padding, memo_size
        self._given_length = prompt_length
        self.reset()

    def reset(self) -> None:
        """Make ready for another `generate` call."""
        self._length = self._given_length
        self._prompts: frozenset[bytes] = frozenset()
        self._steps: list[_Step] = []  # the latest last

    @property
    def prompt_length(self) -> int | None:
        """How many ids of each row are the prompt; None before the first call unless it was given."""
        return self._length

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """Mask the scores, [rows, vocabulary], of the id that follows each row of `input_ids`, int[rows, length].

        Rows outside facts keep their scores bit for bit; if all are, `scores` itself is returned. In a fact all but
        the allowed ids get minus infinity. A row off the tree, where beam search has more beams than continuations or
        rows that are done are padded, gets minus infinity for all but its own last id.
        """
        ids = _int64(input_ids)
        try:
            states = self._states(ids)
        except RefactxError:  # (a `with` around it would take a tenth of a free step)
            with kept(lambda: self._so_far(input_ids)):
                raise
        for state in states:
            if type(state) is not Free:
                break
        else:
            return scores
        masks = [
            allowed_behind(self._machine, state, last) for state, last in zip(states, ids[:, -1].tolist(), strict=True)
        ]
        return masked(scores, masks)

    def _so_far(self, input_ids: torch.Tensor) -> Partial:
        """The ids of this call, with the facts that their rows had at the last one."""
        known: dict[bytes, State] = {}
        length = 0
        if self._steps:
            last = self._steps[-1]
            known, length = dict(zip(last.own_rows(), last.states, strict=True)), last.length
        rows = [row[:length].tobytes() for row in _int64(input_ids)]
        states = [known.get(row, Free()) for row in rows]
        return Partial.of(input_ids, map(self._machine.facts_of, states))

    def _states(self, ids: NDArray[np.int64]) -> Sequence[State]:
        length = ids.shape[1]
        rows = [row.tobytes() for row in ids]
        if self._steps and self._length is not None and length > self._length:
            last = self._steps[-1]  # nearly always each row has one id more than at the last call
            if (
                last.length == length - 1
                and len(last.rows) == len(rows)
                and all(map(bytes.startswith, rows, last.rows))
            ):
                self._steps[-1] = _Step(last.length, rows, last.states)  # both on the same memory
                advance = self._machine.advance
                states = [
                    advance(state, token, length - 1)
                    for state, token in zip(last.states, ids[:, -1].tolist(), strict=True)
                ]
                return self._keep(_Step(length, rows, states))
        for step in reversed(self._steps):  # the same ids again, as prompt look-up asks: nothing new to remember
            if step.length == length and step.own_rows() == rows:
                return step.states
        known = self._recall(rows, length)
        missing = [number for number, state in enumerate(known) if state is None]
        if missing:
            prompt_length = self._prompt_length_of(rows, length, missing)
            for number in missing:
                known[number] = self._machine.run(_ids(rows[number]).tolist(), prompt_length, self._padding)
        return self._keep(_Step(length, rows, [state for state in known if state is not None]))

    def _keep(self, step: _Step) -> Sequence[State]:
        self._steps.append(step)
        if len(self._steps) > self._memo_size:
            del self._steps[: len(self._steps) - self._memo_size]
        return step.states

    def _recall(self, rows: Sequence[bytes], length: int) -> list[State | None]:
        """The state of each row that is a remembered row with one id more."""
        states: list[State | None] = [None] * len(rows)
        if self._length is None or length <= self._length:  # prompts are read as prompts, not id by id
            return states
        advance = self._machine.advance
        missing = set(range(len(rows)))
        for step in reversed(self._steps):
            if step.length != length - 1:
                continue
            numbers = {row: number for number, row in enumerate(step.own_rows())}
            parents = {row: numbers.get(rows[row][:-_ID_BYTES]) for row in missing}
            for row, parent in parents.items():
                if parent is not None:
                    states[row] = advance(step.states[parent], int(_ids(rows[row])[-1]), length - 1)
                    missing.discard(row)
            if not missing:
                break
        return states

    def _prompt_length_of(self, rows: Sequence[bytes], length: int, missing: list[int]) -> int:
        """The prompt's length: as given, or as now if this is the first call or begins one with other prompts."""
        if self._given_length is not None:
            return self._given_length
        known = self._length
        # (ids shorter than the prompts are no prompt either, so that their bytes are not among them)
        if known is None or any(rows[row][: _ID_BYTES * known] not in self._prompts for row in missing):
            self.reset()
            self._length = known = length
            self._prompts = frozenset(rows)
        return known


def _int64(ids: torch.Tensor) -> NDArray[np.int64]:
    """Ids as the memo keeps them: `generate` takes int32 too."""
    return ids.numpy(force=True).astype(np.int64, copy=False)


def _ids(row: bytes) -> NDArray[np.int64]:
    return np.frombuffer(row, np.int64)


class RowMasks(LogitsProcessor):
    """Masks each row by `allowed`, which the loop that knows the rows' states sets before each call (`refactx.engines.loop`)."""

    def __init__(self) -> None:
        self.allowed: Sequence[Tokens | None] = ()

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """As `FactLogitsProcessor`."""
        return scores if all(tokens is None for tokens in self.allowed) else masked(scores, self.allowed)


def padding_of(tokenizer: Any) -> frozenset[int] | None:
    """The ids that `generate` pads rows with; None if the tokenizer names none."""
    ids = (getattr(tokenizer, "pad_token_id", None), getattr(tokenizer, "eos_token_id", None))
    return frozenset(number for number in ids if number is not None) or None


def masked(scores: torch.FloatTensor, allowed: Sequence[Tokens | None]) -> torch.FloatTensor:
    """A copy of `scores`, [rows, vocabulary], with minus infinity for all but the allowed ids (int32[n], ascending) of
    each row; a row with None stays as it is.

    Where other processors left none of the ids, they get 0: sampling raises over a row of minus infinities, and
    argmax takes id 0.
    """
    if scores.device.type == "cpu" and scores.dtype == torch.float32:
        return _masked_by_numpy(scores, allowed)
    every_row = all(tokens is not None for tokens in allowed)
    out = torch.full_like(scores, -torch.inf) if every_row else scores.clone()
    for source, target, tokens in zip(scores.unbind(), out.unbind(), allowed, strict=True):
        if tokens is None:
            continue
        if not every_row:
            target.fill_(-torch.inf)
        if len(tokens) and tokens[-1] >= scores.shape[1]:
            tokens = tokens[tokens < scores.shape[1]]  # noqa: PLW2901
        if not len(tokens):
            continue
        ids = torch.from_numpy(tokens.astype(np.int64)).to(scores.device)
        kept = source.index_select(0, ids)
        if len(tokens) == 1:  # most tokens of a fact
            kept = kept.nan_to_num_(nan=torch.nan, posinf=torch.inf, neginf=0.0)
        else:
            kept = torch.where(kept.max() == -torch.inf, 0.0, kept)
        target.index_copy_(0, ids, kept)
    return out  # type: ignore[return-value]


def _masked_by_numpy(scores: torch.Tensor, allowed: Sequence[Tokens | None]) -> torch.FloatTensor:
    """The same where numpy can: its calls cost less than torch's, which may wake all its threads to fill a row."""
    given = scores.numpy(force=True)
    every_row = all(tokens is not None for tokens in allowed)
    out = np.full(given.shape, -np.inf, np.float32) if every_row else given.copy()
    for row, tokens in enumerate(allowed):
        if tokens is None:
            continue
        if not every_row:
            out[row] = -np.inf
        if len(tokens) and tokens[-1] >= given.shape[1]:
            tokens = tokens[tokens < given.shape[1]]  # noqa: PLW2901
        if len(tokens) == 1:  # most of a fact: a number costs less than an array of one
            token = int(tokens[0])
            value = given[row, token]
            out[row, token] = 0.0 if value == -np.inf else value
            continue
        kept = given[row, tokens]
        out[row, tokens] = kept if len(kept) and kept.max() > -np.inf else np.maximum(kept, 0.0)
    return torch.from_numpy(out)  # type: ignore[return-value]
