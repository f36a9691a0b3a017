"""The losses of lessons: of what a model decides in texts, and of the channel's choices.

That of a decision is the cross-entropy over the ids that may stand there: those that the tree of facts allows, or any in free
text. Only decisions have logits, so memory does not grow with the number of facts.
"""

from collections.abc import Sequence
from inspect import signature
from itertools import groupby
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from refactx.ask.choices import TextChoice
from refactx.ask.lessons import Lesson
from refactx.engines.transformers.rows import WITH_CELLS, copy_cache


class ReadExamples:
    """The keys and values of examples, without gradients: they are read once for the same weights, those of one `step`."""

    def __init__(self) -> None:
        self._step, self._read = -1, dict[tuple[int, ...], DynamicCache | None]()

    def of(self, model: Any, examples: torch.Tensor, rows: int, step: int) -> DynamicCache | None:
        """Return those of examples, int64[1, n], for each of some rows; None if the model has states of other kinds."""
        if step != self._step:
            self._step, self._read = step, {}
        ids = tuple(examples[0].tolist())
        if ids not in self._read:
            trains = model.training
            model.eval()
            with torch.no_grad():
                past = getattr(model(input_ids=examples, use_cache=True), "past_key_values", None)
            model.train(trains)
            fits = isinstance(past, DynamicCache) and all(type(layer) in WITH_CELLS for layer in past.layers)
            self._read[ids] = past if fits else None
        if (past := self._read[ids]) is None:
            return None
        copied = copy_cache(past)
        copied.batch_repeat_interleave(rows)
        return copied


def lesson_loss(model: Any, inputs: dict[str, Any], read: ReadExamples, step: int) -> tuple[torch.Tensor, Any]:
    """Return the loss of lessons, as `collate` returns them, by a model with an adapter: the mean of theirs, each the mean of
    its decisions and the sum of its choices. Also return the outputs of the model for their texts.

    `read`: the examples that were read before; `step`: the number of the weights.
    """
    logits, outputs = _logits(model, inputs["input_ids"], inputs["rows"], inputs["places"] - 1)
    loss = (decision_loss(logits, inputs["targets"], inputs["allowed"], inputs["sizes"]) * inputs["weights"]).sum()
    for some in inputs["choices"]:
        ids, places, past = (
            some["input_ids"],
            some["places"],
            read.of(model, some["examples"], len(some["input_ids"]), step),
        )
        if past is None:
            before = some["examples"].expand(len(ids), -1)
            ids, places = torch.cat([before, ids], 1), places + before.shape[1]
        logits, _ = _logits(model, ids, some["rows"], places - 1, past)
        losses = choice_loss(logits, some["targets"], some["rows"], some["groups"])
        loss = loss + losses.sum() / len(inputs["input_ids"])
    return loss, outputs


def _logits(
    model: Any, ids: torch.Tensor, rows: torch.Tensor, places: torch.Tensor, past: Any = None
) -> tuple[torch.Tensor, Any]:
    """Return the logits at `places` of `rows`, float[n, vocabulary], and the model's outputs; `past`: what it has read before.

    Padding needs no mask: it follows what is read.
    """
    more: dict[str, Any] = {"use_cache": False} if past is None else {"past_key_values": past, "use_cache": True}
    if "logits_to_keep" not in signature(model.get_base_model().forward).parameters:
        outputs = model(input_ids=ids, **more)
        return outputs.logits[rows, places], outputs
    columns, numbers = torch.unique(places, return_inverse=True)
    outputs = model(input_ids=ids, logits_to_keep=columns, **more)
    return outputs.logits[rows, numbers], outputs


