"""The logits processor for vLLM's V2 model runner, whose requests have slots, and rows in another order each step.

Prompts and outputs are on the device. In most steps a request has one new id, which is its row's input: only what the
step's layout does not have is copied from the device.
"""

from collections import defaultdict
from typing import Any, Self

import torch

from refactx.engines.vllm.text import Facts, RequestOptions, RequestText, Step, base_class, mask_rows, open_facts
from refactx.tree.tree import Tokens

_MODULE = "vllm.v1.worker.gpu.sample.logits_processor"


class FactLogitsProcessorV2(base_class(_MODULE, "V2", "0.31")):  # type: ignore[misc]
    """Holds each request of vLLM's V2 model runner to the facts of the index `$REFACTX_INDEX` of `$REFACTX_DB`.

    vLLM makes it: load it with `--logits-processors`. Raises as `open_facts` does.
    """

    def __init__(self, vllm_config: Any, req_states: Any) -> None:
        self._set_up(open_facts(vllm_config), req_states)

    @classmethod
    def over(cls, facts: Facts, req_states: Any) -> Self:
        """Return a processor over facts that are open already. `req_states`: a `LogitsProcRequestState`."""
        processor = cls.__new__(cls)
        processor._set_up(facts, req_states)
        return processor

    def _set_up(self, facts: Facts, req_states: Any) -> None:
        self._facts, self._requests = facts, req_states
        self._texts: dict[int, RequestText] = {}  # by slot

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Raise ValueError if `extra_args` has wrong options; vLLM answers the request with it (HTTP 400)."""
        RequestOptions.of(sampling_params)

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """Begin the request in a slot, whatever that had before. Return whether it has facts."""
        text = self._facts.text(sampling_params)
        self._texts.pop(req_idx, None)
        if text is not None:
            self._texts[req_idx] = text
        return text is not None

    def apply_staged_writes(self) -> None:
        """Do nothing: there is nothing to copy to the device before a step."""

    def apply(self, logits: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Mask the logits, float32[rows, vocabulary], in place and return them. No request makes it raise.

        `ctx`: a `LogitsContext`. Rows of requests whose prompt is computed in part are left alone, as are those of
        requests without facts.
        """
        if not any(slot in self._texts for slot in ctx.idx_mapping_np.tolist()):
            return logits
        layout = (ctx.expanded_idx_mapping, ctx.expanded_local_pos, ctx.pos, ctx.input_ids)
        rows: dict[int, list[tuple[int, int, int, int]]] = defaultdict(list)
        for number, (slot, offset, position, token) in enumerate(
            torch.stack([part.to(torch.int64) for part in layout], dim=1).tolist()
        ):
            if slot in self._texts:
                rows[slot].append((offset, number, position, token))
        steps: dict[int, Step] = {}
        for slot, own in rows.items():
            own.sort()  # the row after the text first, then those after each draft token
            _, _, position, token = own[0]
            if position + 1 >= int(self._requests.prefill_len.np[slot]):
                steps[slot] = self._step(slot, position + 1, token, [token for *_, token in own[1:]])
        masks: dict[int, Tokens] = {}
        for slot, found in zip(steps, self._facts.masks(list(steps.values())), strict=True):
            masks |= {row[1]: mask for row, mask in zip(rows[slot], found, strict=True) if mask is not None}
        return mask_rows(logits, masks)

    def _step(self, slot: int, length: int, last: int, drafts: list[int]) -> Step:
        """Return the step of the request in a slot, whose `length` ids end in `last`."""
        text = self._texts[slot]
        first = text.first_unread(length)
        if first == length - 1:
            unread = [last]
        else:
            unread = self._requests.all_token_ids.gpu[slot, first:length].tolist()
        return Step(text, length, int(self._requests.prompt_len.np[slot]), unread, drafts)
