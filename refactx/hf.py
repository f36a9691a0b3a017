"""Decoding under Hugging Face Transformers: a logits processor, and a wrapper that adds it to `generate`.

The state of a row is looked up by its ids, never by its number: beam search reorders rows at every step, assisted
decoding takes ids back, finished rows are padded. The processor remembers the ids and states of its last few calls;
a row is one of those plus one id, or it is replayed from its prompt. So the memo changes nothing but the time taken.

Continuous batching (`generate_batch`, `cache_implementation="paged"`) hands processors only the last ids, and
Transformers drops this one there with a warning, which leaves the text unconstrained: the wrapper blocks it, and who
uses the bare processor must not use it so.
"""

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LogitsProcessor, LogitsProcessorList

from refactx.errors import InputError, ModelError, RefactxError, TokenizerMismatchError
from refactx.fact import Fact
from refactx.mask import allowed
from refactx.state import Dead, FactSource, Machine, State
from refactx.tokenizer import FactTokenizer

_NO_CONTINUOUS_BATCHING = (
    "continuous batching (generate_batch, cache_implementation='paged') would drop the facts' logits processor and "
    "leave the text unconstrained; use generate() instead"
)

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


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """One call: its ids, int32[rows, length], and the state of each row."""

    ids: NDArray[np.int32]
    states: Sequence[State]


class FactLogitsProcessor(LogitsProcessor):
    """Lets a model write nothing but facts of the index behind the trigger, and none twice in a sequence.

    Give it last in `generate(logits_processor=[...])`. `prompt_length`: how many ids of each row are the prompt,
    padding included; None: as many as the first call has. Such a processor serves one `generate` call; call `reset()`
    before the next (one with other prompts is noticed by itself, one whose prompts only go on from the last is not).
    `memo_size`: how many calls are remembered; any number gives the same result, 0 replays every row at every step.
    The default covers the drafts of assisted decoding, at 256 bytes an id, about 1% of a small model's own cache.
    Several threads need a processor each; they may share the index.

    Raises TokenizerMismatchError if `tokenizer` is not the index's.
    """

    supports_continuous_batching = False

    def __init__(
        self, index: FactSource, tokenizer: Any, prompt_length: int | None = None, memo_size: int = 64
    ) -> None:
        check_tokenizer(index, tokenizer)
        self._setup(Machine(index), _padding(tokenizer), prompt_length, memo_size)

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
        self._steps: tuple[_Step, ...] = ()

    @property
    def prompt_length(self) -> int | None:
        """How many ids of each row are the prompt; None before the first call unless it was given."""
        return self._length

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """Mask the scores, [rows, vocabulary], of the id that follows each row of `input_ids`, int64[rows, length].

        Rows outside facts keep their scores bit for bit; if all are, `scores` itself is returned. In a fact all but
        the allowed ids get minus infinity. A row off the tree, where beam search has more beams than continuations,
        gets nothing but minus infinity (but for its padding, if it is padded).
        """
        ids = input_ids.detach().cpu().numpy().astype(np.int32)
        masks = [
            (row, ids[row, -1:] if self._padded(state, ids[row]) else tokens)
            for row, state in enumerate(self._states(ids))
            if (tokens := allowed(self._machine, state)) is not None
        ]
        return _masked(scores, masks) if masks else scores

    def _states(self, ids: NDArray[np.int32]) -> Sequence[State]:
        for step in self._steps:  # the same ids again, as prompt look-up asks: nothing new to remember
            if step.ids.shape == ids.shape and np.array_equal(step.ids, ids):
                return step.states
        states = self._recall(ids)
        missing = [row for row, state in enumerate(states) if state is None]
        if missing:
            length = self._prompt_length_of(ids, missing)
            for row in missing:
                states[row] = self._machine.run(ids[row].tolist(), length, self._padding)
        found = [state for state in states if state is not None]
        self._steps = (_Step(ids, found), *self._steps)[: self._memo_size]
        return found

    def _recall(self, ids: NDArray[np.int32]) -> list[State | None]:
        """The state of each row that is a remembered row with one id more."""
        rows, length = ids.shape
        states: list[State | None] = [None] * rows
        if self._length is None or length <= self._length:  # prompts are read as prompts, not id by id
            return states
        missing = set(range(rows))
        before = ids[:, :-1]
        for step in self._steps:
            if not missing:
                break
            if step.ids.shape[1] != length - 1:
                continue
            if len(step.ids) == rows and np.array_equal(step.ids, before):  # nearly always, and one comparison
                parents: dict[int, int] = {row: row for row in missing}
            else:
                numbers = {row.tobytes(): number for number, row in enumerate(step.ids)}
                keys = {row: numbers.get(before[row].tobytes()) for row in missing}
                parents = {row: number for row, number in keys.items() if number is not None}
            for row, number in parents.items():
                states[row] = self._machine.advance(step.states[number], int(ids[row, -1]), length - 1)
            missing -= parents.keys()
        return states

    def _prompt_length_of(self, ids: NDArray[np.int32], missing: list[int]) -> int:
        """The prompt's length: as given, or as now if this is the first call or begins one with other prompts."""
        if self._given_length is not None:
            return self._given_length
        length = self._length
        # (ids shorter than the prompts are no prompt either, so that their bytes are not among them)
        if length is None or any(ids[row, :length].tobytes() not in self._prompts for row in missing):
            self.reset()
            self._length = length = ids.shape[1]
            self._prompts = frozenset(row.tobytes() for row in ids)
        return length

    def _padded(self, state: State, row: NDArray[np.int32]) -> bool:
        # A row that a stopping criterion ended inside a fact is padded from there on: more padding is all that may
        # follow. What it gets is not read, but sampling raises over a row of minus infinities. A beam off the tree that
        # looks the same has a score of minus infinity already (padding is masked in a fact), whatever is added.
        return isinstance(state, Dead) and self._padding is not None and int(row[-1]) in self._padding


