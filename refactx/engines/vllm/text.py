"""The text of one request: the state of decoding after its ids, and the ids that may follow.

Nothing here raises: vLLM ends its engine, with every request in it, at an exception of a logits processor. A request
for which the index cannot be read, or which is off the tree, is *closed*: a note with the reason is forced, then the
end of sequence. So the reason is in the log and in the text, and no text is unconstrained after a trigger.
"""

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
import torch

from refactx.decoding.machine import Machine
from refactx.decoding.states import FactLimit, State
from refactx.errors import (
    CorruptIndexError,
    DatabaseError,
    IndexChangedError,
    IndexNotFoundError,
    InputError,
    ModelError,
    RefactxError,
    without_password,
)
from refactx.index.open import open_index
from refactx.lazy import require
from refactx.postgres.entry import Limits, limits_of_environment
from refactx.tree.tree import Tokens

_log = logging.getLogger(__name__)

_REASONS = (  # for whoever sent the request: the log has the rest, such as the address of the database
    (DatabaseError, "the database of the facts cannot be reached"),
    (IndexChangedError, "the fact being written was retracted"),
    (IndexNotFoundError, "the index of the facts was dropped or replaced"),
    (CorruptIndexError, "the index of the facts is damaged"),
    (InputError, "an option of the request is wrong"),
)
_PREFIX = "refactx_"
_SWITCH = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}

OUTAGE_SECONDS = 5.0
"""How long a lookup waits for a database that went away, unless REFACTX_OUTAGE_SECONDS says so: a restart takes some
seconds, and all requests of the engine wait with it."""

_THREADS = 8  # the connections of `refactx.postgres.Database`


class OffTreeError(RefactxError):
    """A text has an id that was not allowed: another component of vLLM chose it."""


