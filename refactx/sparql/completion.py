"""Completions of a SPARQL query that is typed: names that may follow an opened angle bracket."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice

from refactx.sparql.names import Names
from refactx.sparql.syntax import Shape, ShapeError, ShapeReader, Span, Token, tokens_of

MOST = 30
"""The most completions."""
SAMPLE = 20
"""The most entities that stand for a variable."""


def completions(typed: str, names: Names) -> list[str]:
    """Return completions of what follows the last `<` of a query, with the closing bracket.

        completions("SELECT ?x { <Louisiana> <nick", names)  # ["nickname>"]

    A predicate is one that the subject has, or one of the index if the subject is not known. Raises as `Index.children`
    does.
    """
    before, opened, begun = typed.rpartition("<")
    if not opened or ">" in begun:
        return []
    found = _Names(tokens_of(before), names).following(begun)
    return list(dict.fromkeys(f"{name}>" for name in found if name.startswith(begun)))[:MOST]


class _Names:
    """The names that may follow the tokens of a query."""

    def __init__(self, tokens: list[Token], names: Names) -> None:
        self._tokens, self._names, self._facts = tokens, names, names.facts
        reader = ShapeReader(tokens)
        with suppress(ShapeError):  # at the end, since the query is not complete
            reader.read()
        self._shape: Shape = reader.shape
        self._cursor = reader.cursor

    def following(self, begun: str) -> Iterable[str]:
        cursor = self._cursor
        if cursor.wants == "path":
            is_first = self._last not in ("/", "|", "^", "!", "(")
            subjects = [] if cursor.subject is None or not is_first else self._members(cursor.subject)
            if found := self._predicates(subjects):
                return found
            return self._names.properties_beginning(begun)
        if cursor.wants == "object" and cursor.subject is not None and cursor.path is not None:
            predicate = self._label(cursor.path)
            found = self._objects(self._members(cursor.subject), predicate) if predicate else []
            if found:
                return found
        return self._names.entities_beginning(begun, MOST)

    @property
    def _last(self) -> str:
        """The text of the last token; empty if there is none."""
        return next((token.text for token in reversed(self._tokens) if not token.is_space), "")

    def _members(self, span: Span, depth: int = 4) -> Sequence[str]:
        """Return names that a term may be: of a label, or of a variable that a triple before leads to."""
        token = self._tokens[span[0]]
        if span[1] - span[0] != 1 or depth == 0:
            return []
        if (label := self._label(span)) is not None:
            if self._facts.predicates(label):
                return [label]
            return [*self._facts.labelled(label), *self._facts.aliased(label)][:SAMPLE]
        if token.kind == "variable":
            for triple in self._shape.triples:
                predicate = self._label(triple.path)
                is_it = triple.object[1] - triple.object[0] == 1 and self._tokens[triple.object[0]].text == token.text
                if is_it and triple.subject is not None and predicate is not None:
                    return self._objects(self._members(triple.subject, depth - 1), predicate)[:SAMPLE]
        return []

    def _label(self, span: Span) -> str | None:
        words = [self._tokens[at] for at in range(*span) if not self._tokens[at].is_space]
        return words[0].label if len(words) == 1 and words[0].kind == "label" else None

    def _objects(self, subjects: Sequence[str], predicate: str) -> list[str]:
        pairs = islice(self._facts.objects(subjects[:SAMPLE], predicate), 10 * SAMPLE)
        return list(dict.fromkeys(object_ for _, object_ in pairs))

    def _predicates(self, subjects: Sequence[str]) -> list[str]:
        return list(dict.fromkeys(name for one in subjects[:SAMPLE] for name in self._facts.predicates(one)))
