"""The resolver: the ids of a query's mentions, by a memory and by which patterns can match; or a refusal.

A label that the memory has means what has it: of several the one with the description, or else the one whose patterns
match and whose description is nearest. Of other mentions the nearest entries are candidates. All mentions of a query are
chosen together (`refactx.sparql.memory.joint`). What is only near, or has the label and another description, has to be
similar enough, or the query is refused: what it means may be missing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from refactx.query.pgmr import Mention, PgmrQuery, Refusal
from refactx.sparql.memory.choices import Choice, How, Option, Refused, Resolved
from refactx.sparql.memory.entry import Entry, Memory, mention_text
from refactx.sparql.memory.feasibility import Feasible
from refactx.sparql.memory.joint import JointChoice
from refactx.sparql.memory.matching import is_described
from refactx.sparql.memory.patterns import Pattern, patterns_of
from refactx.sparql.memory.thresholds import Match, Thresholds

CANDIDATES = 10
"""The nearest entries of a mention that are candidates."""
NAMESAKES = 30
"""The most entries with a mention's label that are candidates."""


class MemoryResolver:
    """A resolver of mentions by a memory (`refactx.query.pgmr.Resolver`).

    `tau`: the least similarity, for all kinds of choices or by kind; None: the memory's own thresholds. `feasible`: what
    is known of facts, None: nothing. `ignore_case`: for text in lower case, where case does not tell labels apart.
    `must_match`: refuse queries with a pattern that matches no fact.

        resolver = MemoryResolver(open_memory(index), feasible=FactFeasibility(index))
        found = resolver.resolve_query(read_pgmr(text))
        found.ids if isinstance(found, Resolved) else found.reason

    Safe to share between threads if its memory is.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        tau: float | Thresholds | None = None,
        feasible: Feasible | None = None,
        ignore_case: bool = False,
        must_match: bool = False,
    ) -> None:
        self._memory, self._feasible, self._ignore_case, self._must_match = memory, feasible, ignore_case, must_match
        if tau is None:
            tau = memory.thresholds
        self._tau = tau if isinstance(tau, Thresholds) else Thresholds(entity=tau, relation=tau, namesake=tau)

    def resolve_query(self, query: PgmrQuery) -> Resolved | Refused:
        """Return what the placeholders of a query stand for, or why it is refused.

        Raises QueryError if the query is not SPARQL, and as the memory does.
        """
        return self.resolve_mentions(query.mentions, patterns_of(query) if self._feasible is not None else ())

    def resolve_mentions(self, mentions: Mapping[str, Mention], patterns: Sequence[Pattern] = ()) -> Resolved | Refused:
        """Return what mentions stand for, or why their query is refused. Mentions and patterns are by placeholder."""
        options = dict(zip(mentions, self._options(list(mentions.values())), strict=True))
        refusals = [
            refused for name, mention in mentions.items() if (refused := self._refusal(name, mention, options[name]))
        ]
        if refusals:
            return min(refusals, key=lambda one: one.similarity)
        options = {name: self._passing(some) for name, some in options.items()}
        patterns = [one for one in patterns if {one.entity, one.relation} <= options.keys()]
        if self._feasible is None:
            return Resolved({name: some[0].choice for name, some in options.items()})
        joint = JointChoice(self._feasible, options, patterns)
        chosen = joint.best()
        unmatched = [pattern for pattern in patterns if not joint.matches(pattern, chosen)]
        if unmatched and self._must_match:
            return _unmatched(unmatched[0], chosen)
        concerned = {name: [one for one in patterns if name in (one.entity, one.relation)] for name in chosen}
        return Resolved(
            {
                name: replace(choice, feasible=not set(unmatched) & set(concerned[name]) if concerned[name] else None)
                for name, choice in chosen.items()
            }
        )

    def resolve(self, mentions: Sequence[Mention]) -> list[str | Refusal]:
        """Return the id of each mention, chosen on its own, or why it has none."""
        found: list[str | Refusal] = []
        for mention, options in zip(mentions, self._options(mentions), strict=True):
            refused = self._refusal("", mention, options)
            found.append(self._passing(options)[0].choice.entry.id if refused is None else Refusal(refused.reason))
        return found

    def candidates(self, mention: Mention) -> list[Choice]:
        """Return what a mention may mean, the likeliest first: whatever has its label, or else what is nearest."""
        (options,) = self._options([mention])
        return [option.choice for option in options]

    def _options(self, mentions: Sequence[Mention]) -> list[list[Option]]:
        """Return the candidates of each mention, those with most weight first."""
        options = [
            self._with_label(mention, entries)
            for mention, entries in zip(mentions, self._memory.exact(mentions), strict=True)
        ]
        others = [at for at, some in enumerate(options) if not some]
        nearest = self._memory.nearest([mentions[at] for at in others], CANDIDATES) if others else []
        for at, some in zip(others, nearest, strict=True):
            choices = [Choice(mentions[at], near.entry, near.similarity, "nearest") for near in some]
            options[at] = [Option(choice, choice.similarity) for choice in choices]
        return options

    def _with_label(self, mention: Mention, entries: Sequence[Entry]) -> list[Option]:
        """Return the entries with a mention's label that it may mean."""
        if not self._ignore_case:
            entries = [one for one in entries if mention.label in (one.label, one.text)] or entries
        described = [one for one in entries if is_described(one, mention)]
        by_id: dict[str, Entry] = {}
        for one in sorted(described or entries, key=lambda one: one.is_alias):
            by_id.setdefault(one.id, one)
        chosen = list(by_id.values())[:NAMESAKES]
        likeness = [1.0] * len(chosen)
        if len(chosen) > 1 or (mention.description and not described):
            likeness = [min(one, 1.0) for one in self._memory.similarities(mention, chosen)]
        options = []
        for one, alike in zip(chosen, likeness, strict=True):
            how: How = "name" if described else "alias" if one.is_alias else "label"
            described_otherwise = bool(one.description) or len(chosen) > 1
            differs = how != "name" and mention.kind == "entity" and bool(mention.description) and described_otherwise
            options.append(Option(Choice(mention, one, alike if differs else 1.0, how), alike))
        return sorted(options, key=lambda one: -one.weight)

    def _least(self, choice: Choice) -> float:
        """Return the least similarity of such a choice. A label with the right description, or with none, has 1."""
        match: Match = choice.mention.kind if choice.how == "nearest" else "namesake"
        return {"entity": self._tau.entity, "relation": self._tau.relation, "namesake": self._tau.namesake}[match]

    def _passes(self, choice: Choice) -> bool:
        exact = choice.how != "nearest" and choice.similarity == 1
        return exact or choice.similarity >= self._least(choice)

    def _passing(self, options: Sequence[Option]) -> list[Option]:
        return [one for one in options if self._passes(one.choice)]

    def _refusal(self, name: str, mention: Mention, options: Sequence[Option]) -> Refused | None:
        if self._passing(options):
            return None
        what, text = "entity" if mention.kind == "entity" else "property", mention_text(mention)
        if not options:
            return Refused(name, None, 0.0, f"no {what} of the memory is like <{text}>")
        best = options[0].choice
        reason = (
            f"no {what} of the memory is like <{text}>: the nearest is <{best.entry.text}>, with a similarity of "
            f"{best.similarity:.2f}, and {self._least(best):.2f} is needed"
        )
        return Refused(name, best, best.similarity, reason)


def _unmatched(pattern: Pattern, chosen: Mapping[str, Choice]) -> Refused:
    entity, relation = chosen[pattern.entity], chosen[pattern.relation]
    says = "is the value of no fact with" if pattern.inverse else "has no fact with"
    reason = f"<{entity.entry.text}> {says} <{relation.entry.label}>"
    return Refused(pattern.entity, entity, entity.similarity, reason)
