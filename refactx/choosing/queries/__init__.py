"""The choice of a query by the noisy channel: that after which the question is likeliest."""

from refactx.choosing.queries.answering import QueryAnswers
from refactx.choosing.queries.words import QueryWords

__all__ = ["QueryAnswers", "QueryWords"]
