"""From questions to what a model reads: ids within its room, what all have in common computed once, batches padded."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from refactx.asking.prompt import Example, Prompt
from refactx.errors import InputError, ModelError


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and its prompt: `ids` as the model reads them; `left_out`: so many earlier turns are not in it."""

    question: str
    ids: list[int]
    left_out: int = 0


class PromptInputs:
    """A prompt's questions as inputs of one model. `pad`: the id that fills the rows of a batch.

    `room`: the most ids that the model takes, prompt and answer together; None if it does not say.
    """

    def __init__(self, model: Any, tokenizer: Any, prompt: Prompt, pad: int) -> None:
        self._model, self._tokenizer, self._prompt, self._pad = model, tokenizer, prompt, pad
        self.room: int | None = getattr(model.config, "max_position_embeddings", None)
        self._prefix: Any = None  # False: there is none

    def asked(self, question: str, max_new_tokens: int, history: Sequence[Example]) -> Asked:
        """The prompt, with as much of the history as leaves room for an answer, but for half of the room at most.

        Raises InputError for a question without visible text, or one too long for the model.
        """
        for left_out in range(len(history) + 1):
            encoded = self._prompt.encode(self._tokenizer, question, history[left_out:])
            ids: list[int] = encoded["input_ids"][0].tolist()
            if self.room is None or len(ids) + min(max_new_tokens, self.room // 2) <= self.room:
                break
        if self.room is not None and len(ids) >= self.room:
            raise InputError(
                f"question and prompt are {len(ids)} tokens, and the model takes {self.room}: ask more briefly"
            )
        return Asked(question.strip(), ids, left_out)

    def shared(self, asked: Sequence[Asked]) -> Any:
        """What all prompts have in front of their questions, computed once; None where that can't be."""
        from refactx.engines.hf.prefix import prefill

        if self._prefix is None:
            import torch

            prefix: Any = False  # kept only when done: a first question that is cancelled has computed nothing
            one, other = (self._prompt.encode(self._tokenizer, text)["input_ids"][0].tolist() for text in ("0", "?"))
            length = next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
            if length and asked[0].ids[:length] != one[:length]:
                return None  # of this question; its first id has taken in what others have in front of theirs
            with suppress(ModelError):
                prefix = length and prefill(self._model, torch.tensor([one[:length]]))
            self._prefix = prefix
        if not self._prefix:
            return None
        begin = self._prefix.ids[0].tolist()
        begins = all(len(one.ids) > len(begin) and one.ids[: len(begin)] == begin for one in asked)
        return self._prefix if begins else None

    def batch(self, asked: Sequence[Asked], shared: int) -> dict[str, Any]:
        """Ids and attention mask of a batch, int64[rows, length], padded behind the `shared` ids that all begin with."""
        import torch

        width = max(len(one.ids) for one in asked)
        gaps = [width - len(one.ids) for one in asked]
        ids = [[*one.ids[:shared], *[self._pad] * gap, *one.ids[shared:]] for one, gap in zip(asked, gaps, strict=True)]
        mask = [[1] * shared + [0] * gap + [1] * (width - gap - shared) for gap in gaps]
        device = self._model.device
        return {"input_ids": torch.tensor(ids, device=device), "attention_mask": torch.tensor(mask, device=device)}
