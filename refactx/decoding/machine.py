"""The state machine of facts: from token ids to states, and from a state to the ids that may follow.

A fact has no line break, so only triggers without a line break after them matter (apart from white space directly after
the trigger). The last such trigger with an unfinished fact after it decides. The same holds for queries.

The state of a sequence is a pure function of its ids (`Machine.run`), computed one id at a time (`Machine.advance`):

    Free --trigger--> InFact --terminator begun--> InTerminator --complete--> Free (with one more fact)
                        |________________terminator in one token_______________^
    InFact, InTerminator, Closing --a token that was not allowed--> Dead

Queries have a trigger and a constraint of their own (`refactx.decoding.states.LineConstraint`). The trigger leads to
InQuery, and from there to Free at the end of the line, or to Dead.

With a limit (`Machine.limited`) the last fact leads to Closing, where the text that follows the facts is forced, and
from there to Free. A further trigger leads to Closing too, where the end of sequence is forced.
"""

import copy
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import Any

import numpy as np

from refactx.decoding.markers import Spaces, Terminator, Trigger, Warnings
from refactx.decoding.states import (
    Closing,
    Constraint,
    Dead,
    FactLimit,
    FactSource,
    Free,
    InFact,
    InQuery,
    InTerminator,
    LineConstraint,
    State,
    Written,
    check_open,
)
from refactx.errors import CorruptIndexError, IndexChangedError, ModelError
from refactx.fact import Fact, qualifiers_of, split_fact, verbalise
from refactx.tree.tree import NO_TOKENS, Children, Tokens, add


def state_after_prompt(
    machine: "Machine", prompt: Sequence[int], padding: Container[int] | None
) -> tuple[State, bytes]:
    """Return the state after a prompt, and the text after its last trigger if that is not in the tree (else empty)."""
    stop = len(prompt)
    while stop and _is_padding(machine, prompt[stop - 1], padding):
        stop -= 1
    pieces = [machine.bytes_of(token) for token in prompt[:stop]]
    text = b"".join(pieces)
    ends = np.cumsum([len(piece) for piece in pieces])
    position, left = 0, b""
    for at, number in _open_triggers(text, machine.triggers):
        trigger = machine.triggers[number]
        size = len(trigger.text)
        first = int(np.searchsorted(ends, at + size))  # the token that completes the trigger
        rest = text[at + size : int(ends[first])]
        if first < position or not trigger.is_delimited(text[:at], rest):
            continue
        state, position = _walk(
            machine, prompt, number, first + 1, stop, padding=padding, after_space=rest.endswith(b" ")
        )
        if isinstance(state, InFact | InTerminator | InQuery):
            return state, b""
        left = text[at + size :] if isinstance(state, Dead) else b""
    return Free(machine.tail_of(text)), left


def _open_triggers(text: bytes, triggers: Sequence[Trigger]) -> list[tuple[int, int]]:
    """Return the positions of triggers that have no line break after them, each with its number, in order."""
    found: list[tuple[int, int]] = []
    for number, trigger in enumerate(triggers):
        size = len(trigger.text)
        at = text.rfind(trigger.text)
        while at >= 0 and b"\n" not in text[at + size :].lstrip():
            found.append((at, number))
            at = text.rfind(trigger.text, 0, at + size - 1)
    return sorted(found)


def _walk(
    machine: "Machine",
    prompt: Sequence[int],
    number: int,
    first: int,
    stop: int,
    *,
    padding: Container[int] | None,
    after_space: bool,
) -> tuple[State, int]:
    """Walk from position `first`, after the trigger with a number. Return the state and the position at which the
    prompt, the fact or the query ends.

    `after_space`: the trigger's last token ends in a space.

    Padding within the prompt is skipped: it comes after a prefix that several prompts share.
    """
    state, at_trigger = machine.open(number, first, after_space=after_space), True
    if isinstance(state, Free):
        return state, first
    for position in range(first, stop):
        token = prompt[position]
        if _is_padding(machine, token, padding):
            state = machine.open(number, position + 1, after_space=after_space) if at_trigger else state
            continue
        after = machine.advance(state, token, position)
        if isinstance(after, Dead) and at_trigger and machine.bytes_of(token).isspace():
            after_space = machine.bytes_of(token).endswith(b" ")  # white space directly after the trigger
            state = machine.open(number, position + 1, after_space=after_space)
            continue
        state, at_trigger = after, False
        if not isinstance(state, InFact | InTerminator | InQuery):
            return state, position
    return state, stop


