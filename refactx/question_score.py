"""How likely a fact makes a question: log p(question | examples, fact), by a few passes over many facts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from refactx.candidates import Path
from refactx.chunks import ChunkedModel, passes
from refactx.prefix import Prefix
from refactx.state import InFact, Machine


class QuestionScore:
    """Of one question. `question`: its ids, behind what introduces it; `lead`: how many of them introduce it and are not
    scored. `examples`: facts with their questions, run through the model once. Threads may share it.
    """

    def __init__(self, model: Any, examples: Prefix, question: Sequence[int], lead: int) -> None:
        self._model, self._examples, self._question, self._lead = model, examples, list(question), lead

    def behind(self, machine: Machine, states: Sequence[InFact]) -> ChunkedModel:
        """The model behind the examples and each of some facts so far: a row for each of `states`.

        Where a fact of the text led to the subject, as its object, it comes first: a question of two steps asks for both.
        """
        ids = self._examples.ids
        inputs: dict[str, Any] = {
            "past_key_values": self._examples.cache_for_one(),
            "position_ids": torch.arange(ids.shape[1])[None],
        }
        if self._model._supports_logits_to_keep():
            inputs["logits_to_keep"] = 1
        model = ChunkedModel(self._model, inputs, (1, ids.shape[1]))
        encode = machine.source.tokenizer.encode
        trigger, newline = encode(machine.source.trigger), encode("\n")
        rows = []
        for state in states:
            reason = _reason(machine, state)
            before = [*trigger, *reason, *newline] if reason else []
            rows.append([*before, *trigger, *state.prefix])
        model.select([0] * len(rows))
        model.feed(rows)
        return model

    def likelihoods(self, model: ChunkedModel, rows: Sequence[tuple[int, Path]]) -> NDArray[np.float64]:
        """The log-probability of the question behind some ids of a row of the model (`behind`), for each of `rows`:
        float64[len(rows)]. `model` is left as it is.
        """
        chunks = [[*path, *self._question] for _, path in rows]
        scores = np.empty(len(rows))
        scored = len(self._question) - self._lead
        wanted = torch.tensor(self._question[self._lead :])
        for some in passes(chunks):
            branch = model.branch()
            branch.select([rows[n][0] for n in some])
            logits = branch.feed([chunks[n] for n in some], last=scored + 1)[:, :-1].to(torch.float32)
            index = wanted.to(logits.device)[None, :, None].expand(len(some), -1, 1)
            of_ids = logits.gather(2, index)[..., 0] - logits.logsumexp(-1)
            scores[some] = of_ids.sum(-1).numpy(force=True)
        return scores


def _reason(machine: Machine, state: InFact) -> tuple[int, ...]:
    """The last fact that leads to the subject of this one, as its object."""
    subject = machine.text_of(state.prefix).partition(b">")[0].strip()
    for fact in reversed(state.facts):
        if machine.text_of(fact.tokens).strip().removesuffix(b">").endswith(subject):
            return (*fact.tokens, *machine.source.tokenizer.encode(machine.source.terminator))
    return ()
