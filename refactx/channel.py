"""Choosing a fact by the question: which property would make somebody ask it?

Small models write a subject well and a property badly: "what timezone is arizona in?" wants `located in time zone`, which
begins like `located in ...`. Turned around it is easy: of all properties that the subject has, the question is likeliest
behind the right one. So behind a subject each property of the tree is scored by

    log p(question | examples, fact so far with the property)  +  weight * log p(property | text so far)

the noisy channel (Min et al., arXiv 2108.04106), with the same model; the second term is that of its own choice, among
what the tree allows. A few passes score them all. Of subjects with the same name, told apart by what stands in brackets
behind it, the one with more facts is meant more often: its share of the facts is its prior. Everything written still
comes from the tree.

Once a fact is written, the other facts of its subject and property follow, as a question may have several answers. Then
the model chooses between another fact and its answer, and nothing else: small ones tend to end the text there.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from refactx.chunks import ChunkedModel
from refactx.fact import DESCRIPTIONS
from refactx.prefix import Prefix
from refactx.state import Free, InFact, Machine, State, Written

IDS_A_PASS, ROWS_A_PASS = 256, 16
"""Most ids and rows of a pass over properties: they bound the logits, and the copies of the text's keys and values."""


@dataclass(frozen=True, slots=True)
class ChannelOptions:
    """`own`: weight of the model's own choice of a property; `prior`: weight of the logarithm of a subject's share of the
    facts; `properties`: most of a subject's properties to score, the model's own favourites; `values`: most facts of one
    subject and property in a row; `again`: how much likelier than the answer another fact has to be behind these, as a
    difference of logarithms (small models go on for ever).
    """

    own: float = 0.15
    prior: float = 0.5
    properties: int = 40
    values: int = 6
    again: float = 4.0


