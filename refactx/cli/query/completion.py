"""Completions of a query that is typed: heads, entities, predicates that members have, and values that they lead to."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from refactx.errors import RefactxError
from refactx.fact import ALIAS
from refactx.index.index import Index
from refactx.query.resolve import resolve
from refactx.query.tree_facts import TreeFacts
from refactx.query.walk import HEADS, OPERATORS, Hop, Query

MOST = 30
"""The most completions."""
SAMPLE = 20
"""The most members that stand for a set."""
_TOKEN = re.compile(r"<([^<>]*)>[+*]?|starts\s+with|[a-z]+")


class LineCompleter(ABC):
    """A completer of `readline`, with `<` as the only delimiter. `buffer`: returns the line so far."""

    def __init__(self, buffer: Callable[[], str]) -> None:
        self._buffer = buffer
        self._found: Sequence[str] = ()

    @abstractmethod
    def completions(self, typed: str) -> Sequence[str]:
        """Return completions of what follows the last `<` of a line."""

    def complete(self, text: str, state: int) -> str | None:
        """Return a completion of the text after the last `<`, or of the first word; None if there are no more."""
        if state == 0:
            try:
                self._found = self.completions(self._buffer())
            except RefactxError:  # an error would be printed into the line
                self._found = ()
        return self._found[state] if state < len(self._found) else None


class Completer(LineCompleter):
    """A completer of walk lines."""

    def __init__(self, index: Index, buffer: Callable[[], str]) -> None:
        super().__init__(buffer)
        self._index, self._facts = index, TreeFacts(index)

    def completions(self, typed: str) -> list[str]:
        """Return completions of what follows the last `<` of a line, with the closing bracket; of a head without one.

        completer.completions("count <Louisiana (state of the United States of America)> <nick")  # ["nickname>"]
        """
        before, opened, begun = typed.rpartition("<")
        if not opened:
            return [f"{head} <" for head in HEADS if head.startswith(typed)]
        if ">" in begun:
            return []
        names = [f"{name}>" for name in self._names(before, begun) if name.startswith(begun)]
        return list(dict.fromkeys(names))[:MOST]

    def _names(self, before: str, begun: str) -> Iterable[str]:
        """Yield names that may follow `before`, the line up to an opened bracket."""
        tokens = list(_TOKEN.finditer(before))
        parts = [token[1] for token in tokens]
        if not any(part is not None for part in parts):
            return (text[1:-1].removesuffix(ALIAS) for text, _ in self._index.complete(f"<{begun}", MOST))
        first = next(place for place, part in enumerate(parts) if part is not None)
        start, _ = resolve(Query("list", parts[first] or "", (Hop(""),)), self._facts)
        members = own = [start.start]
        values: Sequence[str] = ()
        is_filter, wants_value = tokens[0].group() == "ask", False
        for token in tokens[first + 1 :]:
            word, name = " ".join(token.group().split()), token[1]
            if name is not None:
                members = self._follow(members, name)
                values = members if is_filter else ()
            elif word in ("which", "and", "by"):
                members = own = own if is_filter else members
                is_filter, wants_value, values = word != "by", False, ()
            elif word in OPERATORS:
                wants_value = True
        return members if wants_value else [*values, *self._predicates(members)]

    def _follow(self, members: Sequence[str], predicate: str) -> list[str]:
        pairs = self._facts.objects(members[:SAMPLE], predicate)
        return list(dict.fromkeys(object_ for _, object_ in islice(pairs, 10 * SAMPLE)))

    def _predicates(self, members: Sequence[str]) -> list[str]:
        return list(dict.fromkeys(name for member in members[:SAMPLE] for name in self._facts.predicates(member)))