class RequestText:
    """The ids of one request, prompt and output, as far as they were read.

    `end`: the id that ends the request. `vocabulary`: the number of the model's logits. `error`: why the request is
    closed from the start, if it is. One thread at a time may use it; threads share `machine`.
    """

    def __init__(self, machine: Machine, *, end: int, vocabulary: int, error: Exception | None = None) -> None:
        self._machine, self._vocabulary = machine, vocabulary
        self._end, self._error = np.array([end], np.int32), error
        self._state: State | None = None  # None: the prompt is not read yet
        self._read = 0  # how many ids the state is after
        self._closed_at: int | None = None  # how many ids there were when the request was closed
        self._note: list[int] = []

    def first_unread(self, length: int) -> int:
        """Return the position of the first id that `masks` needs, given how many ids there are.

        If there are fewer than were read, all are needed again. If there are no more than when the request was closed,
        the id after them was discarded (its prompt was not complete), and it is open again.
        """
        if self._closed_at is not None:
            if length > self._closed_at:
                return length
            self._closed_at = None
        if length < self._read:
            self._state, self._read = None, 0
        return self._read

    def may_look_up(self, unread: Iterable[int]) -> bool:
        """Return whether reading these ids may need a lookup in the index."""
        if self._state is None or not self._machine.is_free(self._state):
            return True
        last = self._machine.trigger.text[-1]
        return any(last in self._machine.bytes_of(token) for token in unread)

    def masks(
        self, length: int, prompt_length: int, unread: Sequence[int], drafts: Sequence[int] = ()
    ) -> list[Tokens | None]:
        """Return the ids that may follow, and those that may follow each of `drafts`: int32[n], ascending, never empty.

        None: any id may follow. `unread`: the ids from `first_unread(length)` to `length`, the first `prompt_length` of
        all are the prompt. `drafts`: ids that may follow (draft tokens); they are not read.
        """
        if self._closed_at is None:
            try:
                if self._error is not None:
                    raise self._error
                self._follow(unread, prompt_length)
                return [self._mask(self._state), *self._masks_after(drafts)]
            except Exception as error:
                self._close(error, length)
        done = length - (self._closed_at or 0)  # then the ids of the note follow, and the end
        notes = (self._note[at : at + 1] for at in range(done, done + 1 + len(drafts)))
        return [np.array(note, np.int32) if len(note) else self._end for note in notes]

    def _follow(self, unread: Sequence[int], prompt_length: int) -> None:
        rest = unread
        if any(token < 0 for token in unread):
            raise ModelError(
                "vLLM passed placeholders in place of token ids, as it does to a logits processor that is an entry "
                "point: load it with --logits-processors"
            )
        if self._state is None:
            self._state = self._machine.start(unread[:prompt_length], frozenset())
            self._read, rest = prompt_length, unread[prompt_length:]
        for token in rest:
            self._state = self._machine.advance(self._state, token, self._read)
            self._read += 1

    def _mask(self, state: State | None) -> Tokens | None:
        """Return the ids that may follow a state. Raises OffTreeError if none may."""
        tokens = None if state is None else self._machine.allowed(state)
        if tokens is None:
            return None
        tokens = tokens[tokens < self._vocabulary]
        if not len(tokens):
            raise OffTreeError("the text has a token that the facts do not allow: another part of vLLM forced it")
        return tokens

    def _masks_after(self, drafts: Sequence[int]) -> list[Tokens | None]:
        """Return the ids that may follow each draft token; the end alone after one that is not allowed."""
        found: list[Tokens | None] = []
        state = self._state
        try:
            for position, token in enumerate(drafts, self._read):
                if state is None or token < 0:
                    break
                state = self._machine.advance(state, token, position)
                found.append(self._mask(state))
        except Exception as error:  # the same happens without drafts if these ids are chosen
            _log.debug("refactx: no facts after draft tokens: %s", error)
        return found + [self._end] * (len(drafts) - len(found))

    def _close(self, error: Exception, length: int) -> None:
        said = without_password(str(error))
        if isinstance(error, RefactxError):
            _log.error("refactx: a request was ended: %s", said)
        else:
            _log.exception("refactx: a request was ended by an unexpected %s: %s", type(error).__name__, said)
        off_tree = "the text left the facts" if isinstance(error, OffTreeError) else "unexpected error"
        reason = next((text for kind, text in _REASONS if isinstance(error, kind)), off_tree)
        self._closed_at = length
        self._note = self._machine.source.tokenizer.encode(f"\n[refactx: {reason}]")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """The options of one request.

    `facts`: whether its facts are those of the index. `max_facts`: at most this many facts, after which the text
    continues with `after_facts` on a line of its own, and ends if it begins another fact; None: no limit.
    """

    facts: bool = True
    max_facts: int | None = None
    after_facts: str = ""

    @classmethod
    def of(cls, params: Any) -> Self:
        """Return the options in vLLM's `SamplingParams`: `refactx_facts`, `refactx_max_facts`, `refactx_after_facts`.

        A request with structured outputs has no facts, since the two could leave no token that both allow. Raises
        ValueError, as vLLM expects it, for a wrong value, for another name that begins with `refactx_`, and for facts
        with structured outputs.
        """
        extra: Mapping[str, Any] = getattr(params, "extra_args", None) or {}
        given = {name.removeprefix(_PREFIX): value for name, value in extra.items() if name.startswith(_PREFIX)}
        unknown = sorted(given.keys() - {"facts", "max_facts", "after_facts"})
        if unknown:
            raise ValueError(
                f"there is no option {_PREFIX}{unknown[0]}: give refactx_facts, refactx_max_facts or refactx_after_facts"
            )
        facts = None
        if "facts" in given:  # vLLM's server passes JSON's true and false as numbers
            value = given["facts"]
            if not isinstance(value, list):
                facts = _SWITCH.get(str(int(value) if value in (0, 1) else value).lower())
            if facts is None:
                raise ValueError(f"refactx_facts is {value!r}: give 1 or 0")
        if getattr(params, "structured_outputs", None) is not None:
            if facts:
                raise ValueError("structured outputs and refactx_facts exclude each other: leave one of them out")
            facts = False
        limit = _count(given["max_facts"]) if given.get("max_facts") is not None else None
        after = given.get("after_facts", "")
        if not isinstance(after, str):
            raise ValueError(f"refactx_after_facts is {after!r}: give a text")
        if after and limit is None:
            raise ValueError("refactx_after_facts is given without a limit of facts: give refactx_max_facts too")
        return cls(facts=facts is not False, max_facts=limit, after_facts=after)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1 or value < 1:
        raise ValueError(f"refactx_max_facts is {value!r}: give a whole number of at least 1")
    return int(value)


