"""The states of a text, and the protocol of what constrains it.

A text with facts is in free text, in a fact, in its terminator, in a query, closing, or off the tree.

States are immutable values that share their parts: to fork a sequence, keep a reference to its state; to take back ids,
continue from an earlier state. `refactx.decoding.machine` computes them.

Three conditions look alike but differ. A fact is *complete* if the tree says so (`terminal`) and the terminator
follows. A prefix is *exhausted* if this sequence has written every fact that begins with it: its net count is 0, so it
is never entered; if the whole index is exhausted, a trigger no longer constrains the text. A sequence is *off the tree*
(`Dead`) if it has a token that was not allowed, as beams that are ruled out do.

Decoding loops, logits processors and engine adapters need nothing but a `Constraint`. `refactx.decoding.machine.Machine`
is that of texts with facts. It finds triggers, and leaves the line after the trigger of queries to a `LineConstraint`.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Protocol, Self, TypeVar

from refactx.errors import InputError
from refactx.tokenizer import FactTokenizer
from refactx.tree.tree import OFF_TREE, Children, Tokens

S = TypeVar("S")


class FactSource(Protocol):
    """The part of an index that decoding needs."""

    @property
    def tokenizer(self) -> FactTokenizer:
        """The tokenizer that the index was built for."""

    @property
    def trigger(self) -> str:
        """The text that starts a fact, `Fact:`."""

    @property
    def terminator(self) -> str:
        """The text that ends a fact, ` .`."""

    def children(self, prefix: Sequence[int]) -> Children:
        """Return the continuations of `prefix` (token ids) in the tree."""


def check_open(index: object) -> None:
    """Raise InputError for the name or the path of an index in place of an open one."""
    if isinstance(index, str | PathLike):
        raise InputError(
            f"the index is given as {str(index)!r}, which has to be opened first: "
            f"with refactx.open_index({str(index)!r}) as index: ..."
        )


@dataclass(frozen=True, slots=True)
class Written:
    """A fact that this sequence completed: its token ids as in the tree, and its place in the sequence.

    `start`: position of the first token after the trigger; `stop`: one past the terminator's last token.
    """

    tokens: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Free:
    """Outside facts. `tail`: the last bytes of the text, as many as are needed to recognise the trigger."""

    tail: bytes = b""
    facts: tuple[Written, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InFact:
    """In a fact. `prefix`: its ids so far, as in the tree; `rivals`: the written facts that start with `prefix`.

    `after_space`: whether the prompt has the space already with which the first token of facts begins, so that the
    tokens without it follow. `children`: the continuations of `prefix` in the tree without the rivals (`after_space`: as
    the ids that follow), a function of the other fields.
    """

    prefix: tuple[int, ...]
    start: int
    facts: tuple[Written, ...] = ()
    rivals: tuple[tuple[int, ...], ...] = ()
    after_space: bool = False
    children: Children = field(default=OFF_TREE, compare=False, repr=False)

    @property
    def is_whole(self) -> bool:
        """Whether `prefix` is a fact and no longer fact begins with it: only the terminator can follow."""
        return self.children.terminal > 0 and not len(self.children.tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class InTerminator:
    """In the terminator of the fact `tokens`; `done` bytes of it are written, at least one and not all."""

    tokens: tuple[int, ...]
    start: int
    done: int
    facts: tuple[Written, ...] = ()


@dataclass(frozen=True, slots=True)
class Dead:
    """Off the tree: nothing may follow, and further ids change nothing."""

    facts: tuple[Written, ...] = ()


@dataclass(frozen=True, slots=True)
class Closing:
    """After the last fact that a limit allows: `ids` have to follow, of which `done` are written."""

    ids: tuple[int, ...]
    done: int
    facts: tuple[Written, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InQuery:
    """In a line after the trigger of queries. `line`: its state by their constraint; `start`: as in `Written`."""

    line: Any
    start: int
    facts: tuple[Written, ...] = ()


State = Free | InFact | InTerminator | InQuery | Closing | Dead


@dataclass(frozen=True, slots=True, kw_only=True)
class FactLimit:
    """A sequence may write at most `facts` facts.

    `after_fact` has to follow the last one, or `after_line` if the token of its terminator has a line end; if empty,
    anything may follow. `after_trigger` (the end of sequence) has to follow a further trigger; if empty, a further fact
    may be written, since text after a trigger must not be unconstrained. All are token ids.
    """

    facts: int
    after_fact: tuple[int, ...] = ()
    after_line: tuple[int, ...] = ()
    after_trigger: tuple[int, ...] = ()

    @classmethod
    def of(cls, encode: Callable[[str], list[int]], facts: int, after_facts: str, end: Sequence[int]) -> Self:
        """Return a limit after which the text `after_facts` follows on a line of its own, if it is not empty.

        `encode`: returns the ids of a text. `end`: the ids that follow a further trigger.
        """
        line = encode(f"\n{after_facts}") if after_facts else ()
        return cls(facts=facts, after_fact=tuple(line), after_line=tuple(encode(after_facts)), after_trigger=tuple(end))


class Constraint(Protocol[S]):
    """What a text may be: which ids may come next after each state, of type `S`, an immutable value.

    A state is a pure function of the ids of a text, so beams, batches and draft tokens work: a loop stores the state with
    the ids, and takes back both together.
    """

    def start(self, prompt: Sequence[int], padding: Container[int] | None = None) -> S:
        """Return the state after a prompt. `padding`: the ids that may pad it, by default any special token."""

    def advance(self, state: S, token: int, position: int) -> S:
        """Return the state after one more token, at `position` in the sequence."""

    def allowed(self, state: S) -> Tokens | None:
        """Return the ids that may come next (the token bitmask, as a list): int32[n], ascending; None if any may.

        It is empty if the text has an id that was not allowed.
        """

    def forced(self, state: S) -> int | None:
        """Return the id that has to come next, if exactly one may (a fast-forward token); else None."""
        tokens = self.allowed(state)
        return int(tokens[0]) if tokens is not None and len(tokens) == 1 else None

    def is_free(self, state: S) -> bool:
        """Return whether any id may come next, so that the logits need no mask."""
        return self.allowed(state) is None

    def can_end(self, state: S) -> bool:
        """Return whether a text may end after a state: elsewhere, an id that ends texts is one like others."""
        return self.is_free(state)

    def over(self, source: FactSource) -> "Constraint[S]":
        """Return the constraint for a text that looks up facts in `source`, such as a snapshot of the index."""
        return self


class LineConstraint(Constraint[S], Protocol[S]):
    """A constraint of the line after a trigger (`Query:`), after which a text is free. A `Machine` may have one."""

    @property
    def trigger(self) -> str:
        """The text before the line."""

    def start(
        self, prompt: Sequence[int] = (), padding: Container[int] | None = None, *, after_space: bool = False
    ) -> S:
        """Return the state directly after the trigger. `after_space`: the text has a space after it."""

    def over(self, source: FactSource) -> "LineConstraint[S]": ...


class FreeText(Constraint[Free]):
    """The constraint by which any id may follow, always."""

    def start(self, prompt: Sequence[int], padding: Container[int] | None = None) -> Free:
        return Free()

    def advance(self, state: Free, token: int, position: int) -> Free:
        return state

    def allowed(self, state: Free) -> Tokens | None:
        return None
