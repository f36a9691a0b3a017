"""A model of Transformers with its own generation config, as `refactx.engines.language_model.LanguageModel`.

`generate` takes settings that a call does not give from the model's generation config. So that is replaced, on a shallow
copy of the model, which shares weights and hooks: the caller's model is not changed. Of the model's
`generation_config.json` only the ids of special tokens are used, since its penalties and its sampling are meant for
chat and would change the names in facts.
"""

import copy
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from transformers import GenerationConfig

from refactx.engines.engine import Engine
from refactx.engines.hf.packed import PackedEngine
from refactx.engines.hf.processor import check_model, check_tokenizer
from refactx.engines.hf.rows import takes_masks
from refactx.tokenizer import FactTokenizer


class TransformersModel:
    """A causal language model of Transformers and its tokenizer. Raises ModelError if it lacks ids of the tokenizer.

    `model`: the copy; `pad`: the id that pads rows; `engine`: None for a model whose attention takes no masks of four
    dimensions, which `generate` runs.
    """

    has_generate = True

    def __init__(self, model: Any, tokenizer: Any) -> None:
        given = model.generation_config
        self.tokenizer = tokenizer
        self.ends = frozenset(_ids(given.eos_token_id) | _ids(tokenizer.eos_token_id))
        pad = given.pad_token_id if given.pad_token_id is not None else tokenizer.pad_token_id
        self.pad: int = pad if pad is not None else min(self.ends, default=0)
        self.room: int | None = getattr(model.config, "max_position_embeddings", None)
        config: Any = GenerationConfig  # it has no types
        self.model = copy.copy(model)
        self.model.generation_config = config(
            bos_token_id=given.bos_token_id,
            eos_token_id=sorted(self.ends) or None,
            pad_token_id=self.pad if pad is not None or self.ends else None,
        )
        check_model(model, tokenizer, _highest(tokenizer) + 1)
        self.engine: Engine | None = PackedEngine(self.model) if takes_masks(self.model) else None

    def check_tokenizer(self, index: Any) -> None:
        check_tokenizer(index, self.tokenizer)
        check_model(self.model, self.tokenizer, index.tokenizer.plain_size)

    @cached_property
    def token_bytes(self) -> Sequence[bytes]:
        return FactTokenizer.from_transformers(self.tokenizer).token_bytes


def _highest(tokenizer: Any) -> int:
    """Return the highest id of plain text and of a conversation, whose roles are added tokens."""
    added: Any = tokenizer.added_tokens_decoder
    plain: int = max(number for number in tokenizer.get_vocab().values() if number not in added)
    try:
        sample: list[int] = tokenizer.apply_chat_template(
            [{"role": "user", "content": "a"}], tokenize=True, return_dict=False
        )
    except Exception:  # a template may raise anything: `refactx.writing.conversation` reports it
        return plain
    highest: int = max([plain, *sample])
    return highest


def _ids(value: int | list[int] | None) -> set[int]:
    if value is None:
        return set()
    return {value} if isinstance(value, int) else set(value)
