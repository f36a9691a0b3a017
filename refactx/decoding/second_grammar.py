"""The protocol of a second grammar beside that of facts: lines after a trigger of their own, such as queries.

`refactx.decoding.machine.Machine` finds the trigger, and leaves the ids up to the end of the line to the grammar. A
state of a line is an immutable value, a pure function of the ids after the trigger, as states of sequences are.
"""

from typing import Any, Protocol

from refactx.decoding.lookups import Lookups
from refactx.decoding.states import FactSource, LineState


class LineGrammar(Protocol):
    """A grammar of lines, for one index. Its states are its own: it is passed no others."""

    @property
    def trigger(self) -> str:
        """The text that starts a line, `Query:`."""
        ...

    def beginning(self, *, after_space: bool = False) -> Lookups[LineState | None]:
        """Return the state directly after the trigger; None if there is no line, so that the text stays free.

        `after_space`: the text has a space after the trigger.
        """
        ...

    def advancing(self, state: Any, token: int) -> Lookups[LineState | None]:
        """Return the state after one more token; None if it was not allowed."""
        ...


class SecondGrammar(Protocol):
    """A grammar that can be used with an index."""

    def bind(self, source: FactSource) -> LineGrammar:
        """Return the grammar of lines for an index. Raises ModelError if its tokenizer cannot write them."""
        ...
