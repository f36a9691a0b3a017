"""The candidates of a channel: subjects that the model finds likely, and properties of theirs in the tree.

All are paths in the tree. A beam search finds names; of the entities with a name, as their own or as an alias, those
with most facts are candidates, since they are meant more often. An alias is in the tree as facts that lead to the entity,
`<JFK (alias)> <alias of> <John F. Kennedy (...)>` (`refactx.ingest.knowledge.names`).
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from refactx.decoding.machine import Machine
from refactx.decoding.states import InFact
from refactx.engines.engine import IdPath, Logits, Steps
from refactx.fact import ALIAS, ALIAS_OF, split_fact, unit
from refactx.linking.names import unaccented
from refactx.selection.scores import ScoredContinuations, log_softmax
from refactx.selection.weights import Weights

SHARED_BY = 20
"""The most entities of an alias that are looked up, each by a walk through the tree; the first ones in the order of
ids."""
MOST_PROPERTIES = 512
"""The most properties of a subject whose names are compared with the question."""
WIDER = 4
"""This many times as many names are looked up as are wanted, since some may be aliases; and at each fork this many times
as many properties are followed, since one with an unlikely beginning may have no other fork after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedEntity:
    """An entity that a name may mean.

    `ids`: those of its name, up to the closing bracket; `state`: that after them; `share`: its part of the facts of all
    entities with the name, 0 to 1, without the facts that state aliases; `alias`: the alias that leads to it; empty if
    its own name does.
    """

    ids: IdPath
    state: InFact
    share: float
    alias: str = ""


def entities_of_name(machine: Machine, start: InFact, ids: IdPath, state: InFact, most: int) -> list[NamedEntity]:
    """Return at most `most` of the entities that the name written by `ids` may mean, those with most facts first.

    `start`: the state before the ids, in a subject; `state`: that after them, within the parenthesis that tells
    entities of one name apart, or after the whole name.
    """
    if b">" in machine.text_of(state.prefix):
        return [NamedEntity(ids=ids, state=state, share=1.0)]
    names = dict(walk_by_facts(machine, state, WIDER * most, lambda text: b">" in text))
    plain = _find_plain_alias(machine, state)
    aliases = {
        path: end
        for path, end in names.items()
        if machine.text_of(end.prefix).rstrip(b" <").endswith(f"{ALIAS}>".encode())
    } | plain
    holders: list[tuple[str, str]] = []
    for alias_end in aliases.values():
        if len(holders) < SHARED_BY:
            ends = walk_by_facts(
                machine, alias_end, SHARED_BY, lambda text: split_fact(text.decode("utf-8", "replace")) is not None
            )
            facts = (split_fact(machine.text_of(end.prefix).decode("utf-8", "replace")) for _, end in ends)
            # The alias, and the name of an entity that has it, the object of a fact.
            holders += [(one[0].removesuffix(ALIAS), one[2]) for one in facts if one is not None and one[1] == ALIAS_OF]
    meant, alias_of = dict[IdPath, InFact](), dict[IdPath, str]()
    for alias, name in holders[:SHARED_BY]:
        if (way := path_of_name(machine, start, name)) is not None:
            path, end = way
            meant[path], alias_of[path] = end, alias
    found = {(*ids, *path): end for path, end in names.items() if not (meant and path in aliases)} | meant
    total = state.children.total
    if meant:
        total -= sum(end.children.total for end in aliases.values())
        total += sum(end.children.total for path, end in meant.items() if path[: len(ids)] != ids)
    best = sorted(found.items(), key=lambda one: -one[1].children.total)[:most]
    return [
        NamedEntity(ids=path, state=end, share=end.children.total / total, alias=alias_of.get(path, ""))
        for path, end in best
    ]


def path_of_name(machine: Machine, start: InFact, name: str) -> tuple[IdPath, InFact] | None:
    """Return the ids of a name after a state before it, up to its closing bracket, and the state after them; None if the name
    has no fact left, or the text has begun another name."""
    begun, written = len(start.prefix), machine.source.tokenizer.encode_after(machine.source.trigger, f"{unit(name)} <")
    # (An id may extend beyond the bracket.)
    closed = next((n for n, token in enumerate(written, 1) if b">" in machine.bytes_of(token)), 0)
    path = tuple(written[begun:closed]) if tuple(written[:begun]) == tuple(start.prefix) else ()
    end = machine.follow(start, path)
    return (path, end) if path and isinstance(end, InFact) else None