@dataclass(frozen=True, slots=True)
class Step:
    """A request in one step of the engine: the arguments of `RequestText.masks`."""

    text: RequestText
    length: int
    prompt_length: int
    unread: Sequence[int]
    drafts: Sequence[int] = ()

    def masks(self) -> list[Tokens | None]:
        """Return the ids that may follow, and those after each draft token, as `RequestText.masks`."""
        return self.text.masks(self.length, self.prompt_length, self.unread, self.drafts)


class Facts:
    """The facts of one index for the requests of an engine.

    `end`: the id of the end of sequence, for requests that do not have their own; `vocabulary`: the number of logits.
    """

    def __init__(self, machine: Machine, *, end: int, vocabulary: int) -> None:
        self._machine, self._end, self._vocabulary = machine, end, vocabulary
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="refactx")

    def text(self, params: Any) -> RequestText | None:
        """Return the text of a new request, given vLLM's `SamplingParams`; None if it has no facts. Never raises.

        Wrong options, which `RequestOptions.of` refuses when a request is sent, give a text that is closed.
        """
        # What ends the request: its end of sequence, else one of its stop ids, else the engine's own end.
        own, stops = getattr(params, "eos_token_id", None), getattr(params, "stop_token_ids", None) or ()
        end = int(own if own is not None else stops[0] if stops else self._end)
        machine = self._machine
        error: InputError | None = None
        try:
            options = RequestOptions.of(params)
            if not options.facts:
                return None
            if options.max_facts is not None:
                encode = machine.source.tokenizer.encode
                machine = machine.limited(FactLimit.of(encode, options.max_facts, options.after_facts, (end,)))
        except ValueError as wrong:
            error = InputError(str(wrong))
        return RequestText(machine, end=end, vocabulary=self._vocabulary, error=error)

    def masks(self, steps: Sequence[Step]) -> list[list[Tokens | None]]:
        """Return the masks of each step. Those that may look up wait for the database together. Never raises."""
        slow = {number for number, step in enumerate(steps) if step.text.may_look_up(step.unread)}
        if len(slow) < 2:
            return [step.masks() for step in steps]
        waiting = {number: self._threads.submit(steps[number].masks) for number in slow}
        return [waiting[number].result() if number in slow else step.masks() for number, step in enumerate(steps)]


def open_facts(config: Any) -> Facts:
    """Open the index `$REFACTX_INDEX` (by default `default`) of the database `$REFACTX_DB` for vLLM's `VllmConfig`.

    Raises TokenizerMismatchError if the model has another tokenizer than the index, ModelError if vLLM has none,
    IndexNotFoundError, DatabaseError, and InputError if vLLM is not installed. The error is logged as one line too,
    since vLLM reports an error at start-up as the tracebacks of three processes.
    """
    try:
        return _open_facts(config.model_config)
    except RefactxError as error:
        _log.error("refactx: %s", error)
        raise


