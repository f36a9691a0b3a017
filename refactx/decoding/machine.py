"""What a sequence of token ids is in the middle of: free text, a fact, or a fact's terminator.

The state of a sequence is a pure function of its ids (`Machine.run`), one id at a time (`Machine.advance`). States are
immutable and share their parts, so to fork one is to keep a reference. `refactx.decoding.mask` says which tokens may follow.

    Free --trigger--> InFact --terminator begun--> InTerminator --complete--> Free (one fact more)
                        |________________terminator in one token_______________^
    InFact, InTerminator, Closing --a token that was not allowed--> Dead

With a limit (`Machine.limited`) the last fact leads to Closing, where the text that follows facts is forced, and from
there to Free; another trigger leads to Closing too, with the end of sequence.

Three things that look alike are kept apart: a fact is *complete* where the tree says so (`terminal`) and the terminator
follows; a prefix is *exhausted* where this sequence has written every fact under it (its net count is 0, so it is never
entered; with the whole index exhausted the trigger no longer constrains); a sequence is *off the tree* (`Dead`) where
beam search kept a row that was ruled out.
"""

import copy
import logging
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from refactx.decoding.markers import Terminator, Trigger
from refactx.errors import CorruptIndexError, IndexChangedError, ModelError
from refactx.fact import Fact, split_fact
from refactx.tokenizer import FactTokenizer
from refactx.tree.children import OFF_TREE, Children, add

_log = logging.getLogger(__name__)


class FactSource(Protocol):
    """What decoding needs of an index."""

    @property
    def tokenizer(self) -> FactTokenizer:
        """The tokenizer that the index was built with."""
        ...

    @property
    def trigger(self) -> str:
        """The text that starts a fact, `Fact:`."""
        ...

    @property
    def terminator(self) -> str:
        """The text that ends a fact, ` .`."""
        ...

    def children(self, prefix: Sequence[int]) -> Children:
        """What may follow `prefix` (token ids) in the tree."""
        ...


@dataclass(frozen=True, slots=True)
class Written:
    """A fact that this sequence completed: its token ids as in the tree, and where it stands in the sequence.

    `start`: position of the first token behind the trigger; `stop`: one past the terminator's last token.
    """

    tokens: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Free:
    """Outside facts. `tail`: the last bytes of the text, as many as the trigger needs."""

    tail: bytes = b""
    facts: tuple[Written, ...] = ()


@dataclass(frozen=True, slots=True)
class InFact:
    """Behind the trigger. `prefix`: the fact's ids so far; `rivals`: the facts of `facts` that start with `prefix`;
    `children`: what may follow in the tree, less the rivals (it follows from the others, so it is not compared).
    """

    prefix: tuple[int, ...]
    start: int
    facts: tuple[Written, ...] = ()
    rivals: tuple[tuple[int, ...], ...] = ()
    children: Children = field(default=OFF_TREE, compare=False, repr=False)

    @property
    def is_whole(self) -> bool:
        """Whether `prefix` is a fact that goes on in no other: only the terminator can follow."""
        return self.children.terminal > 0 and not len(self.children.tokens)


@dataclass(frozen=True, slots=True)
class InTerminator:
    """The fact `tokens` is whole and `done` bytes of its terminator are written, at least 1 and not all."""

    tokens: tuple[int, ...]
    start: int
    done: int
    facts: tuple[Written, ...] = ()


@dataclass(frozen=True, slots=True)
class Dead:
    """Off the tree: nothing may follow, and what follows changes nothing."""

    facts: tuple[Written, ...] = ()


@dataclass(frozen=True, slots=True)
class Closing:
    """No more facts: `ids` have to follow, of which `done` are written."""

    ids: tuple[int, ...]
    done: int
    facts: tuple[Written, ...] = ()


