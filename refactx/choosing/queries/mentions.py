"""The entities, predicates and numbers that a question's own words name."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from refactx.choosing.anchors import FoldedTokens, find_anchors
from refactx.choosing.namesakes import Namesake, namesakes
from refactx.choosing.queries.words import QueryWords, numbers_of
from refactx.decoding.lookups import Lookups
from refactx.decoding.machine import Machine
from refactx.decoding.states import InFact
from refactx.query.fact_set import FactSet
from refactx.query.values import bare_name

NAMESAKES = 3
"""The most entities of a name, those with most facts."""


@dataclass(frozen=True, slots=True)
class Mention:
    """An entity that words of the question may name.

    `start`, `stop`: the range of the words; `name`: the entity's in the index; `called`: its name without the
    description, or the alias that the question uses; `share`: its part of the facts of all entities that its name or
    alias, spelt so, may mean, 0 to 1.
    """

    start: int
    stop: int
    name: str
    called: str
    share: float

    def is_apart(self, other: "Mention") -> bool:
        """Return whether two mentions have no word in common."""
        return self.stop <= other.start or other.stop <= self.start


@dataclass(frozen=True, slots=True)
class Mentions:
    """What a question names: `entities`; `predicates`, by name; `numbers`."""

    entities: Sequence[Mention]
    predicates: frozenset[str]
    numbers: Sequence[str]


def find_mentions(
    machine: Machine, facts: FactSet, tokens: FoldedTokens, words: QueryWords, question: str
) -> Lookups[Mentions]:
    """Return what a question names. Properties are predicates, not entities: few questions are about them."""
    question, found = question.replace("_", " "), dict[tuple[int, int, str], Mention]()
    start = yield from machine.beginning(0)
    named = defaultdict[tuple[int, int, str], list[list[Namesake]]](
        list
    )  # by place and name: a name may end in many ids
    for anchor in (yield from find_anchors(machine, start, tokens, question)):
        if not words.is_function(question[anchor.start : anchor.stop]):
            some = yield from namesakes(machine, start, anchor.ids, anchor.state, NAMESAKES)
            written = _name_of(machine, anchor.state).partition(" (")[0]
            named[anchor.start, anchor.stop, written] += [some] if some else []
    for (begin, end, _), ways in named.items():
        total = sum(some[0].state.children.total / some[0].share for some in ways)
        best = sorted((one for some in ways for one in some), key=lambda one: -one.state.children.total)
        for one in best[:NAMESAKES]:
            name = _name_of(machine, one.state)
            mention = Mention(begin, end, name, one.alias or bare_name(name), one.state.children.total / total)
            known = found.setdefault((begin, end, name), mention)
            if known.share < mention.share:
                found[begin, end, name] = mention
    ids = facts.ids(list({mention.name for mention in found.values()}))
    predicates = {name for name, id_ in ids.items() if id_.startswith("P")}
    entities = _as_spelt([mention for mention in found.values() if mention.name not in predicates], question)
    taken = [mention for mention in entities if not mention.called.replace(".", "").isdecimal()]
    numbers = [
        number
        for begin, end, number in numbers_of(question)
        if not any(mention.start <= begin and end <= mention.stop for mention in taken)
    ]
    return Mentions(entities, frozenset(predicates), numbers)


def _name_of(machine: Machine, state: InFact) -> str:
    """Return the subject of a fact so far, without its brackets."""
    return machine.text_of(state.prefix).decode("utf-8", "replace").partition(">")[0].strip()[1:]


def _as_spelt(mentions: Sequence[Mention], question: str) -> list[Mention]:
    """Return mentions without those that are spelt otherwise, if the question's letters name others: of `country` not
    the alias `Country`."""
    exact = {
        (one.start, one.stop) for one in mentions if one.called.startswith(question[one.start : one.stop].rstrip("s"))
    }
    return [
        one
        for one in mentions
        if (one.start, one.stop) not in exact or one.called[:1] == question[one.start : one.start + 1]
    ]
