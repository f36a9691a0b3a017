"""The choice of all mentions of a query together: those that are most similar, and whose patterns match facts."""

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

from refactx.sparql.memory.choices import Choice, Option
from refactx.sparql.memory.feasibility import Feasible, Reading
from refactx.sparql.memory.patterns import Pattern

COMBINATIONS = 20_000
"""The most combinations of candidates that are compared for one query: 0.1 s."""
MATCH = 0.5
"""How much similarity a pattern that matches outweighs."""
FACTS = 0.2
"""How much similarity the facts of a candidate outweigh, if all facts of the candidates of its mention are its own."""


class JointChoice:
    """The candidates of a query's mentions, and the patterns between these, by placeholder. Each mention has at least
    one candidate, those with most weight first.

    A combination of candidates is as good as the sum of their weights, with `MATCH` for each pattern that matches facts.
    Entities that have more facts are likelier (`FACTS`). Raises as `feasible` does.
    """

    def __init__(
        self, feasible: Feasible, options: Mapping[str, Sequence[Option]], patterns: Sequence[Pattern]
    ) -> None:
        self._feasible, self._options, self._patterns = feasible, options, patterns
        entities = [
            option.choice.entry.id
            for name, some in options.items()
            if len(some) > 1 or any(pattern.entity == name for pattern in patterns)
            for option in some
            if option.choice.mention.kind == "entity"
        ]
        self._readings = feasible.readings(entities) if entities else {}

    def best(self) -> dict[str, Choice]:
        """Return the choice of each mention."""
        weighted = {name: self._weighted(some) for name, some in self._options.items()}
        bound = {name for pattern in self._patterns for name in (pattern.entity, pattern.relation)}
        chosen = {name: some[0].choice for name, some in weighted.items() if name not in bound}
        together = _trimmed({name: some for name, some in weighted.items() if name in bound})
        combinations = (dict(zip(together, some, strict=True)) for some in product(*together.values()))
        chosen |= {name: option.choice for name, option in max(combinations, key=self._worth).items()}
        return {name: chosen[name] for name in self._options}

    def matches(self, pattern: Pattern, chosen: Mapping[str, Choice]) -> bool:
        """Return whether a pattern matches a fact, or may match one that is not known."""
        return self._match(pattern, chosen[pattern.entity].entry.id, chosen[pattern.relation].entry.id)

    def _worth(self, combination: Mapping[str, Option]) -> float:
        ids = {name: option.choice.entry.id for name, option in combination.items()}
        matches = sum(self._match(one, ids[one.entity], ids[one.relation]) for one in self._patterns)
        return sum(option.weight for option in combination.values()) + MATCH * matches

    def _match(self, pattern: Pattern, entity: str, relation: str) -> bool:
        reading: Reading = (relation, pattern.inverse)
        return bool(self._readings[entity].get(reading)) or not self._feasible.is_known(reading)

    def _weighted(self, options: Sequence[Option]) -> list[Option]:
        """Return options with more weight for those with more facts, in order."""
        facts = [sum(self._readings.get(option.choice.entry.id, {}).values()) for option in options]
        total = sum(facts)
        if len(options) < 2 or not total:
            return list(options)
        weighted = [
            Option(option.choice, option.weight + FACTS * count / total)
            for option, count in zip(options, facts, strict=True)
        ]
        return sorted(weighted, key=lambda one: -one.weight)


def _trimmed(options: Mapping[str, Sequence[Option]]) -> dict[str, list[Option]]:
    """Return options without those of least weight of the mentions that have most, until there are few combinations.

    >>> options = [Option(None, weight) for weight in range(1000)]
    >>> [len(some) for some in _trimmed({"a": options, "b": options[:5]}).values()]
    [1000, 5]
    """
    kept = {name: list(some) for name, some in options.items()}
    while prod(map(len, kept.values())) > COMBINATIONS:
        max(kept.values(), key=len).pop()
    return kept
