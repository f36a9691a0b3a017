"""What all requests of a running vLLM share: the index, and the threads that look up several requests together."""

import logging
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from refactx.connect import open_index
from refactx.decoding.machine import Machine
from refactx.decoding.states import FactLimit
from refactx.engines.vllm.options import RequestOptions
from refactx.engines.vllm.text import RequestText
from refactx.errors import InputError, ModelError, RefactxError
from refactx.extras import require
from refactx.postgres.limits import Limits, limits_of_environment
from refactx.tree.children import Tokens

_log = logging.getLogger(__name__)

OUTAGE_SECONDS = 5.0
"""How long a lookup waits for a database that went away, unless REFACTX_OUTAGE_SECONDS says so: a restart takes some
seconds, and all requests of the engine wait with it."""

_THREADS = 8  # the connections of `refactx.postgres.Database`


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
        end = _end_of(params, self._end)
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

    from refactx.engines.hf.processor import check_tokenizer

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


def _end_of(params: Any, default: int) -> int:
    """Return the id that ends a request: its end of sequence, else one of its stop ids, else `default`."""
    own = getattr(params, "eos_token_id", None)
    stops = getattr(params, "stop_token_ids", None) or ()
    return int(own if own is not None else stops[0] if stops else default)


def _end_of_model(model: Any, tokenizer: Any) -> int:
    """Return the end of sequence of the tokenizer, else of the generation config, else of the model's config."""
    found = getattr(tokenizer, "eos_token_id", None)
    for config in (model.try_get_generation_config(), model.hf_config.to_dict()):
        found = config.get("eos_token_id") if found is None else found
    found = found[0] if isinstance(found, list | tuple) and found else found
    if not isinstance(found, int):
        raise ModelError("this model has no end of sequence: set eos_token_id in its generation_config.json")
    return found
