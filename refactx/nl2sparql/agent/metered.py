"""Models whose tokens are counted, up to a bound."""

import re
from collections.abc import Callable, Sequence

from refactx.errors import RefactxError
from refactx.sparql.policies import CancellableModel, TextModel
from refactx.writing.conversation import Message

_PIECE = re.compile(r"\w{1,4}|[^\w\s]")


class TokensSpentError(RefactxError):
    """A translation whose models have written as many tokens as they may."""


class Meter:
    """A count of the tokens that models write for one question, of at most `most`.

    `cancelled`: ends the texts of models that can be cancelled once it returns True. A model that does not tell
    how many it wrote is taken to have written one for each four letters and each sign.
    """

    def __init__(self, most: int, cancelled: Callable[[], bool] | None = None) -> None:
        self.most, self.spent, self._cancelled = most, 0, cancelled

    def generate(self, model: TextModel, messages: Sequence[Message], max_new_tokens: int) -> str:
        """Return a model's reply. Raises TokensSpentError if no token is left, and as the model does."""
        left = self.most - self.spent
        if left <= 0:
            raise TokensSpentError(f"the models have written {self.spent} tokens, as many as they may")
        if self._cancelled is not None and isinstance(model, CancellableModel):
            model = model.cancelled_by(self._cancelled)
        text = model.generate(messages, min(max_new_tokens, left))
        self.spent += max(1, min(left, tokens_in(text)))
        return text


def tokens_in(text: str) -> int:
    """Return about how many tokens a text has.

    >>> tokens_in("SELECT ?x { ?x a ex:Dog }")
    12
    """
    return len(_PIECE.findall(text))
