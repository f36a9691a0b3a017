"""What a fact may be about: the subjects that a model would write, and the properties that a subject has.

All of them are paths in the tree. Subjects are found by a beam search over names; of those that have a name, as theirs or as an
alias, come those with most facts (`refactx.choosing.namesakes`).
"""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from refactx.choosing.continuations import Continuations
from refactx.choosing.namesakes import namesakes
from refactx.decoding.machine import InFact, Machine
from refactx.decoding.mask import forced
from refactx.tree.children import Path

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
    """The beginning of a name."""

    ids: Path
    state: InFact
    own: float


def subjects(
    machine: Machine,
    state: InFact,
    position: int,
    behind: Continuations,
    limits: Limits,
) -> list[Subject]:
    """The subjects that the model may mean, likeliest names first; one that two names may mean, by an alias, is there twice.

    `state`: in a subject, or in front of it; `behind`: what the model goes on with behind the text so far, whose next id has
    `position`.
    """
    return [
        Subject(one.ids, one.state, name.own, one.share, one.alias)
        for name in _names(machine, state, position, behind, limits)
        for one in namesakes(machine, state, name.ids, name.state, limits.namesakes)
    ]


def properties(
    machine: Machine,
    of: Sequence[Subject],
    position: int,
    behind: Continuations,
    most: int,
    unlikely: float,
    full: Mapping[Path, int] | None = None,
) -> list[Property]:
    """The properties with facts left of some subjects: of each at most the `most` likeliest, none that is less likely than the
    likeliest by more than `unlikely`, a difference of logarithms.

    `full`: subjects with a property that is no candidate while the subject has others, as ids from the fact's first on, with
    how many facts each has left. The other arguments are as in `subjects`.
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
    while running:
        logits = behind.logits([(*of[one.subject].ids, *one.ids) for one in running])
        longer = [
            with_forced(one)
            for beginning, scores in zip(running, logits, strict=True)
            for one in _choices(machine, beginning, position, scores, WIDER * most, unlikely, full or {})
        ]
        wide = WIDER * most
        left = [one for number in range(len(of)) for one in _likeliest(number, [*done, *longer], wide, unlikely)]
        done = [one for one in left if is_done(one.subject, one.state)]
        running = [one for one in left if not is_done(one.subject, one.state)]
    best = [one for number in range(len(of)) for one in _likeliest(number, done, most, unlikely)]
    return [Property(one.subject, one.ids, one.own) for one in best]


def _names(machine: Machine, state: InFact, position: int, behind: Continuations, limits: Limits) -> list[_Name]:
    """The likeliest names, to the closing bracket or to the one that tells namesakes apart.

    The sum is of the whole vocabulary's log-probabilities: so a name that the model was forced into, since the tree has
    nothing better behind a good beginning, is an unlikely one.
    """

    def is_name(state: InFact) -> bool:
        text = machine.text_of(state.prefix)
        return b">" in text or b" (" in text

    if is_name(state):
        return [_Name((), state, 0.0)]
    running, done, beams = [_Name((), state, 0.0)], list[_Name](), limits.names
    while running:
        choices = zip(running, behind.logits([name.ids for name in running]), strict=True)
        grown = [longer for name, scores in choices for longer in _grown(machine, name, position, scores, beams)]
        running = []
        for longer in heapq.nlargest(beams, grown, key=lambda name: name.own):
            name = _Name(*_forced(machine, longer.ids, longer.state, position, is_name), longer.own)
            (done if is_name(name.state) else running).append(name)
        done = heapq.nlargest(beams, done, key=lambda name: name.own)
        if done:  # sums fall
            least = done[0].own - limits.unlikely
            done = [name for name in done if name.own >= least]
            least = done[-1].own if len(done) == beams else least
            running = [name for name in running if name.own > least]
    return done


def _grown(machine: Machine, name: _Name, position: int, logits: torch.Tensor, most: int) -> Iterator[_Name]:
    """A name with each of the `most` likeliest ids that may follow; `logits`: float[vocabulary]."""
    tokens = name.state.children.tokens
    index = torch.as_tensor(tokens.astype(np.int64), device=logits.device)
    scores = logits.to(torch.float32).log_softmax(-1)[index].numpy(force=True) * (len(tokens) > 1)
    best = np.argpartition(-scores, most - 1)[:most] if len(tokens) > most else np.arange(len(tokens))
    for token, score in zip(tokens[best].tolist(), scores[best].tolist(), strict=True):
        state = machine.advance(name.state, token, position + len(name.ids))
        if isinstance(state, InFact):
            yield _Name((*name.ids, token), state, name.own + score)


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
