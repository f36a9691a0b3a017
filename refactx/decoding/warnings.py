"""Warnings about texts that are not constrained, each logged once."""

import logging

from refactx.decoding.markers import Trigger

_log = logging.getLogger(__name__)


class Warnings:
    """The warnings of one machine. `terminator`: that of facts."""

    def __init__(self, terminator: bytes) -> None:
        self._terminator, self._has_warned, self._reported = terminator, False, b""

    def of_no_facts(self, trigger: Trigger, has_facts: bool) -> None:
        """Log a warning that nothing can follow a trigger. `has_facts`: whether the text has facts."""
        if not self._has_warned:
            self._has_warned = True
            found = "a text has all facts of the index already" if has_facts else "the index has no facts"
            _log.warning("%s: the text after %r is not constrained", found, trigger.text.decode())

    def of_unfinished(self, left: bytes) -> None:
        """Log a warning if a prompt ends, after its last trigger, in the beginning of a fact that is not in the index.

        `left`: the text after the trigger.
        """
        begun = left.strip()
        if begun.startswith(b"<") and self._terminator not in left and begun != self._reported:
            self._reported = begun
            _log.warning(
                "the prompt ends in the unfinished fact %r, but no fact of the index begins with these tokens: the text "
                "is not constrained before the next trigger (a prompt that was cut within a word has other tokens)",
                begun[-200:].decode("utf-8", "replace"),
            )
