"""The protocol of a language model with its tokenizer, as answering questions needs it, whatever library runs it."""

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from refactx.engines.engine import Engine


class ChatTokenizer(Protocol):
    """The part of a Transformers tokenizer that conversations need."""

    @property
    def chat_template(self) -> Any:
        """The template of conversations, in Jinja; empty or None if there is none."""
        ...

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Return the ids of a text."""
        ...

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False, **options: Any) -> str:
        """Return the text of ids."""
        ...

    def apply_chat_template(self, messages: Sequence[dict[str, str]], **options: Any) -> Any:
        """Return a conversation as text (`tokenize=False`) or as ids."""
        ...


class LanguageModel(Protocol):
    """A model that reads sequences, and its tokenizer.

    `has_generate`: whether it is one of Transformers, whose `generate` has beams over the whole text; `engine`: None if
    its cache cannot be read and shared in the way that engines do; `ends`: the ids that end a sequence; `room`: the most
    ids that it takes, prompt and text together, None if that is not known.
    """

    @property
    def has_generate(self) -> bool:
        """Whether it is a model of Transformers."""
        ...

    @property
    def engine(self) -> Engine | None:
        """The model as an engine."""
        ...

    @property
    def tokenizer(self) -> Any:
        """The model's `ChatTokenizer`."""
        ...

    @property
    def ends(self) -> Collection[int]:
        """The ids that end a sequence."""
        ...

    @property
    def room(self) -> int | None:
        """The most ids that it takes, prompt and text together; None if that is not known."""
        ...

    def check_tokenizer(self, index: Any) -> None:
        """Raise TokenizerMismatchError if an index was built for another tokenizer."""
        ...

    @property
    def token_bytes(self) -> Sequence[bytes]:
        """The bytes of each id, by id; empty for special tokens."""
        ...
