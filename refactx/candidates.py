"""What a fact may be about: the subjects that a model would write, and the properties that a subject has.

All of them are paths in the tree. Subjects are found by a beam search over names; of those that have a name, as theirs or as an
alias, come those with most facts (`refactx.namesakes`).
"""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from refactx.chunks import ChunkedModel, passes
from refactx.mask import forced
from refactx.namesakes import namesakes
from refactx.state import InFact, Machine
from refactx.tree import Path

WIDER = 4
"""So many times the properties that are wanted go on at each fork: what is unlikely there may have no other fork before it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many subjects there may be: `names`, and of each name so many `namesakes`, those with most facts. No name that the
    model finds less likely than the likeliest by more than `unlikely`, a difference of logarithms.
    """

    names: int = 6
    namesakes: int = 3
    unlikely: float = 9.0


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject: its `ids` behind the text so far, to its closing bracket, and the `state` behind these.

    `own`: the log-probability of its name as the model would go on by itself, that of ids without an alternative left out;
    `share`: of the facts of all who have this name, how many are its own, 0 to 1; `alias`: the one that led to it, if one did.
    """

    ids: Path
    state: InFact
    own: float = 0.0
    share: float = 1.0
    alias: str = ""


@dataclass(frozen=True, slots=True)
class Property:
    """A property: the number of its `subject`, and its `ids` behind that, to its closing bracket.

    `own`: its log-probability as the model would go on by itself, among the subject's properties.
    """

    subject: int
    ids: Path
    own: float


@dataclass(frozen=True, slots=True)
class _Begun:
    """The beginning of a property."""

    subject: int
    ids: Path
    state: InFact
    own: float


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
    """The subjects that the model may mean, likeliest names first; one that two names may mean, by an alias, is there twice.

    `state`: in a subject, or in front of it; `logits`: float[1, n, vocabulary], the last of which stand behind the text so
    far, whose next id has `position`. `model` is left as it is.
    """
    return [
        Subject(one.ids, one.state, name.own, one.share, one.alias)
        for name in _names(machine, state, position, model, logits, limits)
        for one in namesakes(machine, state, name.ids, name.state, limits.namesakes)
    ]


def properties(
    machine: Machine,
    of: Sequence[Subject],
    position: int,
    model: ChunkedModel,
    logits: torch.Tensor,
    most: int,
    unlikely: float,
    full: Mapping[Path, int] | None = None,
) -> list[Property]:
    """The properties with facts left of some subjects: of each at most the `most` likeliest, none that is less likely than the
    likeliest by more than `unlikely`, a difference of logarithms.

    `full`: subjects with a property that is no candidate while the subject has others, as ids from the fact's first on, with
    how many facts each has left. The other arguments are as in `subjects`; either all subjects have ids or none.
    """
    brackets = [machine.text_of(one.state.prefix).count(b">") for one in of]

    def is_done(number: int, state: InFact) -> bool:
        return machine.text_of(state.prefix).count(b">") > brackets[number]

    def with_forced(one: _Begun) -> _Begun:
        ids, state = _forced(machine, one.ids, one.state, position, partial(is_done, one.subject))
        return _Begun(one.subject, ids, state, one.own)

    begun = [with_forced(_Begun(number, (), one.state, 0.0)) for number, one in enumerate(of)]
    done = [one for one in begun if is_done(one.subject, one.state)]
    running = [one for one in begun if not is_done(one.subject, one.state)]
    model, read = model.branch(), [len(one.ids) for one in begun]
    chunks = [(*subject.ids, *one.ids) for subject, one in zip(of, begun, strict=True)]
    if running and any(chunks):
        model.select([0] * len(of))
        logits = model.feed(chunks)
    behind = [logits[one.subject, -1] for one in running]
    while running:
        longer = [
            with_forced(one)
            for beginning, scores in zip(running, behind, strict=True)
            for one in _choices(machine, beginning, position, scores, WIDER * most, unlikely, full or {})
        ]
        wide = WIDER * most
        left = [one for number in range(len(of)) for one in _likeliest(number, [*done, *longer], wide, unlikely)]
        done = [one for one in left if is_done(one.subject, one.state)]
        running = [one for one in left if not is_done(one.subject, one.state)]
        behind = _behind(model, [(one.subject, one.ids[read[one.subject] :]) for one in running])
    best = [one for number in range(len(of)) for one in _likeliest(number, done, most, unlikely)]
    return [Property(one.subject, one.ids, one.own) for one in best]


def _names(
    machine: Machine, state: InFact, position: int, model: ChunkedModel, logits: torch.Tensor, limits: Limits
) -> list[_Name]:
    """The likeliest names, to the closing bracket or to the one that tells namesakes apart.

    The sum is of the whole vocabulary's log-probabilities: so a name that the model was forced into, since the tree has
    nothing better behind a good beginning, is an unlikely one.
    """

    def is_name(state: InFact) -> bool:
        text = machine.text_of(state.prefix)
        return b">" in text or b" (" in text

    if is_name(state):
        return [_Name((), state, 0.0, 0)]
    model, behind, beams = model.branch(), logits[:, -1], limits.names
    running, done = [_Name((), state, 0.0, 0)], list[_Name]()
    while True:
        choices = zip(running, behind, strict=True)
        grown = [longer for name, scores in choices for longer in _grown(machine, name, position, scores, beams)]
        running = []
        for longer in heapq.nlargest(beams, grown, key=lambda name: name.own):
            ids, at = _forced(machine, longer.ids, longer.state, position, is_name)
            name = _Name(ids, at, longer.own, longer.row, len(ids) - len(longer.ids) + 1)
            (done if is_name(at) else running).append(name)
        done = heapq.nlargest(beams, done, key=lambda name: name.own)
        if done:  # sums fall
            least = done[0].own - limits.unlikely
            done = [name for name in done if name.own >= least]
            least = done[-1].own if len(done) == beams else least
            running = [name for name in running if name.own > least]
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
            yield _Name((*name.ids, token), state, name.own + score, name.row)


def _forced(
    machine: Machine, ids: Path, state: InFact, position: int, is_end: Callable[[InFact], bool]
) -> tuple[Path, InFact]:
    """Ids, which lead to a state, with those behind them that have no alternative, to where it is the end."""
    while not is_end(state) and (token := forced(machine, state)) is not None:
        after = machine.advance(state, token, position + len(ids))
        if not isinstance(after, InFact):
            break
        ids, state = (*ids, token), after
    return ids, state


def _choices(
    machine: Machine,
    begun: _Begun,
    position: int,
    logits: torch.Tensor,
    most: int,
    unlikely: float,
    full: Mapping[Path, int],
) -> Iterator[_Begun]:
    """A property with each id that may follow, as far as `properties` wants them; `logits`: float[vocabulary]."""
    tokens, left = begun.state.children.tokens, begun.state.children.leaves.copy()
    prefix = begun.state.prefix
    for path, facts in full.items():
        if path[: len(prefix)] == prefix:
            left[tokens == path[len(prefix)]] -= facts
    tokens = tokens[left > 0] if (left > 0).any() else tokens
    index = torch.as_tensor(tokens.astype(np.int64), device=logits.device)
    scores = logits[index].to(torch.float32).log_softmax(-1).numpy(force=True)
    for at in np.argsort(-scores, kind="stable")[:most]:
        if scores[at] < scores.max() - unlikely:
            break
        state = machine.advance(begun.state, int(tokens[at]), position + len(begun.ids))
        if isinstance(state, InFact):
            yield _Begun(begun.subject, (*begun.ids, int(tokens[at])), state, begun.own + float(scores[at]))


def _likeliest(subject: int, some: Sequence[_Begun], most: int, unlikely: float) -> list[_Begun]:
    """Those of a subject that are worth going on with: what is likelier now may become less likely, and not the other way."""
    order = sorted((one for one in some if one.subject == subject), key=lambda one: -one.own)[:most]
    return [one for one in order if one.own >= order[0].own - unlikely]


def _behind(model: ChunkedModel, some: Sequence[tuple[int, Path]]) -> list[torch.Tensor]:
    """The logits behind some ids of a row of the model, which are given with its number, float[vocabulary] each."""
    found: dict[int, torch.Tensor] = {}
    for numbers in passes([ids for _, ids in some]):
        branch = model.branch()
        branch.select([some[n][0] for n in numbers])
        found |= dict(zip(numbers, branch.feed([some[n][1] for n in numbers])[:, -1], strict=True))
    return [found[n] for n in range(len(some))]
