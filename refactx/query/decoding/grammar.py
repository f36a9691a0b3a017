"""The grammar of queries: a second grammar of a state machine (`refactx.decoding.states`).

A state has the whole units of a line and the ids of the unit in progress, so it is a pure function of the ids after the
trigger. `refactx.query.decoding.readings` says which units may follow, `refactx.query.decoding.slots` which ids.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from refactx.decoding.markers import Terminator
from refactx.decoding.states import FactSource, Lookup, Lookups
from refactx.errors import ModelError
from refactx.query.decoding.literals import Literals
from refactx.query.decoding.memo import Memo
from refactx.query.decoding.readings import END, Beginning, Reading
from refactx.query.decoding.samples import Samples
from refactx.query.decoding.slots import Begun, Slot, Subjects
from refactx.query.decoding.units import Choices
from refactx.query.facts import Units
from refactx.query.language import TERMINATOR, FactSet
from refactx.tree.tree import NO_TOKENS, Path, Tokens

TRIGGER = "Query:"
MOST_SLOTS = 256
"""The most slots that are kept: one for each line that was written up to the end of a unit."""
MOST_SUBJECTS = 20_000
"""The most subjects whose predicates are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryState:
    """In a query. `units`: those that are whole; `ids`: those of the unit in progress, which may be whole too.

    `after_space`: the line has a space before its first unit already; `rest`: after the end, the text of the last token
    after it. `following`: the ids that may come next, a function of the other fields.
    """

    units: tuple[str, ...] = ()
    ids: Path = ()
    after_space: bool = False
    rest: bytes | None = None
    following: Tokens = field(default_factory=lambda: NO_TOKENS, compare=False, repr=False)


class QueryGrammar:
    """Queries on a set of facts, as a second grammar: after `Query:` a text has only queries that can be answered.

        facts = refactx.query.TreeFacts(index)
        machine = refactx.Machine(index, queries=refactx.query.QueryGrammar(facts))
        machine.queries(ids, prompt_length)  # such as ["count <Louisiana> <nickname> ."]

    Each name in a query exists: starts are subjects of the index, predicates those that the start or some member of the
    set has, values those that some member has, or numbers and times. Sets of more than 200 members are judged by 200 of
    them (`refactx.query.decoding.samples`).
    """

    def __init__(self, facts: FactSet) -> None:
        self._facts = facts

    def bind(self, source: FactSource) -> "BoundQueries":
        """Return the grammar for an index, the one that the facts are of.

        Raises ModelError if the tokenizer joins parts of facts in one token, or cannot write the end of a query.
        """
        return BoundQueries(self._facts, source)


