"""Who a name may mean: those that are told apart by what stands in brackets behind it, and those that have it for an alias.

An alias is in the tree as facts that lead to who has it, `<JFK (alias)> <alias of> <John F. Kennedy (...)>`
(`refactx.ingest.knowledge.aliases`). Who has more facts is meant more often.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from refactx.choosing.answer_lines import after
from refactx.decoding.machine import InFact, Machine
from refactx.fact import ALIAS, ALIAS_OF, split_fact, unit
from refactx.tree.children import Path

SHARED_BY = 20
"""So many of those who have an alias are looked at, each a walk through the tree; of more, the order of ids decides which."""
WIDER = 4
"""So many times the names that are wanted are looked at, since some of them may be aliases."""


@dataclass(frozen=True, slots=True)
class Namesake:
    """One of those that a name may mean: its `ids` behind where its name begins, to its closing bracket, the `state` behind
    these, and what `share` it has of the facts of all who have the name, 0 to 1 (those that only tell of aliases left out).
    `alias`: the one that leads to it; empty: its own name does.
    """

    ids: Path
    state: InFact
    share: float
    alias: str = ""


def namesakes(machine: Machine, start: InFact, ids: Path, state: InFact, most: int) -> list[Namesake]:
    """Of those that the name written by `ids` may mean, at most `most`, those with most facts first.

    `start`: the state in front of these, in a subject; `state`: the one behind them, within the brackets that tell namesakes
    apart, or behind the whole name.
    """
    if b">" in machine.text_of(state.prefix):
        return [Namesake(ids, state, 1.0)]
    names = dict(most_facts(machine, state, WIDER * most, lambda text: b">" in text))
    aliases = {path: end for path, end in names.items() if _is_alias(machine, end)} | _plain_alias(machine, state)
    whose = ((alias, name) for end in aliases.values() for alias, name in _holders(machine, end))
    meant, alias_of = dict[Path, InFact](), dict[Path, str]()
    for alias, name in islice(whose, SHARED_BY):
        path = _ids_of(machine, start, name)
        end = after(machine, start, path)
        if path and isinstance(end, InFact):  # else it has no fact left, or the text has begun another name
            meant[path], alias_of[path] = end, alias
    found = {(*ids, *path): end for path, end in names.items() if not (meant and path in aliases)} | meant
    total = state.children.total
    if meant:
        total -= sum(end.children.total for end in aliases.values())
        total += sum(end.children.total for path, end in meant.items() if path[: len(ids)] != ids)
    best = sorted(found.items(), key=lambda one: -one[1].children.total)[:most]
    return [Namesake(path, end, end.children.total / total, alias_of.get(path, "")) for path, end in best]


def most_facts(machine: Machine, state: InFact, most: int, ends: Callable[[bytes], bool]) -> list[tuple[Path, InFact]]:
    """The ways on from a state to the first ids behind which the text `ends`, those with most facts first."""
    heap: list[tuple[int, Path, InFact]] = [(-state.children.total, (), state)]
    found: list[tuple[Path, InFact]] = []
    while heap and len(found) < most:
        _, path, at = heapq.heappop(heap)
        if ends(machine.text_of(at.prefix)):
            found.append((path, at))
            continue
        for token, count in zip(at.children.tokens.tolist(), at.children.leaves.tolist(), strict=True):
            longer = machine.advance(at, token, 0)
            if isinstance(longer, InFact):
                heapq.heappush(heap, (-count, (*path, token), longer))
    return found


def _is_alias(machine: Machine, state: InFact) -> bool:
    return machine.text_of(state.prefix).rstrip(b" <").endswith(f"{ALIAS}>".encode())


def _plain_alias(machine: Machine, state: InFact) -> dict[Path, InFact]:
    """The way on to the end of a name's plain alias, `<JFK (alias)>`, from within its bracket; none where there is none."""
    whole = machine.text_of(state.prefix).rpartition(b" (")[0] + f"{ALIAS}>".encode()
    running: list[tuple[Path, InFact]] = [((), state)]
    while running:
        path, at = running.pop()
        text = machine.text_of(at.prefix)
        if text.startswith(whole):
            return {path: at}
        for token in at.children.tokens.tolist():
            if _agree(text + machine.bytes_of(token), whole):
                longer = machine.advance(at, token, 0)
                if isinstance(longer, InFact):
                    running.append(((*path, token), longer))
    return {}


def _agree(one: bytes, other: bytes) -> bool:
    return one.startswith(other) or other.startswith(one)


def _holders(machine: Machine, alias: InFact) -> list[tuple[str, str]]:
    """An alias with the name of each who has it: the objects of its facts, some of very many."""
    ends = most_facts(machine, alias, SHARED_BY, lambda text: split_fact(text.decode("utf-8", "replace")) is not None)
    facts = (split_fact(machine.text_of(end.prefix).decode("utf-8", "replace")) for _, end in ends)
    return [(fact[0].removesuffix(ALIAS), fact[2]) for fact in facts if fact is not None and fact[1] == ALIAS_OF]


def _ids_of(machine: Machine, start: InFact, name: str) -> Path:
    """The ids of a subject's whole name behind a state in it; none if that has begun another name."""
    ids, begun = machine.source.tokenizer.encode_after(machine.source.trigger, f"{unit(name)} <"), start.prefix
    closed = next(
        (n for n, token in enumerate(ids, 1) if b">" in machine.bytes_of(token)), 0
    )  # an id may go on behind it
    return tuple(ids[len(begun) : closed]) if tuple(ids[: len(begun)]) == tuple(begun) else ()
