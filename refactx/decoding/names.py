"""Names of a tree within a grammar: which token ids may continue a name, a part of a fact or another text.

Queries, forms in JSON and SPARQL have such names. A text is encoded by itself, with the space before it, as parts of facts
are. So some texts are a prefix tree of encodings, and names of subjects are the index's own tree up to the first closing
bracket.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from refactx.decoding.states import FactSource
from refactx.errors import ModelError
from refactx.fact import ALIAS, unit
from refactx.tokenizer import FactTokenizer
from refactx.tree.tree import NO_TOKENS, MemoryTree, Path, Tokens

MOST_UNITS = 100_000
"""The most encoded parts that are kept: some 20 MB."""
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
        aliases = self.aliases(ids, children.tokens, source)
        if len(aliases) in (0, len(children.tokens)):
            return Begun(children.tokens)
        return Begun(children.tokens[~np.isin(children.tokens, aliases)])

    def aliases(self, ids: Path, tokens: Tokens, source: FactSource) -> list[int]:
        """Return those of some tokens after which all names end as names of aliases do."""
        likely = tokens[np.isin(tokens, self._alias_tokens)].tolist()
        return [token for token in likely if self._is_alias((*ids, token), source)]

    def has_alias(self, ids: Path, source: FactSource, rest: bytes = _ALIAS_END) -> bool:
        """Return whether `rest`, all that the name of an alias ends in, may follow some ids."""
        tokens = source.children(ids).tokens
        for token in tokens[np.isin(tokens, self._alias_tokens)].tolist():
            text = self._token_bytes[token]
            if text == rest or (rest.startswith(text) and self.has_alias((*ids, token), source, rest[len(text) :])):
                return True
        return False

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


class TextTree:
    """Some texts as a tree of token ids. `texts`: by their ids."""

    def __init__(self, texts: Mapping[Path, str]) -> None:
        self._texts, self._tree = texts, MemoryTree(texts)

    def after(self, ids: Path) -> Begun:
        """Return the beginning of a text with some ids."""
        return Begun(self._tree.children(ids).tokens, self._texts.get(ids))


class Units:
    """Parts of facts as token ids: each with its brackets and the space before it, as they follow the trigger."""

    def __init__(self, tokenizer: FactTokenizer, trigger: str) -> None:
        self.tokenizer, self._trigger = tokenizer, trigger
        self._encoded: dict[str, Path] = {}

    @cached_property
    def are_whole(self) -> bool:
        """Whether no token has text of two parts."""
        return not any(b"> " in text for text in self.tokenizer.token_bytes)

    @cached_property
    def closing(self) -> frozenset[int]:
        """The tokens with a closing bracket."""
        return frozenset(number for number, text in enumerate(self.tokenizer.token_bytes) if b">" in text)

    def encode(self, parts: Sequence[str]) -> list[Path]:
        """Return the ids of each part. Raises ModelError as `encode_texts` does."""
        new = list({part for part in parts if part not in self._encoded})
        if len(self._encoded) + len(new) > MOST_UNITS:
            self._encoded, new = {}, list(set(parts))
        encoded = self._encoded
        encoded.update(zip(new, self.encode_texts([unit(part) for part in new]), strict=True))
        return [encoded[part] for part in parts]

    def encode_texts(self, texts: Sequence[str]) -> list[Path]:
        """Return the ids of each text after the trigger. Raises ModelError if the tokenizer joins the two."""
        head, *encoded = self.tokenizer.encode_batch([self._trigger, *(self._trigger + text for text in texts)])
        if any(ids[: len(head)] != head for ids in encoded):
            raise ModelError(f"this tokenizer joins {self._trigger!r} to what follows it; choose another trigger")
        return [tuple(ids[len(head) :]) for ids in encoded]

    def text(self, ids: Path) -> str:
        """Return the part that ids are.

        >>> from support.tiny_model import tiny_fact_tokenizer
        >>> units = Units(tiny_fact_tokenizer(), "Fact:")
        >>> units.text(units.encode(["Ann"])[0])
        'Ann'
        """
        return self.tokenizer.decode(ids)[2:-1]
