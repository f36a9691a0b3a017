"""A language model on a server: its engine, its chat template and its ids, which are those of the index's tokenizer.

The index's tokenizer encodes what is written here. The server's chat template writes conversations; a server that does
not apply it to others' conversations needs a tokenizer of Transformers here, by its name.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from refactx.engines.engine import Engine, mismatch_error
from refactx.engines.served.connection import SECONDS, Connection, Usage
from refactx.engines.served.engine import ServedEngine
from refactx.engines.served.servers import ModelServer, find_server
from refactx.errors import InputError, ModelError
from refactx.models.loading import load_chat_tokenizer
from refactx.tokenizer import FactTokenizer

ENDS = (
    *("</s>", "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<|eom_id|>", "<end_of_turn>", "<eos>"),
    *("<|end|>", "<|return|>", "<|endofturn|>", "<|END_OF_TURN_TOKEN|>", "<|end_of_role|>", "<|eot|>", "<turn|>"),
)
"""The names of control tokens that end a text, as the chat templates of published models have them."""

SAMPLE = (
    "The capital of Alaska is Juneau (31,275 people, 58.3°N). <Ada Lovelace> <date of birth> <10 December 1815> .\n"
    "Zürich, Kraków, 東京, Москва, القاهرة: naïve café — “quotes”, x = [1, 2]; def f(x): return x**2  # two  spaces"
)
"""The text that the tokenizers of the index and of the server are compared by."""


class ServedTokenizer:
    """The tokenizer of an index, with a server's chat template, or that of `local`, a tokenizer of Transformers."""

    def __init__(self, tokenizer: FactTokenizer, server: ModelServer, local: Any = None) -> None:
        self._tokenizer, self._server, self._local = tokenizer, server, local
        self.chat_template = "the server's" if local is None else local.chat_template
        self._written: dict[tuple[tuple[str, str], ...], list[int]] = {}

    @cached_property
    def added_tokens_decoder(self) -> dict[int, str]:
        """The texts of added tokens by id."""
        return {number: token.content for number, token in self._tokenizer.added_tokens.items()}

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """Return the ids of plain text."""
        return self._tokenizer.encode(text)

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = False, **_: object) -> str:
        """Return the text of ids; that of control tokens unless they are skipped."""
        if skip_special_tokens:
            return self._tokenizer.decode(ids)
        added, table = self.added_tokens_decoder, self._tokenizer.token_bytes
        pieces = (added[n].encode() if n in added else table[n] for n in ids if n in added or n < len(table))
        return b"".join(pieces).decode("utf-8", "replace")

    def apply_chat_template(
        self, messages: Sequence[Mapping[str, str]], *, tokenize: bool = True, **variables: Any
    ) -> str | list[int]:
        """Return a conversation as the chat template writes it, with the beginning of the answer: its ids, or its text
        unless `tokenize`. Raises ModelError if the server refuses it."""
        if self._local is not None:
            found: str | list[int] = self._local.apply_chat_template(messages, tokenize=tokenize, **variables)
            return found
        key = tuple((one["role"], one["content"]) for one in messages)
        if key not in self._written:
            ids = self._server.conversation(messages)
            if ids is None:
                raise ModelError(
                    f"{self._server.kind} writes no conversation for others: name a tokenizer with --tokenizer"
                )
            self._written = {key: ids}
        return self._written[key] if tokenize else self.decode(self._written[key])


class ServedModel:
    """A `refactx.engines.engine.LanguageModel` on a server that scores ids. `index`: the one whose tokenizer it has.

    `server`: what is asked; `usage`: what was asked of it so far.
    """

    has_generate = False

    def __init__(self, server: ModelServer, index: Any, local: Any = None) -> None:
        self.server, tokenizer = server, index.tokenizer
        self.tokenizer = ServedTokenizer(tokenizer, server, local)
        self.token_bytes: Sequence[bytes] = tokenizer.token_bytes
        ends = {number for number, token in tokenizer.added_tokens.items() if token.content in ENDS}
        if local is not None and local.eos_token_id is not None:
            ends.add(local.eos_token_id)
        self.ends: Collection[int] = sorted(ends)
        if not ends:
            raise ModelError("the index's tokenizer has no token that ends a text: name another one with --tokenizer")
        self.room = server.room
        self.engine: Engine | None = ServedEngine(
            server, size=len(self.token_bytes), ends=sorted(ends), stop=index.trigger
        )

    @property
    def usage(self) -> Usage:
        """What was asked of the server so far."""
        return self.server.connection.usage

    def check_tokenizer(self, index: Any) -> None:
        """Raise TokenizerMismatchError unless the server writes a sample by ids that are this text in the index.

        A server that does not tell is asked for one id after the sample, which it refuses if it does not know the ids.
        """
        expected = index.tokenizer.encode(SAMPLE)
        found = self.server.tokenize(SAMPLE)
        if found is None:
            self.server.write([expected], 1)
        elif found != expected and index.tokenizer.decode_bytes(found) != SAMPLE.encode():
            at = next((n for n, (own, other) in enumerate(zip(expected, found, strict=False)) if own != other), 0)
            raise mismatch_error(
                index,
                f"{self.server.model} at {self.server.connection.shown}: id {at} of a sample is {found[at : at + 1]}",
            )


def load_served(
    url: str,
    model: str | None,
    index: Any,
    *,
    tokenizer: str | None = None,
    key: str | None = None,
    seconds: float = SECONDS,
) -> ServedModel | None:
    """Return the model on a server, to be given to `refactx.Asker`; None if the server can only chat.

    `model`: its name there, None for the only one; `index`: an open one, whose tokenizer must be the model's;
    `tokenizer`: a folder or Hugging Face id with the chat template, for a server that does not apply its own; `key`: by
    default $REFACTX_MODEL_KEY; `seconds`: the most time of an answer.

        with refactx.open_index("wikidata") as index:
            model = load_served("http://gpu:8000/v1", None, index)
            answer = refactx.Asker(model, model.tokenizer, index).ask("What is the capital of Alaska?")

    Raises ModelError if the server cannot be reached or refuses a request, TokenizerMismatchError if the index was built
    for another tokenizer, InputError without an index or for a URL that is none.
    """
    if index is None:
        raise InputError("a model on a server needs an index, whose tokenizer writes its ids: give one")
    server = find_server(Connection(url, key, seconds=seconds), model)
    if server is None:
        return None
    local = load_chat_tokenizer(tokenizer) if tokenizer else None
    if local is None and server.conversation([{"role": "user", "content": "Hello"}]) is None:
        local = load_chat_tokenizer(server.identity)
    loaded = ServedModel(server, index, local)
    loaded.check_tokenizer(index)
    return loaded
