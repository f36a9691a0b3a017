"""The facts of an index with the names of all ids, also of indexes that do not store names by ids."""

from collections.abc import Sequence

from refactx.eval.names import gold_names
from refactx.index.index import Index
from refactx.walks.facts import TreeFacts


class NamedFacts(TreeFacts):
    """Facts for gold queries, which have ids. All names of the index are read for ids that were not asked for before."""

    def __init__(self, index: Index) -> None:
        super().__init__(index)
        self._names_of: dict[str, tuple[str, ...]] = {}

    def names(self, ids: Sequence[str], *, inverse: bool = False) -> dict[str, str]:
        """Return the names of entities and properties by id; of a property it is that which reads it as asked."""
        found = {}
        for id_, names in self._every(ids).items():
            described = self.describe(names) if id_.startswith("P") else {}
            ways = [name for name in names if (name in described and described[name].inverse) == inverse]
            if ways:
                found[id_] = ways[0]
        return found

    def inverse_of(self, predicate: str) -> str | None:
        """Return the predicate that reads the same property the other way, if there is one such name."""
        one = self.describe([predicate]).get(predicate)
        if one is None or one.id is None:
            return None
        others = self.describe(self._every([one.id]).get(one.id, ())).values()
        return next((other.name for other in others if other.inverse != one.inverse), None)

    def _every(self, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        lacking = set(ids) - self._names_of.keys()
        if lacking:
            self._names_of |= dict.fromkeys(lacking, ()) | gold_names(self._index, lacking)
        return {id_: self._names_of[id_] for id_ in ids if self._names_of[id_]}