class Channel:
    """The choice of facts for one question, in one text.

    `question`: its ids, behind what introduces it; `lead`: how many of `question`'s ids introduce it and are not scored.
    `examples`: facts with their questions, run through the model once. `marker`: the text that begins the answer, as a line
    behind facts does unless it begins another fact; empty: such lines are free. Holds nothing of the text: threads may share
    it.
    """

    def __init__(
        self,
        model: Any,
        examples: Prefix,
        question: Sequence[int],
        lead: int,
        marker: str = "",
        options: ChannelOptions | None = None,
    ) -> None:
        self._model, self._examples, self._marker = model, examples, marker
        self._question, self._lead, self._options = list(question), lead, options or ChannelOptions()

    def decides(self, machine: Machine, state: State) -> bool:
        """Whether the next ids are a property to be chosen here, from a model that has read the text and no more."""
        if not isinstance(state, InFact):
            return False
        _, closed, behind = machine_bytes(machine, state.prefix).partition(b">")
        return bool(closed) and behind.strip() in (b"", b"<")

    def choose(
        self, machine: Machine, state: InFact, position: int, model: ChunkedModel, logits: torch.Tensor
    ) -> Sequence[int]:
        """The next ids in a fact: one of its subject, or a whole property; none where the model is to choose by itself.

        `logits`: float[1, n, vocabulary], the last of which stand behind the text so far, whose next id has `position`.
        `model` is left as it is.
        """
        if self.decides(machine, state):
            return self._property(machine, state, position, model, logits)
        text, children = machine_bytes(machine, state.prefix), state.children
        if b">" in text:
            return ()
        scores = _among(logits[0, -1], children.tokens)
        if b"(" in text:  # the name is written: which of those who have it?
            scores += self._options.prior * np.log(children.leaves / children.leaves.sum())
        return (int(children.tokens[int(scores.argmax())]),)

    def follow(self, machine: Machine, state: State) -> Sequence[int]:
        """What is to be written right behind a fact: the beginning of another of its subject and property, if one is left,
        else the end of the line.
        """
        if not isinstance(state, Free) or not state.facts:
            return ()
        encode, at_line = machine.source.tokenizer.encode, state.tail.endswith(b"\n")
        begins = _until_object(machine, state.facts[-1].tokens)
        same = sum(fact.tokens[: len(begins)] == begins for fact in state.facts)
        if begins and same < self._options.values and _left(machine, state.facts, begins):
            trigger = encode(machine.source.trigger if at_line else f"\n{machine.source.trigger}")
            if isinstance(_after(machine, state, trigger), InFact):  # else a limit of facts is reached
                return (*trigger, *begins)
        return () if at_line or not self._marker else tuple(encode("\n"))

    def next_line(self, machine: Machine, state: State, logits: torch.Tensor) -> Sequence[int]:
        """The line's first ids right behind facts: another fact's, if one is left, or the answer's; none elsewhere."""
        if not self._marker or not isinstance(state, Free) or not state.facts:
            return ()
        cut = len(machine.trigger.tail(state.tail + b".")) == len(state.tail)  # else that is all that stands behind it
        if cut or not state.tail.isspace() or not state.tail.endswith(b"\n"):
            return ()
        fact, answer = (machine.source.tokenizer.encode(text) for text in (machine.source.trigger, self._marker))
        if not _left(machine, state.facts, ()):
            return answer
        more = float(logits[0, -1, fact[0]] - logits[0, -1, answer[0]])
        return () if fact[0] == answer[0] else fact if more > self._options.again else answer

    def _property(
        self, machine: Machine, state: InFact, position: int, model: ChunkedModel, logits: torch.Tensor
    ) -> Sequence[int]:
        found = properties(machine, state, position)
        found = [ids for ids in found if _part(machine, ids) not in DESCRIPTIONS] or found  # they answer nothing else
        if len(found) < 2:
            return found[0] if found else ()
        own = self._own(found, model, logits)
        best = np.argsort(-own, kind="stable")[: self._options.properties]
        scores = self._likelihoods(machine, state, [found[n] for n in best]) + self._options.own * own[best]
        return found[int(best[int(scores.argmax())])]

    def _own(self, found: Sequence[tuple[int, ...]], model: ChunkedModel, logits: torch.Tensor) -> NDArray[np.float64]:
        """The log-probability of each property, among those found, as the model would go on by itself."""
        below: dict[tuple[int, ...], set[int]] = {}
        for ids in found:
            for depth, token in enumerate(ids):
                below.setdefault(ids[:depth], set()).add(token)
        forks = {path: sorted(tokens) for path, tokens in below.items() if len(tokens) > 1}
        paths = [path for path in forks if path]
        behind: dict[tuple[int, ...], torch.Tensor] = {(): logits[0, -1]}
        for some in _passes(paths):
            branch = model.branch()
            branch.select([0] * len(some))
            behind |= dict(zip((paths[n] for n in some), branch.feed([paths[n] for n in some])[:, -1], strict=True))
        steps = {
            (*path, token): score
            for path, tokens in forks.items()
            for token, score in zip(tokens, _among(behind[path], np.array(tokens)), strict=True)
        }
        return np.array([sum(steps.get(ids[: depth + 1], 0.0) for depth in range(len(ids))) for ids in found])

    def _likelihoods(self, machine: Machine, state: InFact, found: Sequence[tuple[int, ...]]) -> NDArray[np.float64]:
        """The log-probability of the question behind the fact with each property."""
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
        reason = _reason(machine, state)
        before = [*trigger, *reason, *newline] if reason else []
        model.feed([[*before, *trigger, *state.prefix]])
        rows = [[*path, *self._question] for path in found]
        scores = np.empty(len(rows))
        scored = len(self._question) - self._lead
        wanted = torch.tensor(self._question[self._lead :])
        for some in _passes(rows):
            branch = model.branch()
            branch.select([0] * len(some))
            logits = branch.feed([rows[n] for n in some], last=scored + 1)[:, :-1].to(torch.float32)
            index = wanted.to(logits.device)[None, :, None].expand(len(some), -1, 1)
            of_ids = logits.gather(2, index)[..., 0] - logits.logsumexp(-1)
            scores[some] = of_ids.sum(-1).numpy(force=True)
        return scores


