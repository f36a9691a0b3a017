"""What a fact may be about: the subjects that a model would write, and the properties that a subject has.

All of them are paths in the tree. Subjects are found by a beam search over names; behind a name that several have, told apart
by what stands in brackets, come those with most facts.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from refactx.chunks import ChunkedModel, passes
from refactx.mask import forced
from refactx.state import InFact, Machine

Path = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """How many subjects there may be: `names`, and of each name so many `namesakes`, those with most facts. No name that the
    model finds less likely than the likeliest by more than `unlikely`, a difference of logarithms.
    """

    names: int = 6
    namesakes: int = 3
    unlikely: float = 7.0


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject: its `ids` behind the text so far, to its closing bracket, and the `state` behind these.

    `own`: the log-probability of its name as the model would go on by itself, that of ids without an alternative left out;
    `share`: of the facts of all who have this name, how many are its own, 0 to 1.
    """

    ids: Path
    state: InFact
    own: float = 0.0
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class _Name:
    """The beginning of a name. `pending`: the last of its ids, which the model has not read; `row`: its row in the model."""

    ids: Path
    state: InFact
    own: float
    row: int
    pending: int = 0


def subjects(
    machine: Machine,
    state: InFact,
    position: int,
    model: ChunkedModel,
    logits: torch.Tensor,
    limits: Limits,
) -> list[Subject]:
    """The subjects that the model may mean, likeliest names first.

    `state`: in a subject, or in front of it; `logits`: float[1, n, vocabulary], the last of which stand behind the text so
    far, whose next id has `position`. `model` is left as it is.
    """
    found: list[Subject] = []
    for name in _names(machine, state, position, model, logits, limits.names):
        if found and name.own < found[0].own - limits.unlikely:
            break
        total = name.state.children.total
        if b">" in machine.text_of(name.state.prefix):
            found.append(Subject(name.ids, name.state, name.own))
            continue
        ends = _most_facts(machine, name.state, position + len(name.ids), limits.namesakes, lambda text: b">" in text)
        found += [Subject((*name.ids, *path), at, name.own, at.children.total / total) for path, at in ends]
    return found


def properties(machine: Machine, state: InFact, position: int, most: int = 128) -> list[Path]:
    """The properties that may follow a subject: the ids of each to its closing bracket, those with most facts first.

    A subject's other facts of this text count no more (`state`). At most `most` of them.
    """
    written = machine.text_of(state.prefix).count(b">")
    return [path for path, _ in _most_facts(machine, state, position, most, lambda text: text.count(b">") > written)]


def own_choice(
    behind: Sequence[Path], options: Sequence[tuple[int, Path]], model: ChunkedModel, logits: torch.Tensor
) -> NDArray[np.float64]:
    """The log-probability of each property, among those of its subject, as the model would go on by itself: float64[n].

    `behind`: the ids of the subjects behind the text so far, of all of them or of none; `options`: the number of a subject, and
    the ids of a property. `logits` and `model` as in `subjects`.
    """
    below: dict[tuple[int, Path], set[int]] = {}
    for number, ids in options:
        for depth, token in enumerate(ids):
            below.setdefault((number, ids[:depth]), set()).add(token)
    forks = {at: sorted(tokens) for at, tokens in below.items() if len(tokens) > 1}
    model = model.branch()
    first = logits[:, -1].expand(len(behind), -1)
    if any(behind):
        model.select([0] * len(behind))
        first = model.feed(behind)[:, -1]
    scores = {at: first[at[0]] for at in forks if not at[1]}
    paths = [at for at in forks if at[1]]
    for some in passes([path for _, path in paths]):
        branch = model.branch()
        branch.select([paths[n][0] for n in some])
        read = branch.feed([paths[n][1] for n in some])[:, -1]
        scores |= dict(zip((paths[n] for n in some), read, strict=True))
    steps = {
        (number, (*path, token)): score
        for (number, path), tokens in forks.items()
        for token, score in zip(tokens, among(scores[number, path], np.array(tokens)), strict=True)
    }
    return np.array(
        [sum(steps.get((number, ids[: depth + 1]), 0.0) for depth in range(len(ids))) for number, ids in options]
    )