class BoundQueries:
    """The grammar of queries for one index (`refactx.decoding.states.LineGrammar`). Threads may share it.

    Raises as `QueryGrammar.bind` does. Methods raise as those of the set of facts do.
    """

    trigger = TRIGGER

    def __init__(self, facts: FactSet, source: FactSource) -> None:
        tokenizer = source.tokenizer
        self._token_bytes = tokenizer.token_bytes
        self._encoder = Units(tokenizer, source.trigger)
        if not self._encoder.are_whole:
            raise ModelError(
                "this tokenizer has tokens with text of two parts of a fact, such as '> <', so the parts of a query cannot "
                "be told apart: leave out queries, or use a model with another tokenizer"
            )
        if source.trigger.strip() == TRIGGER:
            raise ModelError(
                f"the index has the trigger {source.trigger!r}, as queries have: build it with another one"
            )
        terminator = Terminator.of(TERMINATOR.encode(), self._token_bytes)
        self._ends = dict.fromkeys(_paths(terminator), END)
        self._literals, self._subjects = Literals(self._token_bytes), Subjects(self._token_bytes, self._encoder.closing)
        state = partial(getattr, source, "segments", None)
        self._samples = Samples(facts, Memo[dict[str, int]](MOST_SUBJECTS, state))
        self._readings = Memo[tuple[Reading, ...]](MOST_SLOTS, state)
        self._slots = Memo[Slot](MOST_SLOTS, state)

    def beginning(self, *, after_space: bool = False) -> Lookups[QueryState | None]:
        """Return the state directly after the trigger; None if the index has no facts."""
        [found] = yield Lookup([()])
        return (yield from self._at((), after_space)) if found.total else None

    def advancing(self, state: QueryState, token: int) -> Lookups[QueryState | None]:
        """Return the state after one more token; None if it was not allowed."""
        if state.rest is not None:
            return None
        slot = self._slot(state.units, state.after_space)
        longer = yield from slot.after((*state.ids, token))
        if longer.is_possible:
            return (yield from self._within(state.units, (*state.ids, token), longer, state.after_space))
        begun = yield from slot.after(state.ids)
        if begun.unit is None:
            return None
        units = (*state.units, begun.unit)
        following = yield from self._slot(units).after((token,))
        return (yield from self._within(units, (token,), following)) if following.is_possible else None

    def _at(self, units: tuple[str, ...], after_space: bool = False) -> Lookups[QueryState]:
        """Return the state between two units."""
        begun = yield from self._slot(units, after_space).after(())
        return QueryState(units=units, after_space=after_space, following=begun.tokens)

    def _within(
        self, units: tuple[str, ...], ids: Path, begun: Begun, after_space: bool = False
    ) -> Lookups[QueryState]:
        """Return the state in a unit, or after it if no longer unit begins so."""
        if begun.unit is None:
            return QueryState(units=units, ids=ids, after_space=after_space, following=begun.tokens)
        if begun.unit == END:
            text = b"".join(self._token_bytes[token] for token in ids)
            return QueryState(units=(*units, END), rest=text[len(TERMINATOR) :])
        after = yield from self._at((*units, begun.unit))
        if not len(begun.tokens):
            return after
        following = np.union1d(begun.tokens, after.following)
        return QueryState(units=units, ids=ids, after_space=after_space, following=following)

    def _slot(self, units: tuple[str, ...], after_space: bool = False) -> Slot:
        return self._slots.get((units, after_space), lambda: self._new_slot(units, after_space))

    def _new_slot(self, units: tuple[str, ...], after_space: bool) -> Slot:
        choices = Choices()
        for reading in self._read(units):
            choices = choices | reading.choices(self._samples)
        texts = sorted(choices.texts - {END})
        encoded = self._encoder.encode_texts([f" {text}" for text in texts])
        if after_space:
            encoded = [self._without_space(ids) for ids in encoded]
        units_by_ids = dict(zip(encoded, texts, strict=True)) | (self._ends if END in choices.texts else {})
        subjects = self._subjects if choices.subjects else None
        return Slot(units_by_ids, subjects=subjects, literals=choices.literals, writer=self._literals)

    def _read(self, units: tuple[str, ...]) -> tuple[Reading, ...]:
        if not units:
            return (Beginning(),)

        def read() -> tuple[Reading, ...]:
            before = self._read(units[:-1])
            return tuple(dict.fromkeys(new for one in before for new in one.after(units[-1], self._samples)))

        return self._readings.get(units, read)

    def _without_space(self, ids: Path) -> Path:
        """Return the ids of a unit without the space before it; as they are, if no token is the first without it."""
        rest = self._token_bytes[ids[0]][1:]
        if not rest:
            return ids[1:]
        return (self._token_bytes.index(rest), *ids[1:]) if rest in self._token_bytes else ids


def _paths(terminator: Terminator, done: int = 0) -> Iterator[Path]:
    """Yield the ids of each way to write the terminator, of which `done` bytes are written."""
    for token in terminator.tokens[done].tolist():
        after = terminator.steps[done][token]
        if after == terminator.size:
            yield (token,)
        else:
            yield from ((token, *rest) for rest in _paths(terminator, after))