def _open_facts(model: Any) -> Facts:
    require("vllm", "vllm")
    from vllm.tokenizers import cached_tokenizer_from_config

    from refactx.engines.transformers.processor import check_tokenizer

    tokenizer = cached_tokenizer_from_config(model)
    if tokenizer is None:
        raise ModelError("vLLM runs without a tokenizer: leave out --skip-tokenizer-init")
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        raise ModelError(
            f"vLLM uses the tokenizer {type(tokenizer).__name__}, which has no tokenizer.json: start it with "
            "--tokenizer-mode hf"
        )
    limits = limits_of_environment()
    if not os.environ.get("REFACTX_OUTAGE_SECONDS"):
        limits = Limits(limits.lookup, OUTAGE_SECONDS)
    index = open_index(os.environ.get("REFACTX_INDEX") or "default", limits=limits)
    try:
        check_tokenizer(index, tokenizer)
        facts = Facts(Machine(index), end=_end_of_model(model, tokenizer), vocabulary=model.get_vocab_size())
    except BaseException:
        index.close()
        raise
    _log.info("refactx: %s facts of index %r", f"{index.facts:,}", index.name)
    return facts


def _end_of_model(model: Any, tokenizer: Any) -> int:
    """Return the end of sequence of the tokenizer, else of the generation config, else of the model's config."""
    found = getattr(tokenizer, "eos_token_id", None)
    for config in (model.try_get_generation_config(), model.hf_config.to_dict()):
        found = config.get("eos_token_id") if found is None else found
    found = found[0] if isinstance(found, list | tuple) and found else found
    if not isinstance(found, int):
        raise ModelError("this model has no end of sequence: set eos_token_id in its generation_config.json")
    return found


def mask_rows(logits: torch.Tensor, allowed: Mapping[int, Tokens]) -> torch.Tensor:
    """Set all logits, float[rows, vocabulary], of some rows to minus infinity except those of the allowed ids.

    `allowed`: for the number of a row, int32[n], not empty; other rows stay as they are. If other rules have ruled out
    all ids that a row allows, these get 0: a row of minus infinities cannot be sampled. Returns `logits`, in which it
    works: six operations for all rows together, whatever their number.

    >>> mask_rows(torch.zeros(2, 3), {1: np.array([0, 2], np.int32)})
    tensor([[0., 0., 0.],
            [0., -inf, 0.]])
    """
    if not allowed:
        return logits
    numbers = np.fromiter(allowed, np.int64, len(allowed))
    sizes = [len(tokens) for tokens in allowed.values()]
    places = np.stack([np.repeat(np.arange(len(sizes)), sizes), np.concatenate(list(allowed.values()))])
    own, ids = torch.from_numpy(places.astype(np.int64)).to(logits.device)
    rows = torch.from_numpy(numbers).to(logits.device)
    kept = logits[rows[own], ids]
    best = torch.full((len(sizes),), -torch.inf, dtype=kept.dtype, device=kept.device)
    best.scatter_reduce_(0, own, kept, "amax")
    kept = torch.where(best[own] == -torch.inf, 0.0, kept)
    logits[rows] = -torch.inf
    logits[rows[own], ids] = kept
    return logits


def base_class(module: str, runner: str, since: str) -> Any:
    """Return the class `LogitsProcessor` of a module of vLLM; `object` if vLLM is not installed.

    `runner`: the name of the model runner; `since`: the first version of vLLM that has this interface. Raises
    ModelError, one line that vLLM's loader reports, if this version does not have it.

    >>> base_class("json", "V9", "99")
    Traceback (most recent call last):
    refactx.errors.ModelError: vLLM ... has no logits processors for model runner V9: install vllm>=99
    """
    if find_spec("vllm") is None and module.startswith("vllm."):
        return object
    try:
        return import_module(module).LogitsProcessor
    except (ImportError, AttributeError) as error:
        raise ModelError(
            f"vLLM {_version()} has no logits processors for model runner {runner}: install vllm>={since}"
        ) from error


def _version() -> str:
    return str(getattr(import_module("vllm"), "__version__", "")) if find_spec("vllm") else "(not installed)"
