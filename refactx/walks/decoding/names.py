"""The names of an index within a grammar: its subjects, its properties, and those that a subject has."""

from collections.abc import Iterable
from itertools import islice

from refactx.decoding.names import Subjects, TextTree, Units
from refactx.errors import ModelError
from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS, unit
from refactx.index.index import Index
from refactx.walks.decoding.readings import Memo
from refactx.walks.facts import TreeFacts

MOST_SUBJECTS = 1_000
"""The most subjects whose properties are kept as trees."""
_SCANNED = 2_000
"""In an index whose properties have no ids: the subjects whose predicates stand for all."""


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
        self._index, self._facts = index, TreeFacts(index)
        self.subjects = Subjects(index.tokenizer.token_bytes, self._units.closing)
        self._own, self._all = (Memo[TextTree](most, lambda: index.segments) for most in (MOST_SUBJECTS, 1))

    def all_properties(self) -> TextTree:
        """Return the predicates of the index; if properties have no ids, those of its first subjects."""
        return self._all.get((), lambda: self._properties(self._predicates()))

    def properties_of(self, subject: str) -> TextTree:
        """Return the predicates that a subject has; for the name of an alias, those of its entities."""
        return self._own.get(subject, lambda: self._properties(self._predicates_of(subject)))

    def _predicates_of(self, subject: str) -> list[str]:
        own = self._facts.predicates(subject)
        if subject.endswith(ALIAS):
            entities = [entity for _, entity in self._facts.objects([subject], ALIAS_OF)]
            meant = [name for entity in entities for name in self._facts.predicates(entity)]
            return list(dict.fromkeys(meant)) or list(own)
        return [name for name in own if name != ALIAS_OF]

    def _predicates(self) -> list[str]:
        hidden = {*DESCRIPTIONS, ALIAS_OF}
        found = self._facts.describe(self._index.property_names()).keys() - hidden
        if not found:
            subjects = [text[1:-1] for text, _ in islice(self._index.complete("<", _SCANNED), _SCANNED)]
            found = {name for subject in subjects for name in self._facts.predicates(subject)} - hidden
        return sorted(found)

    def _properties(self, names: Iterable[str]) -> TextTree:
        ordered = sorted(set(names))
        encoded = self._units.encode_texts([unit(name) for name in ordered]) if ordered else []
        return TextTree(dict(zip(encoded, ordered, strict=True)))
