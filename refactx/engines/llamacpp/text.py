"""The tokenizer of a model in a GGUF file, with the names that Transformers' tokenizers have.

With an index, its tokenizer encodes: the ids of a prompt are then those of the facts in the index, and those that
Transformers gives. llama.cpp's own tokenizer knows pre-tokenisers by name and has no normaliser, so that it differs for
some texts (docs/decisions/0030); without an index, it encodes.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, overload

from tokenizers import AddedToken, Tokenizer

from refactx.engines.llamacpp.chat import render
from refactx.engines.llamacpp.vocabulary import Vocabulary
from refactx.errors import ModelError, TokenizerMismatchError
from refactx.tokenizer import FactTokenizer

Message = Mapping[str, str]


class LlamaCppTokenizer:
    """A tokenizer over a `vocabulary` and its `chat_template`; `tokenizer`: that of the index, which `check` passed."""

    def __init__(self, vocabulary: Vocabulary, chat_template: str | None, tokenizer: FactTokenizer | None) -> None:
        self.vocabulary, self.chat_template, self._tokenizer = vocabulary, chat_template, tokenizer
        self.bos_token_id, self.eos_token_id = vocabulary.begin, vocabulary.end
        self.pad_token_id = vocabulary.end if vocabulary.padding is None else vocabulary.padding
        self.ends = vocabulary.ends

    @cached_property
    def added_tokens_decoder(self) -> dict[int, str]:
        """The texts of added tokens by id: a text that has one is split there."""
        return self.vocabulary.added if self._tokenizer is None else {n: one.content for n, one in self._added.items()}

    def encode(self, text: str, add_special_tokens: Literal[False] = False) -> list[int]:
        """Return the ids of a text. The texts of added tokens become these tokens; none is added."""
        if self._encoder is None:
            return self.vocabulary.encode(text)
        encoder, numbers = self._encoder
        ids: list[int] = encoder.encode(text, add_special_tokens=False).ids
        return [numbers.get(n, n) for n in ids] if numbers else ids

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = False, **_: object) -> str:
        """Return the text of ids; bytes that are not UTF-8 become U+FFFD. Ids beyond the vocabulary are ignored."""
        table, skipped = self.vocabulary.token_bytes, self.vocabulary.control if skip_special_tokens else ()
        data = b"".join(table[n] for n in map(int, ids) if 0 <= n < len(table) and n not in skipped)
        return data.decode("utf-8", "replace")

    @overload
    def apply_chat_template(
        self, messages: Sequence[Message], *, tokenize: Literal[False], **variables: object
    ) -> str: ...
    @overload
    def apply_chat_template(
        self, messages: Sequence[Message], *, tokenize: Literal[True] = True, **variables: object
    ) -> list[int]: ...
    def apply_chat_template(
        self, messages: Sequence[Message], *, tokenize: bool = True, **variables: object
    ) -> str | list[int]:
        """Return a conversation as the chat template writes it: its ids, or its text unless `tokenize`.

        `variables` are the template's, such as `add_generation_prompt` and `enable_thinking`. Raises ModelError if
        there is no template, and whatever the template raises.
        """
        if not self.chat_template:
            raise ModelError("the model has no chat template: choose an instruct model")
        text = render(self.chat_template, messages, {**self._names, **variables})
        return self.encode(text) if tokenize else text

    @cached_property
    def _names(self) -> dict[str, str]:
        """The variables of templates for special tokens."""
        numbers = {"bos_token": self.bos_token_id, "eos_token": self.eos_token_id, "pad_token": self.pad_token_id}
        table = self.vocabulary.token_bytes
        return {name: table[n].decode("utf-8", "replace") for name, n in numbers.items() if n is not None}

    @cached_property
    def _added(self) -> dict[int, AddedToken]:
        """The added tokens of this model: models that share an index may differ in them (Qwen2.5 and Qwen3 do).

        Those that the index's tokenizer has as well, with its settings, and those that it does not know. Tokens that it
        has as ordinary text are not among them: llama.cpp takes some for control tokens.
        """
        if self._tokenizer is None:
            return {}
        own, plain, control = self.vocabulary.added, self._tokenizer.plain_copy(), self.vocabulary.control
        known = {n: one for n, one in self._tokenizer.added_tokens.items() if own.get(n) == one.content}
        left = {n: text for n, text in own.items() if n not in known and text and plain.token_to_id(text) is None}
        return known | {n: AddedToken(text, normalized=False, special=n in control) for n, text in left.items()}

    @cached_property
    def _encoder(self) -> tuple[Tokenizer, dict[int, int]] | None:
        """The index's tokenizer with the added tokens, and the ids of those to which it gives others."""
        if self._tokenizer is None:
            return None
        encoder = self._tokenizer.plain_copy()
        encoder.add_tokens([self._added[n] for n in sorted(self._added)])
        given = [(encoder.token_to_id(one.content), n) for n, one in self._added.items()]
        return encoder, {other: n for other, n in given if other is not None and other != n}


def check(index: Any, vocabulary: Vocabulary) -> None:
    """Raise TokenizerMismatchError unless a model has the tokens of an index's tokenizer, by the same ids.

    A GGUF file has no fingerprint of its tokenizer. Ids that it calls unused are not compared. `index`: a
    `refactx.decoding.states.FactSource`.
    """
    own, expected = vocabulary.token_bytes, index.tokenizer.token_bytes
    for number, piece in enumerate(expected):
        found = own[number] if number < len(own) else b""
        if piece and piece != found and number not in vocabulary.unused:
            raise TokenizerMismatchError(
                f"the index was built for another tokenizer ({getattr(index, 'tokenizer_name', 'unnamed')}, fingerprint "
                f"{index.tokenizer.fingerprint[:12]}) than the model's (id {number} is {_shown(piece)} in the index and "
                f"{_shown(found)} in the model): use a model with that tokenizer, or build an index for this one"
            )


def _shown(piece: bytes) -> str:
    return repr(piece.decode("utf-8", "replace")) if piece else "nothing"
