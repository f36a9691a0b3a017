"""An answer on a terminal: as it is written, and then its facts as a table with their pages on Wikidata.

Reasoning is plain, a fact dim and underlined while it is written and blue and underlined from when it is complete, the
answer bold. Whole lines are printed for good; the line that is being written, and below it what has come so far, are
redrawn in place.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.style import Style
from rich.table import Table
from rich.text import Text

from refactx.asking.answer import Answer
from refactx.cli.plain import ending, line, visible
from refactx.decoding.stream import Piece
from refactx.index.links import Link, LinkedFact

FACT = "blue underline"
UNFINISHED = "dim underline"
ANSWER = "bold"
REDRAWN = 8  # times a second
_PARTS, _GAP = ("subject", "predicate", "object"), 2


class TerminalText:
    """A text as it comes, and what has come so far. Use it within `live`."""

    def __init__(self, console: Console, marker: str) -> None:
        self._console, self._marker = console, marker
        self._line, self._fact = Text(), ""
        self.reads, self.facts, self.tokens = True, 0, 0
        self._begun = False
        self._live: Live | None = None
        self._started = time.monotonic()

    @contextmanager
    def live(self) -> Iterator[None]:
        """Draws, for as long as the block lasts; what is unfinished at its end is printed as it is."""
        drawn = Live(console=self._console, get_renderable=self._render, refresh_per_second=REDRAWN, transient=True)
        with drawn:
            self._live = drawn
            try:
                yield
            finally:
                rest = self._current()
                self._live = None
        if rest.plain.strip():
            self._console.print(rest)

    def add(self, piece: Piece) -> None:
        """The next piece of the text."""
        text = visible(piece.text)
        if not self._begun:  # as the answer's text, without white space in front
            text = text.lstrip()
            self._begun = bool(text)
        if piece.in_fact:
            self._fact += text
            if piece.completes:
                self._line, self._fact = self._with_fact(FACT), ""
                self.facts += 1
            return
        *whole, rest = text.split("\n")
        for end in whole:
            finished, self._line = self._line.copy().append(end), Text()
            if self._live is not None:  # or the line would stand below itself until it is redrawn
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
        status = f"{_counted(self.tokens, 'token')}, {_counted(self.facts, 'fact')}, {time.monotonic() - self._started:.0f} s"
        current = self._current()
        return Group(*([current] if current.plain.strip() else []), Text(status, style="dim"))


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _marked(text: Text, marker: str) -> Text:
    """The line, bold if it is the one with the answer."""
    if text.plain.lstrip(" *").startswith(marker):
        text.stylize(ANSWER)
    return text


def terminal(**options: Any) -> Console:
    """Standard output, with nothing in texts that is taken for markup."""
    return Console(highlight=False, markup=False, emoji=False, **options)


def print_answer(console: Console, answer: Answer, marker: str, was_streamed: bool) -> None:
    """What comes behind the text of an answer; with the text, if that has not been streamed."""
    if not was_streamed and answer.text:
        for written in _with_facts(answer).split("\n", allow_blank=True):
            console.print(_marked(written, marker))
    note = ending(answer)
    if not answer.text.endswith(answer.answer) or not (answer.answer or note):
        console.print()
        console.print(Text("Answer: " + (line(answer.answer) or "(the model came to no answer)"), ANSWER))
    if note:
        console.print(Text(note, style="yellow"))
    if answer.facts:
        console.print()
        console.print(_table(answer, console.width))
    console.print()


def print_question(console: Console, question: str) -> None:
    """The question above its answer."""
    console.print(Text(line(question), style=ANSWER))
    console.print()


def _with_facts(answer: Answer) -> Text:
    """The text with its facts, which come in this order, marked."""
    shown, behind = Text(visible(answer.text)), 0
    for fact in answer.facts:
        text = visible(fact.text)
        start = shown.plain.find(text, behind)
        if start >= 0:
            behind = start + len(text)
            shown.stylize(FACT, start, behind)
    return shown


def _table(answer: Answer, width: int) -> Table:
    """The facts; below each part its page on Wikidata, or its id alone where there is no room for addresses."""
    shown = _page if sum(_widest(answer, name, _page) + _GAP for name in _PARTS) + _GAP + 1 <= width else _number
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, _GAP, 0, 0))
    table.add_column("", justify="right", style="dim")
    for name in _PARTS:
        table.add_column(name, overflow="fold", min_width=_widest(answer, name, shown))
    for number, linked in enumerate(answer.links, 1):
        table.add_row(str(number), *_cells(linked, shown))
    return table


def _widest(answer: Answer, name: str, shown: Callable[[Link], str]) -> int:
    parts = [getattr(linked, name) for linked in answer.links]
    return max((len(shown(part)) for part in parts if isinstance(part, Link)), default=0)


def _cells(linked: LinkedFact, shown: Callable[[Link], str]) -> Iterator[Text]:
    for part in (linked.subject, linked.predicate, linked.object):
        if isinstance(part, str):
            yield Text(line(part))
            continue
        cell = Text(line(part.label))
        cell.append(" (inverse)" if linked.inverse and part is linked.predicate else "", "dim")
        if part.url is not None:
            cell.append("\n").append(shown(part), Style(dim=True, link=visible(part.url)))
        yield cell


def _page(part: Link) -> str:
    """The address as people write it; the whole one is behind it."""
    return visible(part.url or "").removeprefix("https://www.")


def _number(part: Link) -> str:
    return visible(part.id or "")
