"""Namesakes: the entities that a name may mean, since it is their own name (with a parenthesis) or an alias of theirs.

An alias is in the tree as facts that lead to the entity, `<JFK (alias)> <alias of> <John F. Kennedy (...)>`
(`refactx.ingest.knowledge.aliases`). Entities with more facts are meant more often.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from refactx.decoding.lookups import Lookups
from refactx.decoding.machine import Machine
from refactx.decoding.states import InFact
from refactx.engines.engine import IdPath
from refactx.fact import ALIAS, ALIAS_OF, split_fact, unit

SHARED_BY = 20
"""The most entities of an alias that are looked up, each by a walk through the tree; the first ones in the order of
ids."""
WIDER = 4
"""This many times as many names are looked up as are wanted, since some of them may be aliases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Namesake:
    """An entity that a name may mean.

    `ids`: those of its name, up to the closing bracket; `state`: that after them; `share`: its part of the facts of all
    entities with the name, 0 to 1, without the facts that state aliases; `alias`: the alias that leads to it; empty if
    its own name does.
    """

    ids: IdPath
    state: InFact
    share: float
    alias: str = ""


def namesakes(machine: Machine, start: InFact, ids: IdPath, state: InFact, most: int) -> Lookups[list[Namesake]]:
    """Return at most `most` of the entities that the name written by `ids` may mean, those with most facts first.

    `start`: the state before the ids, in a subject; `state`: that after them, within the parenthesis that tells
    namesakes apart, or after the whole name.
    """
    if b">" in machine.text_of(state.prefix):
        return [Namesake(ids=ids, state=state, share=1.0)]
    names = dict((yield from walk_by_facts(machine, state, WIDER * most, lambda text: b">" in text)))
    plain = yield from _find_plain_alias(machine, state)
    aliases = {path: end for path, end in names.items() if _is_alias(machine, end)} | plain
    holders: list[tuple[str, str]] = []
    for alias_end in aliases.values():
        if len(holders) < SHARED_BY:
            holders += yield from _find_holders(machine, alias_end)
    meant, alias_of = dict[IdPath, InFact](), dict[IdPath, str]()
    for alias, name in holders[:SHARED_BY]:
        path = _ids_of_name(machine, start, name)
        end = yield from machine.following(start, path)
        if path and isinstance(end, InFact):  # else the entity has no fact left, or the text has begun another name
            meant[path], alias_of[path] = end, alias
    found = {(*ids, *path): end for path, end in names.items() if not (meant and path in aliases)} | meant
    total = state.children.total
    if meant:
        total -= sum(end.children.total for end in aliases.values())
        total += sum(end.children.total for path, end in meant.items() if path[: len(ids)] != ids)
    best = sorted(found.items(), key=lambda one: -one[1].children.total)[:most]
    return [
        Namesake(ids=path, state=end, share=end.children.total / total, alias=alias_of.get(path, ""))
        for path, end in best
    ]


def walk_by_facts(
    machine: Machine, state: InFact, most: int, is_end: Callable[[bytes], bool]
) -> Lookups[list[tuple[IdPath, InFact]]]:
    """Return at most `most` shortest paths from a state to texts that `is_end`, those with most facts first."""
    heap: list[tuple[int, IdPath, InFact]] = [(-state.children.total, (), state)]
    found: list[tuple[IdPath, InFact]] = []
    while heap and len(found) < most:
        _, path, at = heapq.heappop(heap)
        if is_end(machine.text_of(at.prefix)):
            found.append((path, at))
            continue
        for token, count in zip(at.children.tokens.tolist(), at.children.leaves.tolist(), strict=True):
            longer = yield from machine.advancing(at, token, 0)
            if isinstance(longer, InFact):
                heapq.heappush(heap, (-count, (*path, token), longer))
    return found


def _is_alias(machine: Machine, state: InFact) -> bool:
    return machine.text_of(state.prefix).rstrip(b" <").endswith(f"{ALIAS}>".encode())


def _find_plain_alias(machine: Machine, state: InFact) -> Lookups[dict[IdPath, InFact]]:
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
            if _agree(text + machine.bytes_of(token), whole):
                longer = yield from machine.advancing(at, token, 0)
                if isinstance(longer, InFact):
                    running.append(((*path, token), longer))
    return {}


def _agree(one: bytes, other: bytes) -> bool:
    return one.startswith(other) or other.startswith(one)


def _find_holders(machine: Machine, alias: InFact) -> Lookups[list[tuple[str, str]]]:
    """Return pairs of an alias and the name of an entity that has it, the object of a fact; at most `SHARED_BY`."""
    ends = yield from walk_by_facts(
        machine, alias, SHARED_BY, lambda text: split_fact(text.decode("utf-8", "replace")) is not None
    )
    facts = (split_fact(machine.text_of(end.prefix).decode("utf-8", "replace")) for _, end in ends)
    return [(fact[0].removesuffix(ALIAS), fact[2]) for fact in facts if fact is not None and fact[1] == ALIAS_OF]


def _ids_of_name(machine: Machine, start: InFact, name: str) -> IdPath:
    """Return the ids of a subject's name after those that `start` has; empty if it has begun another name."""
    ids, begun = machine.source.tokenizer.encode_after(machine.source.trigger, f"{unit(name)} <"), start.prefix
    # (An id may extend beyond the bracket.)
    closed = next((n for n, token in enumerate(ids, 1) if b">" in machine.bytes_of(token)), 0)
    return tuple(ids[len(begun) : closed]) if tuple(ids[: len(begun)]) == tuple(begun) else ()
