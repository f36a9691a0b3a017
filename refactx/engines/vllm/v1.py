"""The logits processor for vLLM's V1 model runner, whose requests are rows of a batch that change their places."""

from dataclasses import dataclass
from typing import Any, Self

import torch

from refactx.engines.vllm.text import Facts, RequestOptions, RequestText, Step, base_class, mask_rows, open_facts


@dataclass(frozen=True, slots=True)
class _Row:
    """A request in the batch. `output` is vLLM's own list, to which it appends."""

    text: RequestText
    prompt: list[int]
    output: list[int]

    def step(self) -> Step:
        before, length = len(self.prompt), len(self.prompt) + len(self.output)
        first = self.text.first_unread(length)
        return Step(self.text, length, before, self.prompt[first:] + self.output[max(0, first - before) :])


class FactLogitsProcessorV1(base_class("vllm.v1.sample.logits_processor", "V1", "0.20")):  # type: ignore[misc]
    """Holds each request of vLLM's V1 model runner to the facts of the index `$REFACTX_INDEX` of `$REFACTX_DB`.

    vLLM makes it: load it with `--logits-processors`, not as an entry point. Raises as `open_facts` does.
    """

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        self._set_up(open_facts(vllm_config))

    @classmethod
    def over(cls, facts: Facts) -> Self:
        """Return a processor over facts that are open already."""
        processor = cls.__new__(cls)
        processor._set_up(facts)
        return processor

    def _set_up(self, facts: Facts) -> None:
        self._facts = facts
        self._rows: dict[int, _Row] = {}

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Raise ValueError if `extra_args` has wrong options; vLLM answers the request with it (HTTP 400)."""
        RequestOptions.of(sampling_params)

    def is_argmax_invariant(self) -> bool:
        """Return False: the mask changes which id is the likeliest."""
        return False

    def update_state(self, batch_update: Any) -> None:
        """Follow the changes of the batch, a `BatchUpdate` or None: rows removed, then added, then moved."""
        if batch_update is None:
            return
        for number in batch_update.removed:
            self._rows.pop(number, None)
        for number, params, prompt, output in batch_update.added:
            text = self._facts.text(params)
            self._rows.pop(number, None)
            if text is not None:
                self._rows[number] = _Row(text, prompt or [], output)
        for a, b, direction in batch_update.moved:
            from_a, from_b = self._rows.pop(a, None), self._rows.pop(b, None)
            if from_a is not None:
                self._rows[b] = from_a
            if from_b is not None and direction.name == "SWAP":
                self._rows[a] = from_b

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Mask the logits, float32[rows, vocabulary], in place and return them. No request makes it raise.

        vLLM also asks for the next id of a request whose prompt is computed in part, and discards it: the row is masked
        as after its whole prompt, which changes nothing later.
        """
        rows = {number: row for number, row in self._rows.items() if number < len(logits)}
        found = self._facts.masks([row.step() for row in rows.values()])
        masks = {number: mask for number, (mask,) in zip(rows, found, strict=True) if mask is not None}
        return mask_rows(logits, masks)
