"""How likely a fact makes a question: log p(question | examples, fact), by a few passes over many facts."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from refactx.chunks import IDS_A_PASS, ChunkedModel, passes
from refactx.prefix import Prefix
from refactx.state import InFact, Machine
from refactx.tree import Path

DESCRIBED = 4
"""So many words of a subject's description are read: the first say what kind of thing it is, and each id costs time."""

FIRST, RACED = 0.25, 8
"""Rows that run in a pass of at least `RACED` are compared behind so much of the question: one pass more costs as much as
some 16 ids (`refactx.chunks.PASS_IDS`)."""


class QuestionScore:
    """Of one question. `question`: its ids, behind what introduces it; `lead`: how many of them introduce it and are not
    scored. `examples`: facts with their questions, run through the model once. Threads may share it.
    """

    def __init__(self, model: Any, examples: Prefix, question: Sequence[int], lead: int) -> None:
        self._model, self._examples, self._question, self._lead = model, examples, list(question), lead
        self._of_nothing: float | None = None

    def behind(self, machine: Machine, subjects: Sequence[tuple[InFact, str]]) -> ChunkedModel:
        """The model behind the examples and each of some facts so far, a row for each of `subjects`: the state behind it, and
        what else to call it, if not by its name.

        Who asks says an alias where one led there. Of a description the first words are read. Where a fact of the text led to
        the subject, as its object, it comes first: a question of two steps asks for both.
        """
        model = self._behind_examples()
        model.select([0] * len(subjects))
        model.feed([_begun(machine, state, alias) for state, alias in subjects])
        return model

    def compared(
        self, machine: Machine, subjects: Sequence[tuple[InFact, str]]
    ) -> tuple[ChunkedModel, NDArray[np.float64]]:
        """`behind`, and the log-probability of the question right behind each of them: float64[len(subjects)].

        All are read in one pass, and with them, the first time, what `of_nothing` needs, unless that is too many logits.
        (A single one that would have a pass for itself alone gets 0.)
        """
        if len(subjects) == 1 and self._of_nothing is not None:
            return self.behind(machine, subjects), np.zeros(1)
        rows = [_begun(machine, state, alias) for state, alias in subjects]
        if self._of_nothing is None:
            rows.append(machine.source.tokenizer.encode(machine.source.trigger))
        scored, read = self._question[self._lead :], self._question[:-1]  # nobody asks what follows the last id
        if len(rows) * len(scored) > IDS_A_PASS:
            model = self.behind(machine, subjects)
            return model, self.likelihoods(model, [(row, ()) for row in range(len(subjects))])
        model = self._behind_examples()
        model.select([0] * len(rows))
        logits = model.feed([[*row, *read] for row in rows], last=len(scored))
        model.forget(len(read))
        model.select(range(len(subjects)))
        scores = _of_ids(logits, scored)
        if len(rows) > len(subjects):
            self._of_nothing = float(scores[-1])
        return model, scores[: len(subjects)]

    def of_nothing(self, machine: Machine) -> float:
        """The log-probability of the question behind no fact, where one might stand."""
        if self._of_nothing is None:
            trigger = tuple(machine.source.tokenizer.encode(machine.source.trigger))
            self._of_nothing = float(self.likelihoods(self._behind_examples(), [(0, trigger)])[0])
        return self._of_nothing

    def likelihoods(
        self,
        model: ChunkedModel,
        rows: Sequence[tuple[int, Path]],
        besides: NDArray[np.float64] | None = None,
        hopeless: float = math.inf,
    ) -> NDArray[np.float64]:
        """The log-probability of the question behind some ids of a row of the model (`behind`), for each of `rows`:
        float64[len(rows)]. `model` is left as it is.

        Of many rows those that lie behind the best by more than `hopeless` once a quarter of the question is read are read no
        further, and get minus infinity; `besides`, float64[len(rows)], is added to all for that.
        """
        begins, scored = [path for _, path in rows], len(self._question) - self._lead
        first = scored
        if len(rows) >= RACED and hopeless < math.inf:
            first = max(1, math.ceil(FIRST * scored))
        now, later = self._question[: self._lead + first], self._question[self._lead + first :]
        scores, begun = np.empty(len(rows)), []
        for some in passes([[*path, *now] for path in begins]):
            branch = model.branch()
            branch.select([rows[n][0] for n in some])
            read = now if later else now[:-1]  # nobody asks what follows the last id
            logits = branch.feed([[*begins[n], *read] for n in some], last=first + bool(later))
            scores[some] = _of_ids(logits[:, :first], now[self._lead :])
            if later:
                begun.append((some, branch, logits[:, -1:]))
        total = scores if besides is None else scores + besides
        least = total.max() - hopeless
        for some, branch, logits in begun:
            left = [n for n, number in enumerate(some) if total[number] >= least]
            scores[[number for number in some if total[number] < least]] = -np.inf
            if not left:
                continue
            branch.select(left)
            of_all = [logits[left]]
            if len(later) > 1:
                of_all.append(branch.feed([later[:-1]] * len(left), last=len(later) - 1))
            scores[[some[n] for n in left]] += _of_ids(torch.cat(of_all, dim=1), later)
        return scores

    def _behind_examples(self) -> ChunkedModel:
        ids = self._examples.ids
        inputs: dict[str, Any] = {
            "past_key_values": self._examples.cache_for_one(),
            "position_ids": torch.arange(ids.shape[1])[None],
        }
        if self._model._supports_logits_to_keep():
            inputs["logits_to_keep"] = 1
        return ChunkedModel(self._model, inputs, (1, ids.shape[1]))