def properties(machine: Machine, state: InFact, position: int, most: int = 128) -> list[tuple[int, ...]]:
    """The properties that may follow a subject: the ids of each to its closing bracket, those with most facts first.

    A subject's other facts of this text count no more (`state`). At most `most` of them.
    """
    written = machine_bytes(machine, state.prefix).count(b">")
    heap: list[tuple[int, tuple[int, ...], InFact]] = [(-state.children.total, (), state)]
    found: list[tuple[int, ...]] = []
    while heap and len(found) < most:
        _, path, at = heapq.heappop(heap)
        if machine_bytes(machine, at.prefix).count(b">") > written:
            found.append(path)
            continue
        for token, count in zip(at.children.tokens.tolist(), at.children.leaves.tolist(), strict=True):
            after = machine.advance(at, token, position + len(path))
            if isinstance(after, InFact):
                heapq.heappush(heap, (-count, (*path, token), after))
    return found


def machine_bytes(machine: Machine, ids: Sequence[int]) -> bytes:
    """The text of ids."""
    return b"".join(map(machine.bytes_of, ids))


def _part(machine: Machine, ids: Sequence[int]) -> str:
    """The name of a property that ids write, without its brackets."""
    name = machine_bytes(machine, ids).partition(b">")[0]  # an id may go on behind the bracket: `> <`
    return name.decode("utf-8", "replace").strip().removeprefix("<")


def _among(logits: torch.Tensor, tokens: NDArray[np.integer]) -> NDArray[np.float64]:
    """Log-probabilities of some ids, of which one has to come, float64[n]."""
    index = torch.as_tensor(tokens.astype(np.int64), device=logits.device)
    found: NDArray[np.float64] = logits[index].to(torch.float32).log_softmax(-1).numpy(force=True).astype(np.float64)
    return found


def _until_object(machine: Machine, tokens: Sequence[int]) -> tuple[int, ...]:
    """A fact's ids up to where its property is closed; none where an id goes on into the object."""
    closed = 0
    for count, token in enumerate(tokens, 1):
        piece = machine.bytes_of(token)
        closed += piece.count(b">")
        if closed >= 2:
            behind = piece.rpartition(b">")[2].strip()
            return tuple(tokens[:count]) if closed == 2 and behind in (b"", b"<") else ()
    return ()


def _left(machine: Machine, facts: tuple[Written, ...], prefix: Sequence[int]) -> bool:
    """Whether there are facts under a prefix that are not among `facts`."""
    state = _after(machine, machine.begin(0, facts), prefix)
    return isinstance(state, InFact) and state.children.total > 0


def _after(machine: Machine, state: State, ids: Sequence[int]) -> State:
    """The state behind some more ids, wherever they stand."""
    for token in ids:
        state = machine.advance(state, token, 0)
    return state


def _passes(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    """The numbers of rows that go through the model together, short ones first: padding is little then."""
    order = sorted(range(len(rows)), key=lambda n: len(rows[n]))
    step = max(1, min(ROWS_A_PASS, IDS_A_PASS // max(map(len, rows), default=1)))
    return [order[first : first + step] for first in range(0, len(order), step)]


def _reason(machine: Machine, state: InFact) -> tuple[int, ...]:
    """The last fact that leads to the subject of this one, as its object: a question of two steps asks for both."""
    subject = machine_bytes(machine, state.prefix).partition(b">")[0].strip()
    for fact in reversed(state.facts):
        if machine_bytes(machine, fact.tokens).strip().removesuffix(b">").endswith(subject):
            return (*fact.tokens, *machine.source.tokenizer.encode(machine.source.terminator))
    return ()