def walk_by_facts(
    machine: Machine, state: InFact, most: int, is_end: Callable[[bytes], bool]
) -> list[tuple[IdPath, InFact]]:
    """Return at most `most` shortest paths from a state to texts that `is_end`, those with most facts first."""
    heap: list[tuple[int, IdPath, InFact]] = [(-state.children.total, (), state)]
    found: list[tuple[IdPath, InFact]] = []
    while heap and len(found) < most:
        _, path, at = heapq.heappop(heap)
        if is_end(machine.text_of(at.prefix)):
            found.append((path, at))
            continue
        for token, count in zip(at.children.tokens.tolist(), at.children.leaves.tolist(), strict=True):
            longer = machine.advance(at, token, 0)
            if isinstance(longer, InFact):
                heapq.heappush(heap, (-count, (*path, token), longer))
    return found


def _find_plain_alias(machine: Machine, state: InFact) -> dict[IdPath, InFact]:
    """Return the path from within the parenthesis after a name to the end of its alias without a description, as in
    `<JFK (alias)>`, if there is one."""
    whole = machine.text_of(state.prefix).rpartition(b" (")[0] + f"{ALIAS}>".encode()
    running: list[tuple[IdPath, InFact]] = [((), state)]
    while running:
        path, at = running.pop()
        text = machine.text_of(at.prefix)
        if text.startswith(whole):
            return {path: at}
        for token in at.children.tokens.tolist():
            grown = text + machine.bytes_of(token)
            if grown.startswith(whole) or whole.startswith(grown):
                longer = machine.advance(at, token, 0)
                if isinstance(longer, InFact):
                    running.append(((*path, token), longer))
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectCandidate:
    """A subject: its `ids` after the text so far, up to its closing bracket, and the `state` after these.

    `own`: the model's log-probability of its name, without forced tokens; `share`: its part of the facts of all
    entities with this name, 0 to 1; `alias`: the alias that led to it; empty if its own name did; `is_named`: whether the
    question names it.
    """

    ids: IdPath
    state: InFact
    own: float = 0.0
    share: float = 1.0
    alias: str = ""
    is_named: bool = False


def properties_of(machine: Machine, subject: SubjectCandidate) -> dict[IdPath, str]:
    """Return the properties of a subject by their ids after the subject's, those with most facts first, at most
    `MOST_PROPERTIES`."""
    brackets = machine.text_of(subject.state.prefix).count(b">")
    ends = walk_by_facts(machine, subject.state, MOST_PROPERTIES, lambda text: text.count(b">") > brackets)
    return {path: property_name(machine, path) for path, _ in ends}