def _is_padding(machine: "Machine", token: int, padding: Container[int] | None) -> bool:
    return not machine.bytes_of(token) and (padding is None or token in padding)


def read_fact(source: FactSource, written: Written) -> Fact:
    """Return a written fact with its text. Raise CorruptIndexError if that is not one of three parts and maybe qualifiers."""
    text = source.tokenizer.decode(written.tokens)
    parts = split_fact(text)
    if parts is None:
        raise CorruptIndexError(f"the index has {text!r}, which is not a fact of three parts. Ingest the index again")
    qualifiers = qualifiers_of(text)
    line = f"{verbalise(*parts, qualifiers).lstrip()}{source.terminator}"
    return Fact(*parts, line, (written.start, written.stop), qualifiers)


def subtract(tree: Children, written: Sequence[tuple[int, ...]], depth: int) -> Children:
    """Return the tree's children of a prefix of length `depth` without the facts `written`, which begin with it."""
    if not written:
        return tree
    counts = sorted(Counter(fact[depth] for fact in written if len(fact) > depth).items())
    own = Children(
        np.array([token for token, _ in counts], np.int32),
        np.array([leaves for _, leaves in counts], np.int64),
        sum(len(fact) == depth for fact in written),
    )
    return add([(+1, tree), (-1, own)])


