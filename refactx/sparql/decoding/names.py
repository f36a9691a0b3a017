"""The names that may stand in a line of SPARQL, as token ids: subjects of the tree, and properties."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from threading import Lock

from refactx.errors import ModelError
from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS, unit
from refactx.index.index import Index
from refactx.query.decoding.memo import Memo
from refactx.query.decoding.slots import Begun, Subjects
from refactx.query.facts import Units
from refactx.sparql.names import Names
from refactx.tree.tree import MemoryTree, Path

MOST_SUBJECTS = 1_000
"""The most subjects whose properties are kept as trees."""
_SCANNED = 2_000
"""In an index whose properties have no ids: the subjects whose predicates stand for all."""


class Properties:
    """Names of properties as a tree of token ids. `texts`: the name of each path."""

    def __init__(self, texts: dict[Path, str]) -> None:
        self._texts, self._tree = texts, MemoryTree(texts)

    def after(self, ids: Path) -> Begun:
        """Return the beginning of a name with some ids."""
        return Begun(self._tree.children(ids).tokens, self._texts.get(ids))


class TreeNames:
    """The names of an index. Raises ModelError if its tokenizer joins parts of facts in one token.

    Methods raise as `Index.children` does.
    """

    def __init__(self, index: Index) -> None:
        self._units = Units(index.tokenizer, index.trigger)
        if not self._units.are_whole:
            raise ModelError(
                "this tokenizer has tokens with text of two parts of a fact, such as '> <', so the names of a query cannot "
                "be told apart: use a model with another tokenizer"
            )
        self._index, self._names = index, Names(index)
        self.facts = self._names.facts
        self.subjects = Subjects(index.tokenizer.token_bytes, self._units.closing)
        state = partial(getattr, index, "segments", None)
        self._own, self._all = Memo[Properties](MOST_SUBJECTS, state), Memo[Properties](1, state)
        self._lock = Lock()

    def all_properties(self) -> Properties:
        """Return the predicates of the index; if properties have no ids, those of its first subjects."""
        return self._all.get((), lambda: self._properties(self._predicates()))

    def properties_of(self, subject: str) -> Properties:
        """Return the predicates that a subject has; for the name of an alias, those of its entities."""
        return self._own.get(subject, lambda: self._properties(self._predicates_of(subject)))

    def _predicates_of(self, subject: str) -> list[str]:
        own = self.facts.predicates(subject)
        if subject.endswith(ALIAS):
            entities = [entity for _, entity in self.facts.objects([subject], ALIAS_OF)]
            meant = [name for entity in entities for name in self.facts.predicates(entity)]
            return list(dict.fromkeys(meant)) or list(own)
        return [name for name in own if name != ALIAS_OF]

    def _predicates(self) -> list[str]:
        names = self._names.properties_beginning("")
        known = self.facts.describe(names)
        found = [name for name in names if name in known and name not in (*DESCRIPTIONS, ALIAS_OF)]
        return found or self._predicates_of_some()

    def _predicates_of_some(self) -> list[str]:
        subjects = [text[1:-1] for text, _ in islice(self._index.complete("<", _SCANNED), _SCANNED)]
        return sorted({name for subject in subjects for name in self.facts.predicates(subject)})

    def _properties(self, names: Iterable[str]) -> Properties:
        ordered = sorted(set(names))
        return Properties(dict(zip(self._encoded(ordered), ordered, strict=True)))

    def _encoded(self, names: Sequence[str]) -> list[Path]:
        return self._units.encode_texts([unit(name) for name in names]) if names else []
