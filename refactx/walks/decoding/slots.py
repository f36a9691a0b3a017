"""Slots: the units that may follow a line, as token ids of which some are written.

A unit is encoded by itself, with the space before it, as parts of facts are. So a finite slot is a prefix tree of
encodings, and names of subjects are the index's own tree up to the first closing bracket.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from refactx.decoding.states import FactSource
from refactx.fact import ALIAS
from refactx.tree.tree import NO_TOKENS, MemoryTree, Path, Tokens
from refactx.walks.decoding.literals import Literals, may_begin
from refactx.walks.values import Ordered

_ALIAS_END = f"{ALIAS}>".encode()
_ALIAS_BEGUN = tuple(_ALIAS_END[:size] for size in range(1, len(_ALIAS_END)))


@dataclass(frozen=True, slots=True, eq=False)
class Begun:
    """The beginning of a unit: the `tokens` that continue it, int32[n], ascending; `unit`: its text if it is whole, else
    None."""

    tokens: Tokens
    unit: str | None = None

    @property
    def is_possible(self) -> bool:
        """Whether any unit begins so."""
        return len(self.tokens) > 0 or self.unit is not None


class Subjects:
    """The names of subjects, from the tree of facts. `closing`: the tokens with a closing bracket.

    The name of an alias is left out if that of another subject continues the same text: what is asked for is the entity.
    Where an alias is the only continuation, it can be a start: its facts lead to the entity.
    """

    def __init__(self, token_bytes: Sequence[bytes], closing: frozenset[int]) -> None:
        self._token_bytes, self._closing = token_bytes, closing

    def after(self, ids: Path, source: FactSource) -> Begun:
        """Return the beginning of a name with some ids."""
        children = source.children(ids)
        if ids and ids[-1] in self._closing:
            return Begun(NO_TOKENS, self._text(ids).decode().strip() if children.total else None)
        aliases = []
        for token in children.tokens[np.isin(children.tokens, self._alias_tokens)].tolist():
            if self._is_alias((*ids, token), source):
                aliases.append(token)
        if len(aliases) in (0, len(children.tokens)):
            return Begun(children.tokens)
        return Begun(children.tokens[~np.isin(children.tokens, aliases)])

    def _is_alias(self, ids: Path, source: FactSource) -> bool:
        """Return whether all names that begin with some ids end as names of aliases do, of which a part is written."""
        text = self._text(ids)
        if ids[-1] in self._closing:
            return text.endswith(_ALIAS_END)
        if not text.endswith(_ALIAS_BEGUN):
            return False
        children = source.children(ids)
        if not np.isin(children.tokens, self._alias_tokens).all():
            return False
        return all(self._is_alias((*ids, token), source) for token in children.tokens.tolist())

    def _text(self, ids: Path) -> bytes:
        return b"".join(self._token_bytes[token] for token in ids)

    @cached_property
    def _alias_tokens(self) -> Tokens:
        """The tokens that can have a part of the end of an alias's name: int32[n]."""
        found = [
            token
            for token, text in enumerate(self._token_bytes)
            if text and (text in _ALIAS_END or text.endswith(_ALIAS_BEGUN) or text.endswith(_ALIAS_END))
        ]
        return np.array(found, np.int32)


class Slot:
    """The units that may follow. `texts`: by their ids; `subjects`: if names of subjects may follow; `literals`: the
    kinds of literals that a model may write by itself, with the `writer` of them."""

    def __init__(
        self,
        texts: Mapping[Path, str],
        *,
        subjects: Subjects | None = None,
        literals: frozenset[Ordered] = frozenset(),
        writer: Literals,
    ) -> None:
        self._texts, self._tree = texts, MemoryTree(texts)
        self._subjects, self._literals, self._writer = subjects, literals, writer

    def after(self, ids: Path, source: FactSource) -> Begun:
        """Return the beginning of a unit with some ids."""
        found = [Begun(self._tree.children(ids).tokens, self._texts.get(ids))]
        if self._subjects is not None:
            found.append(self._subjects.after(ids, source))
        if self._literals:
            found.append(self._literal(self._writer.text_of(ids)))
        tokens = found[0].tokens if len(found) == 1 else np.unique(np.concatenate([one.tokens for one in found]))
        return Begun(tokens, next((one.unit for one in found if one.unit is not None), None))

    def _literal(self, begun: str | None) -> Begun:
        if begun is None or not may_begin(begun, self._literals):
            return Begun(NO_TOKENS)
        if begun.endswith(">"):
            return Begun(NO_TOKENS, begun.strip())
        return Begun(self._writer.after(begun, self._literals))