class Machine(Constraint[State]):
    """The constraint of texts with facts of one index.

    It holds no sequence, so any number of threads may share it.

        machine = refactx.Machine(index)
        state = machine.run(prompt_ids, len(prompt_ids))
        machine.allowed(state)  # int32[n]; None outside of facts
        state = machine.advance(state, token, len(prompt_ids))

    `queries`: the constraint of lines after a trigger of its own, such as `refactx.walks.QueryGrammar`.

    Raises ModelError if the tokenizer cannot write the index's trigger or terminator, or if facts and queries have the
    same trigger. Methods that advance a state
    raise IndexChangedError if the facts with its prefix were retracted since the last token, and whatever the index
    raises.
    """

    def __init__(self, source: FactSource, queries: LineConstraint[Any] | None = None) -> None:
        check_open(source)
        if not source.trigger or not source.terminator:
            raise ModelError("the trigger and the terminator of an index must not be empty")
        self.source = source
        self.token_bytes = source.tokenizer.token_bytes
        self.trigger = Trigger.of(source.trigger, source.tokenizer)
        self.terminator = Terminator.of(source.terminator.encode(), self.token_bytes)
        if queries is not None and queries.trigger.strip() == source.trigger.strip():
            raise ModelError(
                f"the index has the trigger {source.trigger!r}, as queries have: build it with another one"
            )
        self._lines = queries
        others = () if queries is None else (Trigger.of(queries.trigger, source.tokenizer),)
        self.triggers: tuple[Trigger, ...] = (self.trigger, *others)
        self._longest = max(self.triggers, key=lambda trigger: len(trigger.text))
        self._spaces = Spaces(self.token_bytes)
        self._limit: FactLimit | None = None
        self._warnings = Warnings(source.terminator.encode())

    def limited(self, limit: FactLimit) -> "Machine":
        """Return a copy of this machine with a limit on the number of facts."""
        other = copy.copy(self)
        other._limit, other._warnings = limit, copy.copy(self._warnings)
        return other

    def over(self, source: FactSource) -> "Machine":
        """Return a copy of this machine that looks up facts in another source, such as a snapshot of the index."""
        other = copy.copy(self)
        other.source = source
        other._lines = None if self._lines is None else self._lines.over(source)
        return other

    def bytes_of(self, token: int) -> bytes:
        """Return the bytes of an id; empty for special tokens and for ids beyond the vocabulary."""
        return self.token_bytes[token] if token < len(self.token_bytes) else b""

    def tail_of(self, text: bytes) -> bytes:
        """Return the end of a text that is needed to decide whether later tokens complete a trigger."""
        return self._longest.tail(text)

    def text_of(self, ids: Iterable[int]) -> bytes:
        """Return the text of ids as UTF-8 bytes."""
        return b"".join(map(self.bytes_of, ids))

    def start(self, prompt: Sequence[int], padding: Container[int] | None = None) -> State:
        """Return the state after a prompt. Complete facts in it do not count as written; an unfinished one continues.

        `padding`: the ids that may pad the prompt on the right, by default any special token.
        """
        state, left = state_after_prompt(self, prompt, padding)
        self._warnings.of_unfinished(left)
        return state

    def begin(self, position: int, facts: tuple[Written, ...] = (), *, after_space: bool = False) -> InFact:
        """Return the state directly after a trigger, at `position` in a sequence that has completed `facts`.

        `after_space`: the text has a space after the trigger, so a fact follows without its own one.
        """
        state = self._inside((), position, facts, tuple(fact.tokens for fact in facts))
        return self._spaces.without(state) if after_space else state

    def open(self, number: int, position: int, facts: tuple[Written, ...] = (), *, after_space: bool = False) -> State:
        """Return the state after the trigger with a number in `triggers`, as `begin` does; Free if it starts nothing."""
        if number:
            line = self._queries.start(after_space=after_space)
            if not self._queries.is_free(line):
                return InQuery(line=line, start=position, facts=facts)
        else:
            fact = self.begin(position, facts, after_space=after_space)
            if fact.children.total > 0:
                return fact
        return Free(facts=facts)

    def advance(self, state: State, token: int, position: int) -> State:
        """Return the state after one more token, at `position` in the sequence."""
        match state:
            case Free():
                return self._from_free(state, token, position)
            case InFact():
                return self._from_fact(state, token, position)
            case InTerminator():
                done = self.terminator.steps[state.done].get(token)
                return Dead(state.facts) if done is None else self._end(state, done, token, position)
            case InQuery():
                return self._from_query(state, token, position)
            case Closing(ids, done, facts) if token != ids[done]:
                return Dead(facts)
            case Closing(ids, done, facts) if done + 1 < len(ids):
                return Closing(ids, done + 1, facts)
            case Closing(ids, _, facts):
                return Free(self.tail_of(self.text_of(ids)), facts)
            case Dead():
                return state

    def follow(self, state: State, ids: Iterable[int], position: int = 0) -> State:
        """Return the state after more ids, the first of them at `position` in the sequence."""
        for at, token in enumerate(ids, position):
            state = self.advance(state, token, at)
        return state

    def run(self, ids: Sequence[int], prompt_length: int, padding: Container[int] | None = None) -> State:
        """Return the state of a whole sequence whose first `prompt_length` ids are the prompt."""
        return self.follow(self.start(ids[:prompt_length], padding), ids[prompt_length:], prompt_length)

    def allowed(self, state: State) -> Tokens | None:
        """Return the ids that may come next, int32[n], ascending; None if any may (outside facts).

        The array is empty only for a sequence that is off the tree. Within a fact, it never has special tokens, the end
        of sequence, or ids beyond the tokenizer's vocabulary.
        """
        match state:
            case Free():
                return None
            case InFact():
                children = state.children
                if children.terminal == 0:
                    return children.tokens
                return np.union1d(children.tokens, self.terminator.tokens[0])
            case InTerminator():
                return self.terminator.tokens[state.done]
            case InQuery():
                return self._queries.allowed(state.line)
            case Closing():
                return np.array(state.ids[state.done : state.done + 1], np.int32)
            case Dead():
                return NO_TOKENS

    def forced(self, state: State) -> int | None:
        """Return the id that has to come next, if exactly one may (a fast-forward token); else None.

        More than four of five ids of a fact are forced: they need no forward pass of the model.
        """
        if isinstance(state, InFact) and state.children.terminal:
            return None
        tokens = self.allowed(state)
        return int(tokens[0]) if tokens is not None and len(tokens) == 1 else None

    def is_free(self, state: State) -> bool:
        return isinstance(state, Free)

    def can_end(self, state: State) -> bool:
        return not isinstance(state, InFact | InTerminator | InQuery)

    def facts(self, ids: Sequence[int], prompt_length: int, padding: Container[int] | None = None) -> list[Fact]:
        """Return the facts that a sequence completed after its prompt, in order, including one that the prompt began.

        Raises CorruptIndexError if the text of a fact in the index does not have three parts.
        """
        return list(self.facts_of(self.run(ids, prompt_length, padding)))

    def facts_of(self, state: State) -> tuple[Fact, ...]:
        """Return the facts that a sequence in this state has completed, without a lookup in the index.

        Raises CorruptIndexError as `facts` does.
        """
        return tuple(read_fact(self.source, written) for written in state.facts)

    def queries(self, ids: Sequence[int], prompt_length: int, padding: Container[int] | None = None) -> list[str]:
        """Return the texts of the queries that a sequence completed after its prompt, as `facts` returns facts."""
        state, found = self.start(ids[:prompt_length], padding), list[str]()
        for position in range(prompt_length, len(ids)):
            before, state = state, self.advance(state, ids[position], position)
            if isinstance(before, InQuery) and isinstance(state, Free):
                found.append(self.text_of(ids[before.start : position + 1]).decode("utf-8", "replace").strip())
        return found

    def _from_free(self, state: Free, token: int, position: int) -> State:
        piece = self.bytes_of(token)
        if not piece:  # special tokens have no text: a trigger may have them between its tokens
            return state
        after = Free(self.tail_of(state.tail + piece), state.facts)
        for number, trigger in enumerate(self.triggers):
            if trigger.is_completed(state.tail, piece):
                if number == 0 and self._limit and self._limit.after_trigger and len(state.facts) >= self._limit.facts:
                    return Closing(self._limit.after_trigger, 0, state.facts)
                opened = self.open(number, position + 1, state.facts)
                if not isinstance(opened, Free):
                    return opened
                self._warnings.of_no_facts(trigger, bool(state.facts))
        return after

    @property
    def _queries(self) -> LineConstraint[Any]:
        if self._lines is None:
            raise ValueError("a text is in a query, but the machine has none")
        return self._lines

    def _from_query(self, state: InQuery, token: int, position: int) -> State:
        line = self._queries.advance(state.line, token, position)
        tokens = self._queries.allowed(line)
        if tokens is None:
            piece = self.bytes_of(token)
            return Free(self.tail_of(piece[len(piece.rstrip()) :]), state.facts)
        return InQuery(line=line, start=state.start, facts=state.facts) if len(tokens) else Dead(state.facts)

    def _from_fact(self, state: InFact, token: int, position: int) -> State:
        children, rivals = state.children, state.rivals
        # A token that continues a fact and could also begin the terminator continues the fact: its ids decide.
        if state.after_space and not children.leaves_of(token):  # a prompt with two spaces
            own = self._spaces.without_space(token)
            token = token if own is None else own
        if children.leaves_of(token):
            if state.after_space:
                token = self._spaces.with_space(token)
            if rivals:
                depth = len(state.prefix)
                rivals = tuple(rival for rival in rivals if rival[depth : depth + 1] == (token,))
            inside = self._inside((*state.prefix, token), state.start, state.facts, rivals)
            if inside.children.total == 0:  # there were facts one token before
                raise IndexChangedError("all facts with the prefix written so far were retracted meanwhile: ask again")
            return inside
        done = self.terminator.steps[0].get(token) if children.terminal > 0 else None
        if done is None:
            return Dead(state.facts)
        return self._end(
            InTerminator(tokens=state.prefix, start=state.start, done=0, facts=state.facts), done, token, position
        )

    def _end(self, state: InTerminator, done: int, token: int, position: int) -> State:
        """Return the state after `token`, with which `done` bytes of the terminator are written."""
        if done < self.terminator.size:
            return InTerminator(tokens=state.tokens, start=state.start, done=done, facts=state.facts)
        rest = self.bytes_of(token)[self.terminator.size - state.done :]
        after = Free(self.tail_of(rest), (*state.facts, Written(state.tokens, state.start, position + 1)))
        if self._limit is not None and len(after.facts) == self._limit.facts:
            ids = self._limit.after_line if b"\n" in rest else self._limit.after_fact
            return Closing(ids, 0, after.facts) if ids else after
        return after

    def _inside(
        self, prefix: tuple[int, ...], start: int, facts: tuple[Written, ...], rivals: tuple[tuple[int, ...], ...]
    ) -> InFact:
        children = subtract(self.source.children(prefix), rivals, len(prefix))
        return InFact(prefix=prefix, start=start, facts=facts, rivals=rivals, children=children)
