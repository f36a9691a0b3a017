"""The inputs of a model for questions: ids that fit its context, and the prefix that they share."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from refactx.asking.prompt import Example, Prompt
from refactx.errors import InputError

LONGEST_PREFIX = 2000
"""The most ids of a prefix with a system message of a caller's: the engine keeps several."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and the `ids` of its prompt; `left_out`: how many earlier turns the prompt does not have."""

    question: str
    ids: list[int]
    left_out: int = 0


class PromptInputs:
    """The inputs of one model for questions with one prompt. `room`: the most ids that the model takes, if known."""

    def __init__(self, tokenizer: Any, prompt: Prompt, room: int | None) -> None:
        self._tokenizer, self._prompt, self._room = tokenizer, prompt, room
        self._prefixes: dict[str, list[int]] = {}  # by the caller's system message

    def encode(self, question: str, max_new_tokens: int, history: Sequence[Example] = (), system: str = "") -> Asked:
        """Return the prompt with the latest turns of the history that fit.

        They leave room for `max_new_tokens` ids, or at least for half of the ids that the model takes. Raises InputError
        for a question that has no visible text or is too long for the model.
        """
        room, ids, left_out = self._room, self._prompt.ids(self._tokenizer, question, history, system), 0

        def fits(ids: Sequence[int]) -> bool:
            return room is None or len(ids) + min(max_new_tokens, room // 2) <= room

        if history and not fits(ids):
            prompts = [history[count:] for count in range(len(history))]
            left_out = bisect_left(
                prompts, True, key=lambda turns: fits(self._prompt.ids(self._tokenizer, question, turns, system))
            )
            ids = self._prompt.ids(self._tokenizer, question, history[left_out:], system)
        if room is not None and len(ids) >= room:
            raise InputError(
                f"question and prompt have {len(ids)} tokens, but the model takes at most {room}: ask more briefly"
            )
        return Asked(question.strip(), ids, left_out)

    def limit(self, asked: Asked, max_new_tokens: int) -> int:
        """Return for how many new ids the model has room, at most `max_new_tokens`."""
        return max_new_tokens if self._room is None else min(max_new_tokens, self._room - len(asked.ids))

    def prefix(self, system: str = "") -> list[int]:
        """Return the ids with which nearly all prompts begin: a first token of a question may include text before it.

        `system`: the caller's system message; with a long one there is no prefix.
        """
        found = self._prefixes.get(system)
        if found is None:
            one, other = (self._prompt.ids(self._tokenizer, text, system=system) for text in ("0", "?"))
            length = next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
            found = [] if system and length > LONGEST_PREFIX else one[:length]
            self._prefixes = {key: self._prefixes[key] for key in self._prefixes if not key} | {system: found}
        return found
