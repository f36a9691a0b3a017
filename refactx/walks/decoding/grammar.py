"""The constraint of queries: which ids may follow in a line after `Query:`.

A *slot* has the units that may follow, as token ids. A unit is encoded by itself, with the space before it, as parts of
facts are. So a finite slot is a prefix tree of encodings, and names of subjects are the index's own tree up to the
first closing bracket.

A state has the whole units of a line and the ids of the unit in progress, so it is a pure function of the ids after the
trigger. `refactx.walks.decoding.readings` says which units may follow it, the slots here which ids.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from refactx.decoding.markers import Terminator
from refactx.decoding.names import Begun, Subjects, TextTree, Units
from refactx.decoding.states import FactSource, LineConstraint
from refactx.errors import ModelError
from refactx.tree.tree import NO_TOKENS, Path, Tokens
from refactx.walks.decoding.readings import END, Beginning, Choices, Literals, Memo, Reading, Samples, may_begin
from refactx.walks.language import TERMINATOR, FactSet
from refactx.walks.values import Ordered

TRIGGER = "Query:"
MOST_SLOTS = 256
"""The most slots that are kept: one for each line that was written up to the end of a unit."""
MOST_SUBJECTS = 20_000
"""The most subjects whose predicates are kept."""


class Slot:
    """The units that may follow. `texts`: by their ids; `subjects`: if names of subjects may follow; `literals`: the
    kinds of literals that a model may write by itself, with the `writer` of them."""

    def __init__(
        self,
        texts: Mapping[Path, str],
        *,
        subjects: Subjects | None = None,
        literals: frozenset[Ordered] = frozenset(),
        writer: Literals,
    ) -> None:
        self._texts = TextTree(texts)
        self._subjects, self._literals, self._writer = subjects, literals, writer

    def after(self, ids: Path, source: FactSource) -> Begun:
        """Return the beginning of a unit with some ids."""
        found = [self._texts.after(ids)]
        if self._subjects is not None:
            found.append(self._subjects.after(ids, source))
        if self._literals:
            found.append(self._literal(self._writer.text_of(ids)))
        tokens = found[0].tokens if len(found) == 1 else np.unique(np.concatenate([one.tokens for one in found]))
        return Begun(tokens, next((one.unit for one in found if one.unit is not None), None))

    def _literal(self, begun: str | None) -> Begun:
        if begun is None or not may_begin(begun, self._literals):
            return Begun(NO_TOKENS)
        if begun.endswith(">"):
            return Begun(NO_TOKENS, begun.strip())
        return Begun(self._writer.after(begun, self._literals))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryState:
    """In a query. `units`: those that are whole; `ids`: those of the unit in progress, which may be whole too.

    `after_space`: the line has a space before its first unit already. `following`: the ids that may come next, a function
    of the other fields.
    """

    units: tuple[str, ...] = ()
    ids: Path = ()
    after_space: bool = False
    following: Tokens = field(default_factory=lambda: NO_TOKENS, compare=False, repr=False)


class QueryGrammar(LineConstraint[QueryState | None]):
    """The constraint of queries on a set of facts: after `Query:` a text has only queries that can be answered.

        facts = refactx.walks.TreeFacts(index)
        machine = refactx.Machine(index, queries=refactx.walks.QueryGrammar(facts, index))
        machine.queries(ids, prompt_length)  # such as ["count <Louisiana> <nickname> ."]

    Each name in a query exists: starts are subjects of the index, predicates those that the start or some member of the
    set has, values those that some member has, or numbers and times. Sets of more than 200 members are judged by 200 of
    them (`refactx.walks.decoding.readings`). Threads may share it.

    `source`: the index that the facts are of. Raises ModelError if its tokenizer joins parts of facts in one token, or
    cannot write the end of a query. Methods raise as those of the set of facts do. A state is None after an id that was
    not allowed.
    """

    trigger = TRIGGER

    def __init__(self, facts: FactSet, source: FactSource) -> None:
        self._source, tokenizer = source, source.tokenizer
        self._token_bytes = tokenizer.token_bytes
        self._encoder = Units(tokenizer, source.trigger)
        if not self._encoder.are_whole:
            raise ModelError(
                "this tokenizer has tokens with text of two parts of a fact, such as '> <', so the parts of a query cannot "
                "be told apart: leave out queries, or use a model with another tokenizer"
            )
        terminator = Terminator.of(TERMINATOR.encode(), self._token_bytes)
        self._ends = dict.fromkeys(_paths(terminator), END)
        self._literals, self._subjects = Literals(self._token_bytes), Subjects(self._token_bytes, self._encoder.closing)
        state = partial(getattr, source, "segments", None)
        self._samples = Samples(facts, Memo[dict[str, int]](MOST_SUBJECTS, state))
        self._readings = Memo[tuple[Reading, ...]](MOST_SLOTS, state)
        self._slots = Memo[Slot](MOST_SLOTS, state)

    def start(
        self, prompt: Sequence[int] = (), padding: Container[int] | None = None, *, after_space: bool = False
    ) -> QueryState:
        """Return the state directly after the trigger. If the index has no facts, the text stays free."""
        return self._at((), after_space) if self._source.children(()).total else QueryState(units=(END,))

    def advance(self, state: QueryState | None, token: int, position: int) -> QueryState | None:
        if state is None or self.is_free(state):
            return state
        slot = self._slot(state.units, state.after_space)
        longer = slot.after((*state.ids, token), self._source)
        if longer.is_possible:
            return self._within(state.units, (*state.ids, token), longer, state.after_space)
        begun = slot.after(state.ids, self._source)
        if begun.unit is None:
            return None
        units = (*state.units, begun.unit)
        following = self._slot(units).after((token,), self._source)
        return self._within(units, (token,), following) if following.is_possible else None

    def allowed(self, state: QueryState | None) -> Tokens | None:
        if state is None:
            return NO_TOKENS
        return None if self.is_free(state) else state.following

    def is_free(self, state: QueryState | None) -> bool:
        return state is not None and state.units[-1:] == (END,)

    def over(self, source: FactSource) -> "QueryGrammar":
        other = copy(self)
        other._source = source
        return other

    def line_of(self, state: QueryState) -> str:
        """Return the text of a query as far as its units are whole."""
        begun = self._slot(state.units, state.after_space).after(state.ids, self._source).unit
        return " ".join(unit for unit in (*state.units, begun) if unit not in (None, END))

    def _at(self, units: tuple[str, ...], after_space: bool = False) -> QueryState:
        """Return the state between two units."""
        begun = self._slot(units, after_space).after((), self._source)
        return QueryState(units=units, after_space=after_space, following=begun.tokens)

    def _within(self, units: tuple[str, ...], ids: Path, begun: Begun, after_space: bool = False) -> QueryState:
        """Return the state in a unit, or after it if no longer unit begins so."""
        if begun.unit is None:
            return QueryState(units=units, ids=ids, after_space=after_space, following=begun.tokens)
        if begun.unit == END:
            return QueryState(units=(*units, END))
        after = self._at((*units, begun.unit))
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
