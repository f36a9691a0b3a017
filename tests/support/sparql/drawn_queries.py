"""SPARQL that a state machine writes: drawn at random among the ids that are allowed, or given as a line."""

import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from refactx.decoding.machine import Machine
from refactx.decoding.states import Dead, Free, State
from refactx.sparql.constrained import SparqlGrammar
from refactx.sparql.engines.checking import check_query
from refactx.sparql.syntax.parser import parse
from refactx.sparql.syntax.tokens import tokens_of
from refactx.sparql.syntax.tree import triples_of

LONGEST = 2000
"""No query that is drawn has more tokens."""
SHORT = 60
"""Queries with more tokens are brought to an end."""
_ENDS = (b"}", b"\n", b")", b'"')


def sparql_machine(index: Any) -> Machine:
    return Machine(index, queries=SparqlGrammar(index))


def walk(machine: Machine, seed: int, start: str = "") -> Iterator[tuple[list[int], State]]:
    """A query whose ids are drawn, as the ids so far with their state. `start`: how it begins.

    The first byte is drawn, and then a token with it: most tokens are words that may be in strings and variables.
    """
    drawn, encode = random.Random(seed), machine.source.tokenizer.encode
    ids = encode("SPARQL:")
    state = machine.run(ids, 0)
    yield list(ids), state
    for token in encode(start):
        state = machine.advance(state, token, len(ids))
        ids.append(token)
        yield list(ids), state
    while not isinstance(state, Free):
        tokens = machine.allowed(state)
        assert tokens is not None
        assert len(tokens), machine.source.tokenizer.decode(ids)
        assert len(ids) < LONGEST
        by_byte = defaultdict[bytes, list[int]](list)
        for token in tokens.tolist():
            by_byte[machine.bytes_of(token).lstrip(b" ")[:1]].append(token)
        ends = [byte for byte in _ENDS if byte in by_byte]
        is_end = ends and drawn.random() < (0.1 if len(ids) < SHORT else 0.8)
        token = drawn.choice(by_byte[drawn.choice(ends if is_end else sorted(by_byte))])
        state = machine.advance(state, token, len(ids))
        ids.append(token)
        yield list(ids), state


def line_of(machine: Machine, seed: int, start: str = "") -> str:
    """A query drawn at random."""
    *_, (ids, state) = walk(machine, seed, start)
    assert isinstance(state, Free)
    (line,) = machine.queries(ids, 0)
    assert line == machine.source.tokenizer.decode(ids).removeprefix("SPARQL:").strip()
    return line


def states_of(machine: Machine, line: str) -> Iterator[State]:
    """The states within a line, each of whose ids has to be among the allowed ones; Dead after one that is not."""
    ids = machine.source.tokenizer.encode(f"SPARQL: {line}\n")
    begin = len(machine.source.tokenizer.encode("SPARQL:"))
    state = machine.run(ids[:begin], 0)
    for position, token in enumerate(ids[begin:], begin):
        tokens = machine.allowed(state)
        if tokens is None or token not in tokens:
            yield Dead()
            return
        state = machine.advance(state, token, position)
        yield state


def is_written(machine: Machine, line: str) -> bool:
    *_, state = states_of(machine, line)
    assert isinstance(state, Free | Dead)
    return isinstance(state, Free)


def check_names(line: str, facts: frozenset[tuple[str, str, str]]) -> None:
    """Check that a query is SPARQL, and that its names exist: subjects and predicates of some facts.

    The predicate directly after a name, if it is read forwards, is one that this subject has.
    """
    check_query(line)
    tokens = tokens_of(line)
    triples = list(triples_of(parse(tokens).query))
    paths = {at for triple in triples for at in range(*triple.path.span)}
    for at, token in enumerate(tokens):
        if token.kind == "label":
            assert token.label in {fact[1 if at in paths else 0] for fact in facts}, (token.label, line)
    for triple in triples:
        subject, first = tokens[triple.subject.span[0]], tokens[triple.path.span[0]]
        if subject.kind == first.kind == "label":
            assert (subject.label, first.label) in {(s, p) for s, p, _ in facts}, line
