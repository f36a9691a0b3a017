"""An index in memory whose segments are trees in rows: what `TreeFacts` reads, without a database."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from refactx.fact import Link, LinkedFact, verbalise, written_fact
from refactx.index.index import completions, normalise_prefix
from refactx.index.names import Named
from refactx.ingest.segment.cutting import Shape
from refactx.tokenizer import FactTokenizer
from refactx.tree.tree import Children, SummedTree
from support.query.twin import KINDS, PREDICATES, Graph
from support.stored_trees import DictRows, build
from support.tiny_model import tiny_fact_tokenizer

SMALL = Shape(facts=4, inner=6, root=6)
"""Pieces so small that a few facts have several levels."""
KIND_OF = {"entity": "entity", "mixed": "mixed"}


class RowsIndex:
    """Signed segments of facts; all names of predicates of the twin have ids. `rows`: those of each segment.

    A fact with qualifiers is a tuple of more than three parts.
    """

    base: str | None = None
    has_statements = False

    trigger, terminator = "Fact:", " ."
    name_tables = (1,)
    entry: Any = SimpleNamespace(report={})
    property_aliases: Mapping[str, Sequence[str]] = {}

    is_joined = False

    def __init__(
        self, segments: Iterable[tuple[int, Graph]], tokenizer: FactTokenizer | None = None, cache_bytes: int = 1 << 20
    ) -> None:
        self.tokenizer = tokenizer or tiny_fact_tokenizer()
        segments = list(segments)
        self.has_statements = any(len(fact) > 3 for _, facts in segments for fact in facts)
        built = [
            (sign, *build([self.sequence(fact) for fact in facts], SMALL, cache_bytes))
            for sign, facts in segments
            if facts
        ]
        self.segments = [(sign, tree) for sign, tree, _ in built]
        self.rows: list[DictRows] = [rows for _, _, rows in built]
        self._tree = SummedTree(self.segments)

    @property
    def snapshot(self) -> Any:
        return SimpleNamespace(signed_trees=self.segments, tree=self._tree, has_statements=self.has_statements)

    def read(self, read: Callable[[Any], Any]) -> Any:
        return read(self.snapshot)

    stream = read

    def sequence(self, fact: tuple[str, ...]) -> tuple[int, ...]:
        pairs = tuple(zip(fact[3::2], fact[4::2], strict=True))
        return tuple(self.tokenizer.encode_after(self.trigger, verbalise(*fact[:3], pairs)))

    def __contains__(self, text: str) -> bool:
        written = written_fact(text) or " "
        return self.children(self.tokenizer.encode_after(self.trigger, written)).terminal > 0

    def children(self, prefix: Sequence[int]) -> Children:
        return self._tree.children(prefix)

    def complete(self, prefix: str, limit: int = 20) -> list[tuple[str, int]]:
        return list(completions(self, self.tokenizer, normalise_prefix(prefix)))[:limit]

    def link(self, label: str, id_: str | None) -> Link:
        return Link(label, id_)

    def with_references(self, facts: Sequence[LinkedFact]) -> Sequence[LinkedFact]:
        return facts

    def ids_of(self, names: Iterable[str]) -> dict[str, Named]:
        kinds = {
            name: "inverse" if name.endswith(" of") else KIND_OF.get(KINDS[name], "literal") for name in PREDICATES
        }
        return {name: Named(f"P{ord(name[0])}", kinds[name]) for name in names if name in kinds}

    def names_of(self, ids: Iterable[str], *, inverse: bool = False) -> dict[str, str]:
        named = ((self.ids_of([name])[name].id, name) for name in PREDICATES if name.endswith(" of") == inverse)
        return {id_: name for id_, name in named if id_ in set(ids)}

    def property_names(self) -> list[str]:
        return list(self.ids_of(PREDICATES))

    def hubs(self, objects: Iterable[str]) -> dict[str, dict[str, int]]:
        return {}

    @property
    def round_trips(self) -> int:
        return sum(rows.fetched for rows in self.rows)


def in_segments(facts: Graph, cuts: Sequence[int]) -> list[tuple[int, Graph]]:
    """Facts as the sum of four segments. `cuts`: numbers that say which facts come when.

    A second segment adds some facts; a third takes away some of the first, which a fourth adds again.
    """
    ordered = sorted(facts)
    late = frozenset(fact for fact, cut in zip(ordered, cuts, strict=False) if cut == 1)
    again = frozenset(fact for fact, cut in zip(ordered, cuts, strict=False) if cut == 2)
    gone = frozenset((s, p, f"{o} gone") for s, p, o in ordered[:5])
    return [(1, (facts - late) | gone), (1, late), (-1, again | gone), (1, again)]