def _of_ids(logits: torch.Tensor, ids: Sequence[int]) -> NDArray[np.float64]:
    """The log-probability of some ids in each row, float64[rows], from the logits in front of each, [rows, ids, vocabulary]."""
    logits = logits.to(torch.float32)
    wanted = torch.tensor(ids, device=logits.device)[None, :, None].expand(len(logits), -1, 1)
    of_ids = logits.gather(2, wanted)[..., 0] - logits.logsumexp(-1)
    found: NDArray[np.float64] = of_ids.sum(-1).numpy(force=True).astype(np.float64)
    return found


def _begun(machine: Machine, state: InFact, alias: str) -> Sequence[int]:
    """The ids of a fact so far, from its trigger on, behind the one that led to it."""
    encode = machine.source.tokenizer.encode
    trigger, reason = encode(machine.source.trigger), _reason(machine, state)
    before = [*trigger, *reason, *encode("\n")] if reason else []
    return [*before, *trigger, *_briefly(machine, state.prefix, alias)]


def _briefly(machine: Machine, prefix: Sequence[int], alias: str) -> Sequence[int]:
    """The ids of a fact so far, with the first words of its subject's description alone, and with an alias for its name."""
    text = machine.text_of(prefix).decode("utf-8", "replace")
    subject, bracket, behind = text.partition(">")
    name, opened, described = subject.partition(" (")
    words = described.split(" ") if opened and described.endswith(")") else []
    if not bracket or (not alias and len(words) <= DESCRIBED):
        return prefix
    brief = f" <{alias}" if alias else name
    if words:
        brief += f" ({' '.join(words[:DESCRIBED])}" + ")" * (len(words) > DESCRIBED)
    return machine.source.tokenizer.encode_after(machine.source.trigger, f"{brief}>{behind}")


def _reason(machine: Machine, state: InFact) -> tuple[int, ...]:
    """The last fact that leads to the subject of this one, as its object."""
    subject = machine.text_of(state.prefix).partition(b">")[0].strip()
    for fact in reversed(state.facts):
        if machine.text_of(fact.tokens).strip().removesuffix(b">").endswith(subject):
            return (*fact.tokens, *machine.source.tokenizer.encode(machine.source.terminator))
    return ()
