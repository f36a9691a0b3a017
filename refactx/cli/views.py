"""Asking so that somebody sees it: on a terminal, as plain lines, or as JSON lines.

Results go to standard output. What has come so far goes to standard error where that is a terminal.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import click
from tqdm import tqdm

from refactx.asking.answer import Answer
from refactx.asking.asker import Asker
from refactx.asking.options import Generation
from refactx.asking.prompt import Example
from refactx.cli.interrupt import interruptible
from refactx.cli.options import print_json
from refactx.cli.plain import plain
from refactx.decoding.partial import shown
from refactx.decoding.stream import Piece
from refactx.errors import InputError

_COUNTED = 0.5  # seconds between two counts of a beam's facts, which reads the whole text again


@dataclass(frozen=True, slots=True)
class Asking:
    """Whom is asked, and how; `marker`: what the model writes in front of its answer."""

    asker: Asker
    options: Generation
    free: bool
    marker: str

    @property
    def streams(self) -> bool:
        """Whether the text can be shown as it comes."""
        return self.options.num_beams == 1

    def ask(self, question: str, history: Sequence[Example], view: "Reader") -> Answer:
        """Ask, with a view that reads along; Ctrl-C ends the generation."""
        streamer = self.asker.stream(view.add, self.free) if self.streams and view.reads else None
        counter = _BeamFacts(self, view)

        with interruptible() as interrupted:

            def until(ids: Any) -> bool:
                view.tokens += 1
                if streamer is None:
                    counter.look(ids)
                return interrupted()

            return self.asker.ask(
                question, self.options, history=history, free=self.free, streamer=streamer, until=until
            )


class Reader(Protocol):
    """Reads a text along as it is written. `reads`: whether anybody looks; `tokens`, `facts`: how many there are so far."""

    reads: bool
    tokens: int
    facts: int

    def add(self, piece: Piece) -> None:
        """The next piece of the text."""
        ...


class View(Protocol):
    """Asks, and shows what comes of it."""

    def ask(self, question: str, history: Sequence[Example] = ()) -> Answer:
        """One question."""
        ...

    def show(self, answer: Answer) -> None:
        """An answer that is there already."""
        ...

    def show_so_far(self, answer: Answer, error: str) -> None:
        """What there is of an answer that an error broke off."""
        ...


class _BeamFacts:
    """Counts the facts of the first beam now and then."""

    def __init__(self, asking: Asking, view: Reader) -> None:
        self._asking, self._view = asking, view
        self._prompt_length, self._next = 0, 0.0

    def look(self, ids: Any) -> None:
        self._prompt_length = self._prompt_length or ids.shape[1] - 1
        if self._view.reads and not self._asking.free and time.monotonic() > self._next:
            self._view.facts = self._asking.asker.count_facts(ids[0].tolist(), self._prompt_length)
            self._next = time.monotonic() + _COUNTED


class _Bar:
    """Tokens and facts so far, on standard error."""

    def __init__(self, bar: Any) -> None:
        self._bar, self._tokens, self.facts = bar, 0, 0
        self.reads = not bar.disable

    @property
    def tokens(self) -> int:
        return self._tokens

    @tokens.setter
    def tokens(self, count: int) -> None:
        self._bar.set_postfix(facts=self.facts, refresh=False)
        self._bar.update(count - self._tokens)
        self._tokens = count

    def add(self, piece: Piece) -> None:
        self.facts += piece.completes


class LineView:
    """Plain lines, or JSON lines, for programs and files."""

    def __init__(self, asking: Asking, as_json: bool) -> None:
        self._asking, self._as_json = asking, as_json

    def ask(self, question: str, history: Sequence[Example] = ()) -> Answer:
        """Ask, and print the answer."""
        with shown(self.show_so_far), tqdm(unit=" tokens", disable=None, leave=False) as bar:
            answer = self._asking.ask(question, history, _Bar(bar))
        self.show(answer)
        return answer

    def show(self, answer: Answer) -> None:
        """Print the answer."""
        if self._as_json:
            print_json(answer.to_json())
        else:
            click.echo(plain(answer))

    def show_so_far(self, answer: Answer, error: str) -> None:
        """Print it; as JSON with the error beside it."""
        if self._as_json:
            print_json(answer.to_json() | {"error": error})
        else:
            click.echo(plain(answer))


class TerminalView:
    """For people at a terminal. `asks`: whether the question is shown too."""

    def __init__(self, asking: Asking, asks: bool = True) -> None:
        from refactx.cli.terminal import terminal

        self._asking, self._asks, self._console = asking, asks, terminal()

    def ask(self, question: str, history: Sequence[Example] = ()) -> Answer:
        """Ask, and show the answer as it comes."""
        from refactx.cli.terminal import TerminalText, print_answer, print_question

        if self._asks:
            print_question(self._console, question)
        text = TerminalText(self._console, self._asking.marker)
        with shown(self._behind_the_text), text.live():
            answer = self._asking.ask(question, history, text)
        print_answer(self._console, answer, self._asking.marker, was_streamed=self._asking.streams)
        return answer

    def show(self, answer: Answer) -> None:
        """Show the answer with its question."""
        from refactx.cli.terminal import print_answer, print_question

        print_question(self._console, answer.question)
        print_answer(self._console, answer, self._asking.marker, was_streamed=False)

    def show_so_far(self, answer: Answer, error: str) -> None:
        """Show it; the error comes behind it."""
        self.show(answer)

    def _behind_the_text(self, answer: Answer, error: str) -> None:
        from refactx.cli.terminal import print_answer

        print_answer(self._console, answer, self._asking.marker, was_streamed=self._asking.streams)


def view_of(asking: Asking, as_json: bool, asks: bool = True) -> View:
    """The view that suits standard output."""
    if not as_json and sys.stdout.isatty():
        return TerminalView(asking, asks)
    return LineView(asking, as_json)


def ask_many(
    asking: Asking, view: View, questions: Sequence[str], batch_size: int, on_error: Callable[[str, InputError], object]
) -> bool:
    """Ask in batches and show the answers in order, as they come. `on_error`: for a question that cannot be asked.

    Returns whether all were asked: Ctrl-C ends the batch, which is shown, and leaves out the rest.
    """
    with (
        shown(view.show_so_far),
        tqdm(total=len(questions), desc="questions", disable=None, leave=False) as bar,
        interruptible() as interrupted,
    ):
        tokens = facts = 0

        def until(ids: Any) -> bool:
            nonlocal tokens
            tokens += max(1, len(ids) // asking.options.num_beams)
            bar.set_postfix(tokens=tokens, facts=facts, refresh=False)
            bar.update(0)
            return interrupted()

        answers = asking.asker.ask_all(questions, asking.options, batch_size=batch_size, free=asking.free, until=until)
        for question, answer in zip(questions, _until(answers, interrupted, batch_size), strict=False):
            with _beside(bar):
                if isinstance(answer, InputError):
                    on_error(question, answer)
                else:
                    facts += len(answer.facts)
                    view.show(answer)
            bar.update()
        return not interrupted()


def _until(answers: Iterator[Any], interrupted: Callable[[], bool], batch_size: int) -> Iterator[Any]:
    """The answers up to the end of the batch in which Ctrl-C came."""
    for number, answer in enumerate(answers, 1):
        yield answer
        if interrupted() and number % batch_size == 0:
            return


@contextmanager
def _beside(bar: Any) -> Iterator[None]:
    """Print something while a bar is there."""
    with bar.external_write_mode():
        yield