def decision_loss(
    logits: torch.Tensor, targets: torch.Tensor, allowed: torch.Tensor, sizes: torch.Tensor
) -> torch.Tensor:
    """Return the cross-entropy of each decision, float32[n].

    `logits`: float[n, vocabulary]; `targets`: int64[n]; `sizes`: int64[n], how many ids may stand at each place, 0: any;
    `allowed`: those ids, of one place after the other, int64[sizes.sum()].

    >>> logits = torch.tensor([[0.0, 0.0, 9.0], [0.0, 0.0, 0.0]])
    >>> decision_loss(logits, torch.tensor([0, 1]), torch.tensor([0, 1]), torch.tensor([2, 0])).exp()
    tensor([2., 3.])
    """
    logits = logits.float()
    rows = torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)
    few = logits[rows, allowed]
    highest = torch.zeros_like(logits[:, 0]).scatter_reduce(0, rows, few.detach(), "amax", include_self=False)
    sums = torch.zeros_like(highest).index_add(0, rows, (few - highest[rows]).exp())
    among = highest + sums.clamp_min(torch.finfo(sums.dtype).tiny).log()  # 0 where any id may stand
    totals = torch.where(sizes > 0, among, logits.logsumexp(1))
    return totals - logits.gather(1, targets[:, None])[:, 0]


def choice_loss(logits: torch.Tensor, targets: torch.Tensor, rows: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """Return the cross-entropy of each choice: of its first text, by the likelihoods of the question after all, float32[n].

    `logits`: float[ids, vocabulary]; `targets`, `rows`: int64[ids], the questions' ids and the number of the text of each;
    `groups`: int64[texts], the number of the choice of each text, ascending.

    >>> logits = torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    >>> choice_loss(logits, torch.tensor([0, 1, 0]), torch.tensor([0, 1, 1]), torch.tensor([0, 0])).exp()
    tensor([1.5000])
    """
    scores = logits.float().log_softmax(-1).gather(1, targets[:, None])[:, 0]
    likelihoods = torch.zeros(len(groups), device=scores.device).index_add(0, rows, scores)
    each = torch.split(likelihoods, groups.bincount().tolist())
    return torch.stack([one.logsumexp(0) - one[0] for one in each])


def collate(lessons: Sequence[Lesson]) -> dict[str, Any]:
    """Return lessons as tensors: `input_ids`, int64[lessons, length], padded at the end; for their decisions, `rows` and
    `places`, int64[n], `weights`, float32[n], by which each lesson counts the same, and what `decision_loss` takes. `choices`:
    of those with the same examples, what `stack_choices` returns."""
    ids = torch.zeros(len(lessons), max(len(one.ids) for one in lessons), dtype=torch.int64)
    for number, lesson in enumerate(lessons):
        ids[number, : len(lesson.ids)] = torch.from_numpy(lesson.ids)
    counts = torch.tensor([len(one.places) for one in lessons])
    rows = torch.arange(len(lessons)).repeat_interleave(counts)
    places = torch.from_numpy(np.concatenate([one.places for one in lessons])).long()
    allowed = [np.empty(0, np.int32) if few is None else few for one in lessons for few in one.allowed]
    choices = sorted((one for lesson in lessons for one in lesson.choices), key=lambda one: one.examples)
    return {
        "input_ids": ids,
        "rows": rows,
        "places": places,
        "weights": (1 / counts / len(lessons))[rows],
        "targets": ids[rows, places],
        "allowed": torch.from_numpy(np.concatenate(allowed)).long(),
        "sizes": torch.tensor([len(few) for few in allowed]),
        "choices": [stack_choices(list(some)) for _, some in groupby(choices, lambda one: one.examples)],
    }


def stack_choices(choices: Sequence[TextChoice]) -> dict[str, torch.Tensor]:
    """Return the texts of choices, after the same examples, with their questions as `choice_loss` needs them.

    `examples`: int64[1, n]; `input_ids`: int64[texts, length], padded at the end; `groups`: int64[texts], the number of the
    choice of each; `rows`, `places`, `targets`: int64[ids], where ids of questions stand, and these.
    """
    texts = [(number, one, text) for number, one in enumerate(choices) for text in one.texts]
    ids = torch.zeros(len(texts), max(len(text) + len(one.question) for _, one, text in texts), dtype=torch.int64)
    rows, places = list[int](), list[int]()
    for row, (_, one, text) in enumerate(texts):
        whole = torch.tensor([*text, *one.question])
        ids[row, : len(whole)] = whole
        scored = range(len(text) + one.lead, len(whole))
        rows += [row] * len(scored)
        places += scored
    return {
        "examples": torch.tensor([choices[0].examples]),
        "input_ids": ids,
        "groups": torch.tensor([number for number, _, _ in texts]),
        "rows": torch.tensor(rows),
        "places": torch.tensor(places),
        "targets": ids[rows, places],
    }