State = Free | InFact | InTerminator | Closing | Dead


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `facts` facts in a sequence.

    `behind_fact` has to follow the last one, or `behind_line` where it came with a line end; none: anything may follow.
    `behind_trigger` (the end of sequence) has to follow where another one is begun nevertheless; none: that fact may be
    written, as one that is not is never. All are token ids.
    """

    facts: int
    behind_fact: tuple[int, ...] = ()
    behind_line: tuple[int, ...] = ()
    behind_trigger: tuple[int, ...] = ()


class Machine:
    """The states of sequences over one index. Holds no sequence: any number of threads may share one.

    Raises ModelError where the tokenizer cannot write the index's trigger or terminator. Whatever walks a fact raises
    IndexChangedError where the facts under its prefix were retracted since the token before.
    """

    def __init__(self, source: FactSource) -> None:
        tokenizer, trigger = source.tokenizer, source.trigger.encode()
        if not trigger or not source.terminator:
            raise ModelError("trigger and terminator must not be empty")
        if tokenizer.decode_bytes(tokenizer.encode(source.trigger)).strip() != trigger.strip():
            raise ModelError(f"this tokenizer cannot write the trigger {source.trigger!r}; choose another")
        self.source = source
        self.token_bytes = tokenizer.token_bytes
        self.trigger = Trigger(trigger)
        self.terminator = Terminator.of(source.terminator.encode(), self.token_bytes)
        self._limit: Limit | None = None
        self._warned = False
        self._told = b""

    def limited(self, limit: Limit) -> "Machine":
        """This machine with a limit."""
        other = copy.copy(self)
        other._limit = limit
        return other

    def bytes_of(self, token: int) -> bytes:
        """The bytes of an id; empty for special tokens and for ids beyond the vocabulary."""
        return self.token_bytes[token] if token < len(self.token_bytes) else b""

    def text_of(self, ids: Iterable[int]) -> bytes:
        """The text of ids."""
        return b"".join(map(self.bytes_of, ids))

    def begin(self, position: int, facts: tuple[Written, ...] = ()) -> InFact:
        """The state right behind a trigger, at `position` in a sequence that has completed `facts`."""
        return self._inside((), position, facts, tuple(fact.tokens for fact in facts))

    def _inside(
        self, prefix: tuple[int, ...], start: int, facts: tuple[Written, ...], rivals: tuple[tuple[int, ...], ...]
    ) -> InFact:
        return InFact(prefix, start, facts, rivals, _net(self.source.children(prefix), rivals, len(prefix)))

    def advance(self, state: State, token: int, position: int) -> State:
        """The state after one more token, which stands at `position` in the sequence."""
        match state:
            case Free():
                return self._free(state, token, position)
            case InFact():
                return self._in_fact(state, token, position)
            case InTerminator():
                after = self.terminator.steps[state.done].get(token)
                return Dead(state.facts) if after is None else self._ending(state, after, token, position)
            case Closing():
                return self._closing(state, token)
            case Dead():
                return state

    def _free(self, state: Free, token: int, position: int) -> State:
        piece = self.bytes_of(token)
        if not piece:  # special tokens are no text: a trigger goes on across them
            return state
        after = Free(self.trigger.tail(state.tail + piece), state.facts)
        if not self.trigger.completed(state.tail, piece):
            return after
        if self._limit is not None and self._limit.behind_trigger and len(state.facts) >= self._limit.facts:
            return Closing(self._limit.behind_trigger, 0, state.facts)
        fact = self.begin(position + 1, state.facts)
        if fact.children.total > 0:
            return fact
        if not self._warned:
            self._warned = True
            found = "a sequence has written all facts of the index" if state.facts else "the index has no facts"
            _log.warning("%s: %r does not constrain what follows", found, self.source.trigger)
        return after

    def _in_fact(self, state: InFact, token: int, position: int) -> State:
        children, rivals = state.children, state.rivals
        if children.leaves_of(token):  # a token that is both goes on in the tree: ids, not text, tell facts apart
            if rivals:
                depth = len(state.prefix)
                rivals = tuple(rival for rival in rivals if rival[depth : depth + 1] == (token,))
            inside = self._inside((*state.prefix, token), state.start, state.facts, rivals)
            if inside.children.total == 0:  # facts were there a token ago
                raise IndexChangedError(
                    "the facts that begin like the one being written were retracted meanwhile: ask again"
                )
            return inside
        done = self.terminator.steps[0].get(token) if children.terminal > 0 else None
        if done is None:
            return Dead(state.facts)
        return self._ending(InTerminator(state.prefix, state.start, 0, state.facts), done, token, position)

    def _ending(self, state: InTerminator, done: int, token: int, position: int) -> State:
        if done < self.terminator.size:
            return InTerminator(state.tokens, state.start, done, state.facts)
        behind = self.bytes_of(token)[self.terminator.size - state.done :]
        after = Free(self.trigger.tail(behind), (*state.facts, Written(state.tokens, state.start, position + 1)))
        if self._limit is not None and len(after.facts) == self._limit.facts:
            ids = self._limit.behind_line if b"\n" in behind else self._limit.behind_fact
            return Closing(ids, 0, after.facts) if ids else after
        return after

    def _closing(self, state: Closing, token: int) -> State:
        if token != state.ids[state.done]:
            return Dead(state.facts)
        if state.done + 1 < len(state.ids):
            return Closing(state.ids, state.done + 1, state.facts)
        text = b"".join(self.bytes_of(written) for written in state.ids)
        return Free(self.trigger.tail(text), state.facts)

    def start(self, prompt: Sequence[int], padding: Container[int] | None = None) -> State:
        """The state behind a prompt. Its facts do not count as written; only what it leaves unfinished matters.

        `padding`: the ids that may pad the prompt on the right; None: any special token. A fact has no line break in
        it, so only triggers with no line break behind them are looked at (but for white space right behind them).
        """
        stop = len(prompt)
        while stop and not self.bytes_of(prompt[stop - 1]) and (padding is None or prompt[stop - 1] in padding):
            stop -= 1
        pieces = [self.bytes_of(token) for token in prompt[:stop]]
        text, trigger = b"".join(pieces), self.trigger.text
        starts: list[int] = []
        at = text.rfind(trigger)
        while at >= 0 and b"\n" not in text[at + len(trigger) :].lstrip():
            starts.append(at)
            at = text.rfind(trigger, 0, at + len(trigger) - 1)
        ends = np.cumsum([len(piece) for piece in pieces])
        position, left = 0, b""
        for at in reversed(starts):
            first = int(np.searchsorted(ends, at + len(trigger)))  # the token that completes the trigger
            if first < position or not self.trigger.counts(text[:at], text[at + len(trigger) : int(ends[first])]):
                continue
            state, position = self._walk(prompt, first + 1, stop, padding)
            if isinstance(state, InFact | InTerminator):
                return state
            left = text[at + len(trigger) :] if isinstance(state, Dead) else b""
        self._warn_of(left)
        return Free(self.trigger.tail(text))

    def _warn_of(self, behind: bytes) -> None:
        """Tell of the end of a prompt, behind its last trigger, where it is the beginning of no fact but looks like one."""
        begun = behind.strip()
        if begun.startswith(b"<") and self.source.terminator.encode() not in behind and begun != self._told:
            self._told = begun
            _log.warning(
                "the prompt leaves the fact %r unfinished, and none of the index begins so in these tokens: what follows "
                "is not held to the index (a prompt that is cut within a word has other tokens than the fact)",
                begun[-200:].decode("utf-8", "replace"),
            )

    def _walk(self, prompt: Sequence[int], first: int, stop: int, padding: Container[int] | None) -> tuple[State, int]:
        """Walk the tree from `first`: the state where the prompt ends, the fact ends or the tree is left, and where.

        Padding within is walked over: it stands behind a prefix that several prompts share.
        """
        state: State = self.begin(first)
        for position in range(first, stop):
            token = prompt[position]
            piece, at_trigger = self.bytes_of(token), isinstance(state, InFact) and not state.prefix
            if not piece and (padding is None or token in padding):
                state = self.begin(position + 1) if at_trigger else state
                continue
            after = self.advance(state, token, position)
            if isinstance(after, Dead) and at_trigger and piece.isspace():
                after = self.begin(position + 1)  # white space right behind the trigger
            state = after
            if not isinstance(state, InFact | InTerminator):
                return state, position
        if isinstance(state, InFact) and state.children.total == 0:  # an index without facts
            return Free(), stop
        return state, stop

    def run(self, ids: Sequence[int], prompt_length: int, padding: Container[int] | None = None) -> State:
        """The state of a whole sequence whose first `prompt_length` ids are the prompt."""
        state = self.start(ids[:prompt_length], padding)
        for position in range(prompt_length, len(ids)):
            state = self.advance(state, ids[position], position)
        return state

    def facts(self, ids: Sequence[int], prompt_length: int, padding: Container[int] | None = None) -> list[Fact]:
        """The facts that a sequence completed behind its prompt, in order; one begun in the prompt is among them.

        Raises CorruptIndexError where the index holds something that is not a fact.
        """
        return list(self.facts_of(self.run(ids, prompt_length, padding)))

    def facts_of(self, state: State) -> tuple[Fact, ...]:
        """The facts that a sequence in this state has completed, in order. Asks the index nothing. Raises as `facts`."""
        return tuple(self._fact(written) for written in state.facts)

    def _fact(self, written: Written) -> Fact:
        text = self.source.tokenizer.decode(written.tokens)
        parts = split_fact(text)
        if parts is None:
            raise CorruptIndexError(f"the index holds {text!r}, which is not a fact of three parts; rebuild it")
        subject, predicate, object_ = parts
        line = f"<{subject}> <{predicate}> <{object_}>{self.source.terminator}"
        return Fact(subject, predicate, object_, line, (written.start, written.stop))


def _net(tree: Children, rivals: Sequence[tuple[int, ...]], depth: int) -> Children:
    """What the tree allows at `depth`, less the facts that this sequence has already written."""
    if not rivals:
        return tree
    written = sorted(Counter(rival[depth] for rival in rivals if len(rival) > depth).items())
    own = Children(
        np.array([token for token, _ in written], np.int32),
        np.array([leaves for _, leaves in written], np.int64),
        sum(len(rival) == depth for rival in rivals),
    )
    return add([(+1, tree), (-1, own)])
