"""The text of one generation as a client gets it: without white space around it, cut at stop texts, with spans of facts.

Pieces go in, deltas come out. What may be the beginning of a stop text, white space that may be the last of the text, and
a trigger after which no fact may come, are held back until more is known. Stop texts count outside of facts alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from refactx.decoding.stream import TextPiece
from refactx.fact import Fact


@dataclass(frozen=True, slots=True)
class Span:
    """A fact in the text: from the trigger before it to the end of its terminator, in code points."""

    fact: Fact
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Passed:
    """Text that is passed on. `span`: of the fact that ends with it."""

    text: str
    in_fact: bool = False
    span: Span | None = None


class Transcript:
    """The text so far. `trigger`: the text before facts, empty if there are none; `stop`: texts that end it; `strips`:
    whether it is without white space around it.

    >>> transcript = Transcript("Fact:", ["END"])
    >>> [passed.text for piece in (" a", " E", "N", "D b") for passed in transcript.add(TextPiece(piece))]
    ['a']
    >>> transcript.text, transcript.is_stopped
    ('a', True)
    """

    def __init__(self, trigger: str, stop: Sequence[str] = (), *, strips: bool = True) -> None:
        self._strips, self._trigger, self._stop = strips, trigger, [text for text in stop if text]
        self.text, self.is_stopped = "", False
        """What was passed on; whether a stop text has ended it."""
        self._held = ""
        self._begin: int | None = None  # where the fact that is being written begins
        self._fact_end = 0

    @property
    def after_facts(self) -> tuple[int, int]:
        """Where the text after the last fact begins, and where it ends: at a fact that is not finished, if there is one."""
        return self._fact_end, len(self.text) if self._begin is None else self._begin

    def add(self, piece: TextPiece) -> list[Passed]:
        """Take the next piece of the generation."""
        if self.is_stopped:
            return []
        return self._in_fact(piece) if piece.in_fact else self._free(piece.text)

    def end(self, *, is_whole: bool) -> list[Passed]:
        """Take note that nothing follows. `is_whole`: the text was not cut off: a trigger at its end is left out."""
        if self.is_stopped:
            return []
        held = self._held.rstrip() if self._strips else self._held
        if is_whole and self._strips and self._trigger and self.text and held.endswith(self._trigger):
            held = held.removesuffix(self._trigger).rstrip()
        self._held = ""
        return self._passed(held)

    def _free(self, text: str) -> list[Passed]:
        held = self._held + text
        if not self.text and self._strips:
            held = held.lstrip()
        ends = [at for at in (held.find(stop) for stop in self._stop) if at >= 0]
        if ends:
            self._held, self.is_stopped = "", True
            held = held[: min(ends)]
            return self._passed(held.rstrip() if self._strips else held)
        keep = min(self._safe(held, stop) for stop in (self._trigger, *self._stop))
        keep = min(keep, len(held[:keep].rstrip()))
        self._held = held[keep:]
        return self._passed(held[:keep])

    def _in_fact(self, piece: TextPiece) -> list[Passed]:
        passed = self._passed(self._held)
        self._held = ""
        text = piece.text if self.text or not self._strips else piece.text.lstrip()
        if self._begin is None:
            before = self.text.rstrip()
            is_after_trigger = bool(self._trigger) and before.endswith(self._trigger)
            self._begin = len(before) - len(self._trigger) if is_after_trigger else len(self.text)
        self.text += text
        if piece.fact is None:
            return [*passed, Passed(text, in_fact=True)]
        span = Span(piece.fact, self._begin, len(self.text))
        self._begin, self._fact_end = None, span.stop
        return [*passed, Passed(text, in_fact=True, span=span)]

    def _passed(self, text: str) -> list[Passed]:
        self.text += text
        return [Passed(text)] if text else []

    @staticmethod
    def _safe(held: str, wanted: str) -> int:
        """Return the length of `held` without what may be the beginning of `wanted`, or `wanted` itself, at its end."""
        stripped = held.rstrip() if wanted and held.rstrip().endswith(wanted) else held
        for size in range(min(len(wanted), len(stripped)), 0, -1):
            if stripped.endswith(wanted[:size]):
                return len(stripped) - size
        return len(held)
