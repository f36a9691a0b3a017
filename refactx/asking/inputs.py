"""The inputs of a model for questions: ids that fit its context, a common prefix that is computed once, padded batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from refactx.asking.prompt import Example, Prompt
from refactx.errors import InputError

if TYPE_CHECKING:  # it imports torch: seconds
    from refactx.grounded.writer import PaddedPrompts, TextWriter


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and the `ids` of its prompt; `left_out`: how many earlier turns the prompt does not have."""

    question: str
    ids: list[int]
    left_out: int = 0


class PromptInputs:
    """The inputs of one model for questions with one prompt."""

    def __init__(self, writer: "TextWriter", tokenizer: Any, prompt: Prompt) -> None:
        self._writer, self._tokenizer, self._prompt = writer, tokenizer, prompt
        self._prefix: Any = None  # None: not yet computed; False: not possible

    def encode(self, question: str, max_new_tokens: int, history: Sequence[Example]) -> Asked:
        """Return the prompt with the latest turns of the history that fit.

        They leave room for `max_new_tokens` ids, or at least for half of the ids that the model takes. Raises InputError
        for a question that has no visible text or is too long for the model.
        """
        room = self._writer.room
        for left_out in range(len(history) + 1):
            encoded = self._prompt.encode(self._tokenizer, question, history[left_out:])
            ids: list[int] = encoded["input_ids"][0].tolist()
            if room is None or len(ids) + min(max_new_tokens, room // 2) <= room:
                break
        if room is not None and len(ids) >= room:
            raise InputError(
                f"question and prompt have {len(ids)} tokens, but the model takes at most {room}: ask more briefly"
            )
        return Asked(question.strip(), ids, left_out)

    def limit(self, asked: Sequence[Asked], max_new_tokens: int) -> int:
        """Return for how many new ids the model has room, at most `max_new_tokens`."""
        room = self._writer.room
        return max_new_tokens if room is None else min(max_new_tokens, room - max(len(one.ids) for one in asked))

    def batch(self, asked: Sequence[Asked]) -> "PaddedPrompts":
        """Return the prompts of a batch, padded after the prefix that all share."""
        from refactx.grounded.writer import PaddedPrompts

        prefix = self._shared(asked)
        shared = 0 if prefix is None else prefix.ids.shape[1]
        width, pad = max(len(one.ids) for one in asked), self._writer.pad
        gaps = [width - len(one.ids) for one in asked]
        ids = [[*one.ids[:shared], *[pad] * gap, *one.ids[shared:]] for one, gap in zip(asked, gaps, strict=True)]
        mask = [[1] * shared + [0] * gap + [1] * (width - gap - shared) for gap in gaps]
        return PaddedPrompts(ids, mask, prefix)

    def _shared(self, asked: Sequence[Asked]) -> Any:
        """Return the prefix that all prompts have before their questions, computed once; None if that is impossible."""
        if self._prefix is None:
            one, other = (self._prompt.encode(self._tokenizer, text)["input_ids"][0].tolist() for text in ("0", "?"))
            length = next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
            if length and asked[0].ids[:length] != one[:length]:
                return None  # for this question, whose first token includes text that others have before theirs
            # (Stored only when it is complete: the first question may be interrupted.)
            self._prefix = (self._writer.prefill(one[:length]) if length else None) or False
        if not self._prefix:
            return None
        begin = self._prefix.ids[0].tolist()
        begins = all(len(one.ids) > len(begin) and one.ids[: len(begin)] == begin for one in asked)
        return self._prefix if begins else None