def among(logits: torch.Tensor, tokens: NDArray[np.integer]) -> NDArray[np.float64]:
    """Log-probabilities of some ids, of which one has to come, float64[n]; `logits`: float[vocabulary]."""
    index = torch.as_tensor(tokens.astype(np.int64), device=logits.device)
    found: NDArray[np.float64] = logits[index].to(torch.float32).log_softmax(-1).numpy(force=True).astype(np.float64)
    return found


def _names(
    machine: Machine, state: InFact, position: int, model: ChunkedModel, logits: torch.Tensor, beams: int
) -> list[_Name]:
    """The likeliest names, to the closing bracket or to the one that tells namesakes apart.

    The sum is of the whole vocabulary's log-probabilities: so a name that the model was forced into, since the tree has
    nothing better behind a good beginning, is an unlikely one.
    """
    if _is_name(machine, state):
        return [_Name((), state, 0.0, 0)]
    model, behind = model.branch(), logits[:, -1]
    running, done = [_Name((), state, 0.0, 0)], list[_Name]()
    while True:
        choices = zip(running, behind, strict=True)
        grown = [longer for name, scores in choices for longer in _grown(machine, name, position, scores, beams)]
        running = []
        for longer in heapq.nlargest(beams, grown, key=lambda name: name.own):
            name = _forced(machine, longer, position)
            (done if _is_name(machine, name.state) else running).append(name)
        done = heapq.nlargest(beams, done, key=lambda name: name.own)
        if len(done) == beams:  # sums fall
            running = [name for name in running if name.own > done[-1].own]
        if not running:
            return done
        model.select([name.row for name in running])
        behind = model.feed([name.ids[len(name.ids) - name.pending :] for name in running])[:, -1]
        running = [_Name(name.ids, name.state, name.own, row) for row, name in enumerate(running)]


def _grown(machine: Machine, name: _Name, position: int, logits: torch.Tensor, most: int) -> Iterator[_Name]:
    """A name with each of the `most` likeliest ids that may follow; `logits`: float[vocabulary]."""
    tokens = name.state.children.tokens
    index = torch.as_tensor(tokens.astype(np.int64), device=logits.device)
    scores = logits.to(torch.float32).log_softmax(-1)[index].numpy(force=True) * (len(tokens) > 1)
    best = np.argpartition(-scores, most - 1)[:most] if len(tokens) > most else np.arange(len(tokens))
    for token, score in zip(tokens[best].tolist(), scores[best].tolist(), strict=True):
        state = machine.advance(name.state, token, position + len(name.ids))
        if isinstance(state, InFact):
            yield _Name((*name.ids, token), state, name.own + score, name.row, 1)


def _forced(machine: Machine, name: _Name, position: int) -> _Name:
    """With the ids that have no alternative, to the end of the name at most."""
    ids, state = name.ids, name.state
    while not _is_name(machine, state) and (token := forced(machine, state)) is not None:
        after = machine.advance(state, token, position + len(ids))
        if not isinstance(after, InFact):
            break
        ids, state = (*ids, token), after
    return _Name(ids, state, name.own, name.row, name.pending + len(ids) - len(name.ids))


def _most_facts(
    machine: Machine, state: InFact, position: int, most: int, ends: Callable[[bytes], bool]
) -> list[tuple[Path, InFact]]:
    """The ways on from a state to the first ids behind which the text `ends`, those with most facts first."""
    heap: list[tuple[int, Path, InFact]] = [(-state.children.total, (), state)]
    found: list[tuple[Path, InFact]] = []
    while heap and len(found) < most:
        _, path, at = heapq.heappop(heap)
        if ends(machine.text_of(at.prefix)):
            found.append((path, at))
            continue
        for token, count in zip(at.children.tokens.tolist(), at.children.leaves.tolist(), strict=True):
            after = machine.advance(at, token, position + len(path))
            if isinstance(after, InFact):
                heapq.heappush(heap, (-count, (*path, token), after))
    return found


def _is_name(machine: Machine, state: InFact) -> bool:
    text = machine.text_of(state.prefix)
    return b">" in text or b" (" in text
