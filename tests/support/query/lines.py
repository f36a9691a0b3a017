"""Queries that a state machine writes: drawn at random among the ids that are allowed, or given as a line."""

import random
from collections.abc import Iterator

from refactx.decoding.machine import Machine
from refactx.decoding.states import Dead, Free, State
from refactx.walks.decoding import QueryGrammar
from refactx.walks.facts import TreeFacts
from refactx.walks.language import FactSet
from support.query.memory_index import RowsIndex
from support.query.twin import Fact

LONGEST = 400
"""No query of names as short as the twin's has more tokens."""


def machine_of(index: RowsIndex, facts: FactSet | None = None) -> Machine:
    return Machine(index, queries=QueryGrammar(TreeFacts(index) if facts is None else facts, index))


def on(*claims: Fact) -> Machine:
    """The machine of an index with a few claims, without inverse facts."""
    return machine_of(RowsIndex([(1, frozenset(claims))]))


def encode(machine: Machine, text: str) -> list[int]:
    return machine.source.tokenizer.encode(text)


def walk(machine: Machine, seed: int) -> Iterator[tuple[list[int], State]]:
    """A query whose ids are drawn from those that are allowed, as the ids so far with their state.

    The end is seldom drawn, so that many queries are long.
    """
    drawn, ids = random.Random(seed), encode(machine, "Query:")
    state = machine.run(ids, 0)
    yield list(ids), state
    while not isinstance(state, Free):
        tokens = machine.allowed(state)
        assert tokens is not None
        assert len(tokens), machine.source.tokenizer.decode(ids)
        assert len(ids) < LONGEST
        end = set(machine.terminator.tokens[0].tolist())
        longer = [token for token in tokens.tolist() if token not in end]
        token = drawn.choice(longer if longer and drawn.random() < 0.8 else tokens.tolist())
        state = machine.advance(state, token, len(ids))
        ids.append(token)
        yield list(ids), state


def line_of(machine: Machine, seed: int) -> str:
    """The line of a query drawn at random."""
    *_, (ids, state) = walk(machine, seed)
    assert isinstance(state, Free)
    (line,) = machine.queries(ids, 0)
    assert line == machine.source.tokenizer.decode(ids).removeprefix("Query:").strip()
    return line


def write(machine: Machine, line: str) -> State:
    """The state after a query, each of whose ids has to be among the allowed ones; Dead if one is not."""
    ids = encode(machine, f"Query: {line}")
    begin = len(encode(machine, "Query:"))
    state = machine.run(ids[:begin], 0)
    for position, token in enumerate(ids[begin:], begin):
        tokens = machine.allowed(state)
        if tokens is None or token not in tokens:
            return Dead()
        state = machine.advance(state, token, position)
    return state


def is_written(machine: Machine, line: str) -> bool:
    state = write(machine, line)
    assert isinstance(state, Free | Dead)
    return isinstance(state, Free)