def _padding(tokenizer: Any) -> frozenset[int] | None:
    """The ids that `generate` pads rows with; None if the tokenizer names none."""
    ids = (getattr(tokenizer, "pad_token_id", None), getattr(tokenizer, "eos_token_id", None))
    return frozenset(number for number in ids if number is not None) or None


def _masked(scores: torch.FloatTensor, masks: list[tuple[int, NDArray[np.int32]]]) -> torch.FloatTensor:
    """A copy of `scores` with minus infinity for all but the given ids in the given rows.

    Where other processors left none of the ids, they get 0: sampling raises over a row of minus infinities, and
    argmax takes id 0.
    """
    every_row = len(masks) == len(scores)
    masked = torch.full_like(scores, -torch.inf) if every_row else scores.clone()
    for row, tokens in masks:
        ids = torch.from_numpy(tokens[tokens < scores.shape[1]].astype(np.int64)).to(scores.device)
        kept = scores[row, ids]
        if not every_row:
            masked[row] = -torch.inf
        masked[row, ids] = torch.where(torch.isneginf(kept).all(), torch.zeros_like(kept), kept)
    return masked  # type: ignore[return-value]


class GroundedModel:
    """A model whose `generate` writes only facts of the index; everything else is the model's own."""

    def __init__(self, model: Any, tokenizer: Any, index: FactSource) -> None:
        if getattr(model.config, "is_encoder_decoder", False):
            raise ModelError(
                f"{type(model).__name__} is an encoder-decoder model; facts need a decoder-only (causal) language model"
            )
        check_tokenizer(index, tokenizer)
        self._model, self._machine, self._padding = model, Machine(index), _padding(tokenizer)
        self._prompt_lengths: dict[int, int] = {}  # by id(); an output's entry goes when the output does

    def __getattr__(self, name: str) -> Any:
        if name == "_model":  # not there yet, as in copy.copy: no endless recursion
            raise AttributeError(name)
        return getattr(self._model, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The model's own forward pass."""
        return self._model(*args, **kwargs)

    def generate(self, inputs: Any = None, *args: Any, logits_processor: Any = None, **kwargs: Any) -> Any:
        """Call the model's `generate` with the facts' processor behind any others given; returns what it returns.

        Raises RefactxError where Transformers would switch to continuous batching.
        """
        if len(args) > 1:
            raise InputError("give generate's logits_processor and what follows it by name")
        config = args[0] if args else kwargs.get("generation_config")
        for cache in (kwargs.get("cache_implementation"), getattr(config, "cache_implementation", None)):
            if cache == "paged":
                raise RefactxError(_NO_CONTINUOUS_BATCHING)
        prompt = inputs if inputs is not None else kwargs.get("input_ids")
        length = None if prompt is None else int(prompt.shape[1])
        processor = FactLogitsProcessor.of(self._machine, self._padding, length)
        processors = LogitsProcessorList([*(logits_processor or []), processor])
        out = self._model.generate(inputs, *args, logits_processor=processors, **kwargs)
        if processor.prompt_length is not None:
            self._remember(out, processor.prompt_length)
        return out

    def _remember(self, out: Any, prompt_length: int) -> None:
        for returned in {id(o): o for o in (out, getattr(out, "sequences", out))}.values():
            self._prompt_lengths[id(returned)] = prompt_length
            weakref.finalize(returned, self._prompt_lengths.pop, id(returned), None).atexit = False

    def facts(self, out: Any, prompt_length: int | None = None) -> list[list[Fact]]:
        """The facts that each sequence of `out` completed, `out` being what `generate` returned, or ids [rows, length].

        `prompt_length`: how many ids of each are the prompt; None: what it was in the call that returned `out`.
        Raises InputError if that is not known.
        """
        length = self._prompt_lengths.get(id(out)) if prompt_length is None else prompt_length
        if length is None:
            raise InputError("these ids are not what generate() returned; pass facts(out, prompt_length=...)")
        sequences = getattr(out, "sequences", out)
        rows = sequences.tolist() if hasattr(sequences, "tolist") else sequences
        return [self._machine.facts(row, length, self._padding) for row in rows]

    def generate_batch(self, *_: Any, **__: Any) -> NoReturn:
        """Blocked: raises RefactxError, since continuous batching would leave the text unconstrained."""
        raise RefactxError(_NO_CONTINUOUS_BATCHING)

    init_continuous_batching = generate_batch
    continuous_batching_context_manager = generate_batch


def ground(model: Any, tokenizer: Any, index: FactSource) -> GroundedModel:
    """Wrap a causal language model so that its `generate` writes only facts of the index.

    Raises ModelError for an encoder-decoder model, TokenizerMismatchError if the index is for another tokenizer.
    """
    return GroundedModel(model, tokenizer, index)
