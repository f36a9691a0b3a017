"""An answer on a terminal: the text while it is written, then its facts with their pages on Wikidata.

Reasoning is plain. A fact is dim and underlined while it is written, and blue and underlined once it is complete. The
answer is bold. Complete lines are printed once; the current line and the status below it are redrawn in place.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from refactx.asking.answer import Answer
from refactx.cli.fact_tree import fact_tree
from refactx.cli.plain import ending, proof_of
from refactx.decoding.stream import TextPiece
from refactx.fact import counted, line, visible

FACT = "blue underline"
UNFINISHED = "dim underline"
ANSWER = "bold"
REFRESH_RATE = 8  # a second


class TerminalText:
    """The text of an answer while it is generated, with a status line. Call `add` within `live`."""

    def __init__(self, console: Console, marker: str) -> None:
        self._console, self._marker = console, marker
        self._line, self._fact = Text(), ""
        self.reads, self.facts, self.tokens = True, 0, 0
        self._begun = False
        self._live: Live | None = None
        self._started = time.monotonic()

    @contextmanager
    def live(self) -> Iterator[None]:
        """Redraw the current line during the block, and print the unfinished line at its end."""
        drawn = Live(
            console=self._console, get_renderable=self._render, refresh_per_second=REFRESH_RATE, transient=True
        )
        with drawn:
            self._live = drawn
            try:
                yield
            finally:
                rest = self._current()
                self._live = None
        if rest.plain.strip():
            self._console.print(rest)

    def add(self, piece: TextPiece) -> None:
        """Add the next piece of the text."""
        text = visible(piece.text)
        if not self._begun:  # an answer's text has no leading white space
            text = text.lstrip()
            self._begun = bool(text)
        if piece.in_fact:
            self._fact += text.replace("\n", " ")  # a fact is one line, whoever made the index
            if piece.completes:
                self._line, self._fact = self._with_fact(FACT), ""
                self.facts += 1
            return
        *whole, rest = text.split("\n")
        for end in whole:
            finished, self._line = self._line.copy().append(end), Text()
            if self._live is not None:  # otherwise the line is shown twice until the next refresh
                self._live.refresh()
            self._console.print(_marked(finished, self._marker))
        self._line = self._line.copy().append(rest)

    def _current(self) -> Text:
        return _marked(self._with_fact(UNFINISHED), self._marker)

    def _with_fact(self, style: str) -> Text:
        fact = self._fact.lstrip()
        space = self._fact[: len(self._fact) - len(fact)]
        return self._line.copy().append(space).append(fact, style)

    def _render(self) -> Group:
        status = (
            f"{counted(self.tokens, 'token')}, {counted(self.facts, 'fact')}, {time.monotonic() - self._started:.0f} s"
        )
        current = self._current()
        return Group(*([current] if current.plain.strip() else []), Text(status, style="dim"))


def _marked(text: Text, marker: str) -> Text:
    """Return the line, bold if it holds the answer."""
    if text.plain.lstrip(" *").startswith(marker):
        text.stylize(ANSWER)
    return text


def terminal(**options: Any) -> Console:
    """Return a console for standard output that prints texts as they are, without markup or emoji codes."""
    return Console(highlight=False, markup=False, emoji=False, **options)


def print_answer(console: Console, answer: Answer, marker: str, was_streamed: bool) -> None:
    """Print what follows the text of an answer, and the text itself unless it was streamed."""
    if not was_streamed and answer.text:
        for written in _with_facts(answer).split("\n", allow_blank=True):
            console.print(_marked(written, marker))
    note = ending(answer)
    if not answer.text.endswith(answer.answer) or not (answer.answer or note):
        console.print()
        console.print(Text("Answer: " + (line(answer.answer) or "(the model came to no answer)"), ANSWER))
    if note:
        console.print(Text(note, style="yellow"))
    if facts := (*answer.links, *proof_of(answer)):
        console.print()
        console.print(fact_tree(facts, console.width))
    console.print()


def print_question(console: Console, question: str) -> None:
    """Print the question above its answer."""
    console.print(Text(line(question), style=ANSWER))
    console.print()


def _with_facts(answer: Answer) -> Text:
    """Return the text with its facts highlighted; `answer.facts` has them in the order of the text."""
    written = answer.text
    for fact in answer.facts:
        written = written.replace(fact.text, line(fact.text))
    shown, after = Text(visible(written)), 0
    for fact in answer.facts:
        text = line(fact.text)
        start = shown.plain.find(text, after)
        if start >= 0:
            after = start + len(text)
            shown.stylize(FACT, start, after)
    return shown