def property_name(machine: Machine, ids: IdPath) -> str:
    """Return the name of a property, given its ids after a subject's."""
    name = machine.text_of(ids).partition(b">")[0].strip().removeprefix(b"<")  # (`> <` may be one id)
    return name.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class PropertyCandidate:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateSearch:
    """The search for the candidates of one choice.

    `position`: that of the next id of the text; `continuations`: those of the text so far; `named`: the ids of names after the
    state, in the question, for which the limits on names do not hold; `exhausted`: pairs of subject and property that are no
    candidates as long as the subject has other properties, as in `AnswerLines.exhausted`.
    """

    machine: Machine
    position: int
    continuations: ScoredContinuations
    weights: Weights
    named: Collection[IdPath] = ()
    exhausted: Mapping[IdPath, int] = field(default_factory=dict)

    def subjects(self, state: InFact) -> Steps[list[SubjectCandidate]]:
        """Return the candidates for the subject, those of the likeliest names first, and those that the question names.

        A subject that two names lead to, one of them an alias, comes twice. `state`: in a subject, or before it.
        """
        # By the name, however it is spelt, with a description after it or without.
        ways = defaultdict[str, list[tuple[_NameStart, list[NamedEntity]]]](list)
        for name in (yield from self._find_names(state)):
            if some := self._entities_of(state, name):
                ways[self._written(name.state)].append((name, some))
        found: list[SubjectCandidate] = []
        for same in ways.values():
            own = float(np.logaddexp.reduce([name.own for name, _ in same]))
            facts = sum(some[0].state.children.total / some[0].share for _, some in same)
            for name, some in same:
                for one in some:
                    subject = SubjectCandidate(
                        ids=one.ids,
                        state=one.state,
                        own=own,
                        share=one.state.children.total / facts,
                        alias=one.alias,
                        is_named=self._is_named(name.ids),
                    )
                    found.append(subject)
        return sorted(found, key=lambda one: -one.own)

    def properties(
        self, subjects: Sequence[SubjectCandidate], nearest: Sequence[Collection[IdPath]]
    ) -> Steps[list[PropertyCandidate]]:
        """Return the candidates for the property that have facts left: of each subject those `nearest` in meaning, by their ids
        after the subject's, and the likeliest ones."""
        machine, most = self.machine, self.weights.likely_properties
        brackets = [machine.text_of(one.state.prefix).count(b">") for one in subjects]

        def is_done(number: int, state: InFact) -> bool:
            return machine.text_of(state.prefix).count(b">") > brackets[number]

        def with_forced(one: _PropertyStart) -> _PropertyStart:
            ids, state = self._follow_forced(one.ids, one.state, partial(is_done, one.subject))
            return _PropertyStart(subject=one.subject, ids=ids, state=state, own=one.own)

        begun: list[_PropertyStart] = []
        for number, one in enumerate(subjects):
            begun.append(with_forced(_PropertyStart(subject=number, ids=(), state=one.state, own=0.0)))
        done = [one for one in begun if is_done(one.subject, one.state)]
        running = [one for one in begun if not is_done(one.subject, one.state)]
        while running:
            paths = [(*subjects[one.subject].ids, *one.ids) for one in running]
            logits = yield from self.continuations.logits(paths, [one.state.children.tokens for one in running])
            longer = list[_PropertyStart]()
            for start, after in zip(running, logits, strict=True):
                longer += map(with_forced, self._grow_property(start, after, nearest[start.subject]))
            some = [*done, *longer]
            left = [one for n, near in enumerate(nearest) for one in self._likeliest(n, some, WIDER * most, near)]
            done = [one for one in left if is_done(one.subject, one.state)]
            running = [one for one in left if not is_done(one.subject, one.state)]
        best = [one for n, near in enumerate(nearest) for one in self._likeliest(n, done, most, near)]
        return [PropertyCandidate(one.subject, one.ids, one.own) for one in best]

    def _entities_of(self, start: InFact, name: _NameStart) -> list[NamedEntity]:
        """Return the entities that a name may mean: where the question names some of them with their descriptions, these."""
        most = self.weights.subjects_of_name
        whole = [path for path in self.named if path[: len(name.ids)] == name.ids]
        if not whole or name.ids in whole:
            return entities_of_name(self.machine, start, name.ids, name.state, most)
        ends = {path: end for path in whole if isinstance(end := self.machine.follow(start, path), InFact)}
        total = sum(end.children.total for end in ends.values())
        best = heapq.nlargest(most, ends.items(), key=lambda one: one[1].children.total)
        return [NamedEntity(ids=path, state=end, share=end.children.total / total) for path, end in best]

    def _written(self, state: InFact) -> str:
        """Return the name in which a state is, or that it has ended, without a description, in lower case."""
        text = self.machine.text_of(state.prefix).decode("utf-8", "replace").partition(">")[0].lstrip(" <")
        return unaccented(text.partition(" (")[0].strip())

    def _is_named(self, ids: IdPath) -> bool:
        """Return whether ids begin, or continue, a name that the question names."""
        return any(path[: len(ids)] == ids for path in self.named)

    def _find_names(self, state: InFact) -> Steps[list[_NameStart]]:
        """Return the likeliest names, and those `named`, up to the closing bracket, or to the parenthesis that tells entities
        of one name apart.

        Log-probabilities are over the whole vocabulary. So a name is unlikely if its beginning is good but the tree has
        only bad continuations of that.
        """
        machine, weights = self.machine, self.weights

        def is_name(state: InFact) -> bool:
            text = machine.text_of(state.prefix)
            return b">" in text or b" (" in text

        if is_name(state):
            return [_NameStart((), state, 0.0)]
        running, done, beams = [_NameStart((), state, 0.0)], list[_NameStart](), weights.names
        kept: list[_NameStart] = []
        while running:
            following = [name.state.children.tokens for name in running]
            logits = yield from self.continuations.logits([name.ids for name in running], following)
            grown = [longer for pair in zip(running, logits, strict=True) for longer in self._grow_name(*pair)]
            others = [name for name in grown if not self._is_named(name.ids)]
            best, running = heapq.nlargest(beams, others, key=lambda name: name.own), []
            for longer in [*best, *(name for name in grown if self._is_named(name.ids))]:
                ids, end = self._follow_forced(longer.ids, longer.state, is_name)
                name = _NameStart(ids, end, longer.own)
                if not is_name(name.state):
                    running.append(name)
                else:
                    (kept if self._is_named(ids) else done).append(name)
            done = heapq.nlargest(beams, done, key=lambda name: name.own)
            least = max((name.own for name in done), default=-math.inf) - weights.drop_names_below
            least = max(least, max((name.own for name in kept), default=-math.inf) - weights.unnamed_name_gap)
            done = [name for name in done if name.own >= least]
            least = done[-1].own if len(done) == beams else least
            running = [name for name in running if name.own > least or self._is_named(name.ids)]  # sums fall
        return [*done, *kept]

    def _grow_name(self, name: _NameStart, logits: Logits) -> list[_NameStart]:
        """Return a name with each of the likeliest ids that may follow, and with those of names in the question.

        `logits`: float32[vocabulary].
        """
        tokens, most = name.state.children.tokens, self.weights.names
        wanted = [path[len(name.ids)] for path in self.named if path[: len(name.ids)] == name.ids != path]
        scores = log_softmax(logits)[tokens] * (len(tokens) > 1)
        best = np.argpartition(-scores, most - 1)[:most] if len(tokens) > most else np.arange(len(tokens))
        best = np.union1d(best, np.flatnonzero(np.isin(tokens, wanted)))
        found: list[_NameStart] = []
        for token, score in zip(tokens[best].tolist(), scores[best].tolist(), strict=True):
            state = self.machine.advance(name.state, token, self.position + len(name.ids))
            if isinstance(state, InFact):
                found.append(_NameStart((*name.ids, token), state, name.own + score))
        return found

    def _follow_forced(self, ids: IdPath, state: InFact, is_end: Callable[[InFact], bool]) -> tuple[IdPath, InFact]:
        """Return ids with the forced tokens after them, up to a state that `is_end`, and the last state; `state`: after the
        ids."""
        while not is_end(state) and (token := self.machine.forced(state)) is not None:
            after = self.machine.advance(state, token, self.position + len(ids))
            if not isinstance(after, InFact):
                break
            ids, state = (*ids, token), after
        return ids, state

    def _grow_property(
        self, start: _PropertyStart, logits: Logits, nearest: Collection[IdPath]
    ) -> list[_PropertyStart]:
        """Return a property with each of the likeliest ids that may follow, and with those of the `nearest` ones. `logits`:
        float32[vocabulary]."""
        tokens, left = start.state.children.tokens, start.state.children.leaves.copy()
        prefix = start.state.prefix
        for path, facts in self.exhausted.items():
            if path[: len(prefix)] == prefix:
                left[tokens == path[len(prefix)]] -= facts
        tokens = tokens[left > 0] if (left > 0).any() else tokens
        scores = log_softmax(logits[tokens])
        wanted = {path[len(start.ids)] for path in nearest if path[: len(start.ids)] == start.ids != path}
        found: list[_PropertyStart] = []
        for rank, at in enumerate(np.argsort(-scores, kind="stable").tolist()):
            token, own = int(tokens[at]), start.own + float(scores[at])
            is_likely = scores[at] >= scores.max() - self.weights.drop_properties_below
            if token not in wanted and not (is_likely and rank < WIDER * self.weights.likely_properties):
                continue
            state = self.machine.advance(start.state, token, self.position + len(start.ids))
            if isinstance(state, InFact):
                found.append(_PropertyStart(subject=start.subject, ids=(*start.ids, token), state=state, own=own))
        return found

    def _likeliest(
        self, subject: int, some: Sequence[_PropertyStart], most: int, nearest: Collection[IdPath]
    ) -> list[_PropertyStart]:
        """Return the properties of a subject that can still be among the likeliest, as log-probabilities only fall, or that
        begin the `nearest`."""
        order = sorted((one for one in some if one.subject == subject), key=lambda one: -one.own)
        least = order[0].own - self.weights.drop_properties_below if order else 0.0
        return [
            one
            for rank, one in enumerate(order)
            if (rank < most and one.own >= least) or any(path[: len(one.ids)] == one.ids for path in nearest)
        ]
