"""The candidates of a channel: subjects that the model finds likely, and properties of theirs in the tree.

All are paths in the tree. A beam search finds names; of the entities with a name, as their own or as an alias, those
with most facts are candidates (`refactx.choosing.namesakes`).
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from refactx.choosing.continuations import Continuations, log_softmax
from refactx.choosing.namesakes import namesakes
from refactx.decoding.lookups import Lookups
from refactx.decoding.machine import Machine
from refactx.decoding.states import InFact
from refactx.engines.engine import IdPath, Logits
from refactx.engines.requests import Steps

WIDER = 4
"""At each fork, this many times as many properties are followed as are wanted: one with an unlikely beginning may have
no other fork after it."""


@dataclass(frozen=True, slots=True)
class SubjectLimits:
    """Limits on the subjects: at most `names` names, and `namesakes` subjects of each, those with most facts.

    `unlikely`: leave out names whose log-probability is this much below the likeliest name's.
    """

    names: int = 6
    namesakes: int = 3
    unlikely: float = 9.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A subject: its `ids` after the text so far, up to its closing bracket, and the `state` after these.

    `own`: the model's log-probability of its name, without forced tokens; `share`: its part of the facts of all
    entities with this name, 0 to 1; `alias`: the alias that led to it; empty if its own name did.
    """

    ids: IdPath
    state: InFact
    own: float = 0.0
    share: float = 1.0
    alias: str = ""


@dataclass(frozen=True, slots=True)
class Property:
    """A property: the number of its `subject`, and its `ids` after the subject's, up to its closing bracket.

    `own`: the model's log-probability of it among the subject's properties.
    """

    subject: int
    ids: IdPath
    own: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _PropertyStart:
    """The beginning of a property."""

    subject: int
    ids: IdPath
    state: InFact
    own: float


@dataclass(frozen=True, slots=True)
class _NameStart:
    """The beginning of a name."""

    ids: IdPath
    state: InFact
    own: float


def find_subjects(
    machine: Machine, state: InFact, position: int, continuations: Continuations, limits: SubjectLimits
) -> Steps[list[Subject]]:
    """Return the candidates for the subject, those of the likeliest names first.

    A subject that two names lead to, one of them an alias, comes twice. `state`: in a subject, or before it;
    `continuations`: those of the text so far; `position`: that of its next id.
    """
    found: list[Subject] = []
    for name in (yield from _find_names(machine, state, position, continuations, limits)):
        for one in (yield from namesakes(machine, state, name.ids, name.state, limits.namesakes)):
            found.append(Subject(ids=one.ids, state=one.state, own=name.own, share=one.share, alias=one.alias))
    return found


def find_properties(
    machine: Machine,
    subjects: Sequence[Subject],
    position: int,
    continuations: Continuations,
    *,
    most: int,
    unlikely: float,
    exhausted: Mapping[IdPath, int] | None = None,
) -> Steps[list[Property]]:
    """Return the candidates for the property, of each subject at most the `most` likeliest ones that have facts left.

    `unlikely`: leave out those whose log-probability is this much below the likeliest one's. `exhausted`: pairs of
    subject and property that are no candidates as long as the subject has other properties, as in
    `AnswerLines.exhausted`. The other arguments are as in `find_subjects`.
    """
    brackets = [machine.text_of(one.state.prefix).count(b">") for one in subjects]

    def is_done(number: int, state: InFact) -> bool:
        return machine.text_of(state.prefix).count(b">") > brackets[number]

    def with_forced(one: _PropertyStart) -> Lookups[_PropertyStart]:
        ids, state = yield from _follow_forced(machine, one.ids, one.state, position, partial(is_done, one.subject))
        return _PropertyStart(subject=one.subject, ids=ids, state=state, own=one.own)

    begun: list[_PropertyStart] = []
    for number, one in enumerate(subjects):
        begun.append((yield from with_forced(_PropertyStart(subject=number, ids=(), state=one.state, own=0.0))))
    done = [one for one in begun if is_done(one.subject, one.state)]
    running = [one for one in begun if not is_done(one.subject, one.state)]
    while running:
        logits = yield from continuations.logits([(*subjects[one.subject].ids, *one.ids) for one in running])
        longer, wide = list[_PropertyStart](), WIDER * most
        for start, after in zip(running, logits, strict=True):
            for grown in (yield from _grow_property(machine, start, position, after, wide, unlikely, exhausted or {})):
                longer.append((yield from with_forced(grown)))
        left = [one for number in range(len(subjects)) for one in _likeliest(number, [*done, *longer], wide, unlikely)]
        done = [one for one in left if is_done(one.subject, one.state)]
        running = [one for one in left if not is_done(one.subject, one.state)]
    best = [one for number in range(len(subjects)) for one in _likeliest(number, done, most, unlikely)]
    return [Property(one.subject, one.ids, one.own) for one in best]


