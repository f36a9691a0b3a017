"""Views of answers: on a terminal, as plain lines, or as JSON lines.

Answers go to standard output, progress to standard error if that is a terminal.
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
from refactx.decoding.stream import TextPiece
from refactx.errors import InputError, RefactxError, without_password

_COUNT_INTERVAL = 0.5  # seconds: each count of a beam's facts reads the whole text again


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """An asker and how to ask it. `free`: without facts; `marker`: the text before the final answer (`Answer:`)."""

    asker: Asker
    options: Generation
    free: bool
    marker: str

    @property
    def streams(self) -> bool:
        """Whether the text can be shown while it is written: beams may change what was written."""
        return self.options.num_beams == 1

    def ask(self, question: str, history: Sequence[Example], view: "Reader") -> Answer:
        """Ask, and pass the text to `view` while it is written; Ctrl-C ends the generation."""
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
    """A receiver of text while it is written. `reads`: whether it wants the text; `tokens`, `facts`: counts so far."""

    reads: bool
    tokens: int
    facts: int

    def add(self, piece: TextPiece) -> None:
        """Take the next piece of the text."""
        ...


class View(Protocol):
    """A way to ask questions and to show answers."""

    def ask(self, question: str, history: Sequence[Example] = ()) -> Answer:
        """Ask a question and show its answer."""
        ...

    def show(self, answer: Answer) -> None:
        """Show a finished answer."""
        ...

    def show_so_far(self, answer: Answer, error: str) -> None:
        """Show an answer that `error` ended early."""
        ...


class _BeamFacts:
    """The count of the facts in the first beam, at intervals."""

    def __init__(self, asking: Asking, view: Reader) -> None:
        self._asking, self._view = asking, view
        self._prompt_length, self._next = 0, 0.0

    def look(self, ids: Any) -> None:
        self._prompt_length = self._prompt_length or ids.shape[1] - 1
        if self._view.reads and not self._asking.free and time.monotonic() > self._next:
            self._view.facts = self._asking.asker.count_facts(ids[0].tolist(), self._prompt_length)
            self._next = time.monotonic() + _COUNT_INTERVAL


class _Bar:
    """A progress bar of tokens and facts, on standard error."""

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

    def add(self, piece: TextPiece) -> None:
        self.facts += piece.completes


class LineView:
    """Plain lines, or JSON lines, for programs and files."""

    def __init__(self, asking: Asking, as_json: bool) -> None:
        self._asking, self._as_json = asking, as_json

    def ask(self, question: str, history: Sequence[Example] = ()) -> Answer:
        """Ask a question and print its answer."""
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
        """Print an answer that `error` ended early; JSON has the error as a field."""
        if self._as_json:
            print_json(answer.to_json() | {"error": error})
        else:
            click.echo(plain(answer))


class TerminalView:
    """Answers on a terminal. `asks`: whether to show each question too."""

    def __init__(self, asking: Asking, asks: bool = True) -> None:
        from refactx.cli.terminal import terminal

        self._asking, self._asks, self._console = asking, asks, terminal()

    def ask(self, question: str, history: Sequence[Example] = ()) -> Answer:
        """Ask a question and show its answer while it is written."""
        from refactx.cli.terminal import TerminalText, print_answer, print_question

        if self._asks:
            print_question(self._console, question)
        text = TerminalText(self._console, self._asking.marker)
        with shown(self._show_rest), text.live():
            answer = self._asking.ask(question, history, text)
        print_answer(self._console, answer, self._asking.marker, was_streamed=self._asking.streams)
        return answer

    def show(self, answer: Answer) -> None:
        """Show the answer with its question."""
        from refactx.cli.terminal import print_answer, print_question

        print_question(self._console, answer.question)
        print_answer(self._console, answer, self._asking.marker, was_streamed=False)

    def show_so_far(self, answer: Answer, error: str) -> None:
        """Show an answer that `error` ended early; the command line prints the error after it."""
        self.show(answer)

    def _show_rest(self, answer: Answer, error: str) -> None:
        """Show what follows the text of an answer that was shown while it was written."""
        from refactx.cli.terminal import print_answer

        print_answer(self._console, answer, self._asking.marker, was_streamed=self._asking.streams)


def view_of(asking: Asking, as_json: bool, asks: bool = True) -> View:
    """Return the view for standard output: JSON or plain lines, or a `TerminalView` if it is a terminal."""
    if not as_json and sys.stdout.isatty():
        return TerminalView(asking, asks)
    return LineView(asking, as_json)


def ask_many(
    asking: Asking, view: View, questions: Sequence[str], batch_size: int, on_error: Callable[[str, InputError], object]
) -> bool:
    """Ask `batch_size` questions at a time and show the answers in order. Call `on_error` for one that cannot be asked.

    Returns whether all were asked: Ctrl-C ends those that are being written, shows them, and leaves out the later ones.
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
        for question, answer in zip(questions, answers, strict=False):
            with _above(bar):
                if isinstance(answer, InputError):
                    on_error(question, answer)
                else:
                    facts += len(answer.facts)
                    view.show(answer)
            bar.update()
        return not interrupted()


@contextmanager
def _above(bar: Any) -> Iterator[None]:
    """Hide the bar while the block prints."""
    with bar.external_write_mode():
        yield


@contextmanager
def shown(show: Callable[[Answer, str], object]) -> Iterator[None]:
    """If an error leaves the block, call `show` for each answer that it ended early, with the text of the error."""
    try:
        yield
    except RefactxError as error:
        for answer in error.partial.answers if error.partial else ():
            show(answer, without_password(str(error)))
        raise