def _find_names(
    machine: Machine, state: InFact, position: int, continuations: Continuations, limits: SubjectLimits
) -> Steps[list[_NameStart]]:
    """Return the likeliest names, up to the closing bracket, or to the parenthesis that tells namesakes apart.

    Log-probabilities are over the whole vocabulary. So a name is unlikely if its beginning is good but the tree has
    only bad continuations of that.
    """

    def is_name(state: InFact) -> bool:
        text = machine.text_of(state.prefix)
        return b">" in text or b" (" in text

    if is_name(state):
        return [_NameStart((), state, 0.0)]
    running, done, beams = [_NameStart((), state, 0.0)], list[_NameStart](), limits.names
    while running:
        logits = yield from continuations.logits([name.ids for name in running])
        grown: list[_NameStart] = []
        for name, after in zip(running, logits, strict=True):
            grown += yield from _grow_name(machine, name, position, after, beams)
        running = []
        for longer in heapq.nlargest(beams, grown, key=lambda name: name.own):
            ids, end = yield from _follow_forced(machine, longer.ids, longer.state, position, is_name)
            name = _NameStart(ids, end, longer.own)
            (done if is_name(name.state) else running).append(name)
        done = heapq.nlargest(beams, done, key=lambda name: name.own)
        if done:  # sums fall
            least = done[0].own - limits.unlikely
            done = [name for name in done if name.own >= least]
            least = done[-1].own if len(done) == beams else least
            running = [name for name in running if name.own > least]
    return done


def _grow_name(
    machine: Machine, name: _NameStart, position: int, logits: Logits, most: int
) -> Lookups[list[_NameStart]]:
    """Return a name with each of the `most` likeliest ids that may follow; `logits`: float32[vocabulary]."""
    tokens = name.state.children.tokens
    scores = log_softmax(logits)[tokens] * (len(tokens) > 1)
    best = np.argpartition(-scores, most - 1)[:most] if len(tokens) > most else np.arange(len(tokens))
    found: list[_NameStart] = []
    for token, score in zip(tokens[best].tolist(), scores[best].tolist(), strict=True):
        state = yield from machine.advancing(name.state, token, position + len(name.ids))
        if isinstance(state, InFact):
            found.append(_NameStart((*name.ids, token), state, name.own + score))
    return found


def _follow_forced(
    machine: Machine, ids: IdPath, state: InFact, position: int, is_end: Callable[[InFact], bool]
) -> Lookups[tuple[IdPath, InFact]]:
    """Return ids with the forced tokens after them, up to a state that `is_end`, and the last state; `state`: after the
    ids."""
    while not is_end(state) and (token := machine.forced(state)) is not None:
        after = yield from machine.advancing(state, token, position + len(ids))
        if not isinstance(after, InFact):
            break
        ids, state = (*ids, token), after
    return ids, state


def _grow_property(
    machine: Machine,
    start: _PropertyStart,
    position: int,
    logits: Logits,
    most: int,
    unlikely: float,
    exhausted: Mapping[IdPath, int],
) -> Lookups[list[_PropertyStart]]:
    """Return a property with each of the `most` likeliest ids that may follow, as `find_properties` limits them.

    `logits`: float32[vocabulary].
    """
    tokens, left = start.state.children.tokens, start.state.children.leaves.copy()
    prefix = start.state.prefix
    for path, facts in exhausted.items():
        if path[: len(prefix)] == prefix:
            left[tokens == path[len(prefix)]] -= facts
    tokens = tokens[left > 0] if (left > 0).any() else tokens
    scores = log_softmax(logits[tokens])
    found: list[_PropertyStart] = []
    for at in np.argsort(-scores, kind="stable")[:most]:
        if scores[at] < scores.max() - unlikely:
            break
        token, own = int(tokens[at]), start.own + float(scores[at])
        state = yield from machine.advancing(start.state, token, position + len(start.ids))
        if isinstance(state, InFact):
            found.append(_PropertyStart(subject=start.subject, ids=(*start.ids, token), state=state, own=own))
    return found


def _likeliest(subject: int, some: Sequence[_PropertyStart], most: int, unlikely: float) -> list[_PropertyStart]:
    """Return the properties of a subject that can still be among the likeliest: log-probabilities only fall."""
    order = sorted((one for one in some if one.subject == subject), key=lambda one: -one.own)[:most]
    return [one for one in order if one.own >= order[0].own - unlikely]
