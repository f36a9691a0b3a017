"""Views of answers: on a terminal, as plain lines, or as JSON lines.

Text from a model or a knowledge base must not control the terminal: control characters and marks of writing direction
are removed from everything that is printed.

Items and properties have the address of their page on Wikidata beside them.

While it is written, the end of the text is redrawn in place: a thought in italics, a fact dim and underlined, and blue once
it is complete. Then the answer takes its place: bold, with the facts that prove it below, each once. What was only tried is
counted.

Answers go to standard output, progress to standard error if that is a terminal.
"""

import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

import click
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.style import Style
from rich.table import Table
from rich.text import Text
from tqdm import tqdm

from refactx.ask.answer import NOT_FOUND, Answer
from refactx.ask.prompt import Example, Generation
from refactx.cli.options import print_json
from refactx.decoding.stream import TextPiece
from refactx.documents import answer_document, to_json
from refactx.errors import InputError, RefactxError, without_password
from refactx.fact import Link, LinkedFact, counted, line, visible
from refactx.progress import progress_bar

if TYPE_CHECKING:
    from refactx.ask.asker import Asker
    from refactx.ask.checked import CheckedAsker

MOST_PROOF = 20
"""The most facts that are shown as the proof of an answer."""
QUERY = "SELECT ?x { wd:Q797 wdt:P36 ?x }"
SUBJECT = "bold"
INDENT, GAP = 2, 2

LABEL_WIDTHS = (40, 60)
"""The least and the most columns for labels. On a narrower terminal, ids take the place of the addresses of pages; a
longer label wraps."""

FACT = "blue underline"
UNFINISHED = "dim underline"
THOUGHT = "dim italic"
ANSWER = "bold"
REFRESH_RATE = 8  # a second

READING = "reading the prompt"
"""What is done until there is a token."""

_COUNT_INTERVAL = 0.5  # seconds: each count of a beam's facts reads the whole text again


def standard_input() -> Iterator[str]:
    """Yield the lines of standard input. Raises InputError if it is no text in UTF-8."""
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")  # some locales would pass any byte on
    try:
        for number, text in enumerate(sys.stdin):
            yield text if number else text.removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not text in UTF-8: {error}") from None


def query_text(query: str) -> str:
    """Return the query of an argument: a query, a file with one, or - for standard input. Raises InputError."""
    if query == "-":
        return "".join(standard_input())
    if "{" in query or len(query.split()) != 1:
        return query
    try:
        return Path(query).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = "it is not text in UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise InputError(
            f"{query} is no query, and no file that can be read ({reason}): expected one such as {QUERY!r}, a file, or -"
        ) from None


def plain(answer: Answer, *, free: bool = False) -> str:
    """Return the answer as lines, with a line end after the last: then what proves it, each fact once, and below it its pages
    and references, indented. Facts that were only tried are counted.

    Of the text before the answer, what is marked as not found in the index is shown, indented; all of it if it came to no
    answer. `free`: whether it was asked without an index.
    """
    written = {one.text for one in answer.evidence}
    rest = [line(text) for text in answer.text.splitlines() if not answer.answer or NOT_FOUND in text]
    lines = [f"Question: {line(answer.question)}"]
    lines += [f"  {text}".rstrip() for text in rest if not (answer.answer and any(fact in text for fact in written))]
    lines.append(f"Answer: {line(answer.answer) or '(none)'}")
    lines += notes(answer, free=free)
    lines += [f"Query: {line(query.line)}" for query in answer.queries]
    for fact in [one for one in answer.evidence if one.proves][:MOST_PROOF]:
        lines.append(line(fact.text))
        if pages := [url for _, url in _links([fact.fact])]:
            lines.append(f"  {' '.join(pages)}")
        if fact.fact.references:
            lines.append(f"  from {' '.join(map(visible, fact.fact.references))}")
    if left_out := left_out_of(answer):
        lines.append(left_out)
    return "\n".join(lines) + "\n"


def notes(answer: Answer, *, free: bool) -> list[str]:
    """Return what is to be said of an answer: why it is incomplete, and that nothing proves it."""
    said = answer.named or answer.answer
    is_result = bool(answer.queries) and answer.queries[-1].answer == said  # also of no facts, such as 0
    is_proved = is_result or answer.unknown or any(one.proves for one in answer.evidence)
    unproved = [] if free or is_proved or not answer.answer else ["(no fact of the index proves this answer)"]
    return [note for note in (ending(answer), *unproved) if note]


def left_out_of(answer: Answer) -> str:
    """Return how much of what was written is not shown, in words; empty if all is."""
    if not answer.answer:
        return ""
    tried = sum(not one.proves for one in answer.evidence)
    more = len(answer.evidence) - tried - MOST_PROOF
    parts = [f"{counted(more, 'more fact')} as proof"] if more > 0 else []
    parts += [f"{counted(tried, 'other fact')} tried"] if tried else []
    parts += [f"a thought of {counted(answer.thought_tokens, 'token')}"] if answer.thought else []
    return f"(besides: {', '.join(parts)}; --json shows all)" if parts else ""


def ending(answer: Answer) -> str:
    """Return why a text is incomplete; empty if it is complete."""
    if answer.finish_reason == "length":
        return f"(cut off after {counted(answer.tokens, 'token')}: see --max-new-tokens)"
    return "(interrupted)" if answer.finish_reason == "interrupted" else ""


def _links(facts: Iterable[LinkedFact]) -> list[tuple[str, str]]:
    """Return the label and address of each part that has an address, in the order of the facts."""
    parts = [
        part
        for fact in facts
        for part in (fact.subject, fact.predicate, fact.object, *(one for pair in fact.qualifiers for one in pair))
    ]
    return [(line(part.label), visible(part.url)) for part in parts if isinstance(part, Link) and part.url is not None]


@dataclass(frozen=True, slots=True)
class FactPart:
    """One part of a fact: `depth` 0 for a subject, 1 for a predicate, 2 for a value, 3 for a qualifier; `page`: its address or
    id."""

    depth: int
    label: Text
    page: Text | None


def fact_tree(facts: Sequence[LinkedFact], width: int) -> RenderableType:
    """Return the facts, grouped by subject and property in the order of first appearance, for `width` columns."""
    longest = max((cell_len(_address(url)) for _, url in _links(facts)), default=0)
    shortens = width - longest - GAP < LABEL_WIDTHS[0]
    rows = list(_rows(facts, shortens))
    page_width = max((row.page.cell_len for row in rows if row.page), default=0)
    label_width = max((row.label.cell_len + INDENT * row.depth for row in rows if row.page), default=0)
    label_width = max(1, min(label_width, LABEL_WIDTHS[1], width - page_width - GAP))
    return Group(*(_line(row, label_width, page_width) for row in rows))


def _rows(facts: Sequence[LinkedFact], shortens: bool) -> Iterator[FactPart]:
    for subject, properties in _grouped(facts).items():
        yield _row(0, subject, shortens, style=SUBJECT)
        for (predicate, inverse), values in properties.items():
            yield _row(1, predicate, shortens, note=" (inverse)" if inverse else "")
            for value, qualifiers, indexes, references in values:
                yield _row(2, value, shortens, note=f" [{', '.join(indexes)}]" if indexes else "")
                for name, said in qualifiers:
                    yield _row(3, said, shortens, of=f"{name.label}: ")
                for url in map(visible, references):
                    yield FactPart(3, Text.assemble("from ", (_address(url), Style(link=url)), style="dim"), None)


Stated = tuple[Link | str, tuple[tuple[Link, Link | str], ...], tuple[str, ...], tuple[str, ...]]
"""A value with its qualifiers, the indexes that have it, and its references."""


def _grouped(facts: Sequence[LinkedFact]) -> dict[Link, dict[tuple[Link, bool], list[Stated]]]:
    """Return the distinct values with their qualifiers by subject, then by predicate and direction."""
    grouped: dict[Link, dict[tuple[Link, bool], list[Stated]]] = {}
    for fact in facts:
        values = grouped.setdefault(fact.subject, {}).setdefault((fact.predicate, fact.inverse), [])
        if (stated := (fact.object, fact.qualifiers, fact.indexes, fact.references)) not in values:
            values.append(stated)
    return grouped


def _row(depth: int, part: Link | str, shortens: bool, *, style: str = "", note: str = "", of: str = "") -> FactPart:
    name = line(part if isinstance(part, str) else part.label)
    label = Text.assemble((line(of), "dim"), name) if of else Text(name, style)
    label.append(note, "dim")
    if isinstance(part, str) or part.url is None:
        return FactPart(depth, label, None)
    shown = visible(part.id or "") if shortens else _address(part.url)
    return FactPart(depth, label, Text(shown, Style(dim=True, link=visible(part.url)), no_wrap=True))


def _line(row: FactPart, label_width: int, page_width: int) -> RenderableType:
    """Return a row with its page in a second column; a label without a page has the whole width."""
    indented = Padding(row.label, (0, 0, 0, INDENT * row.depth), expand=False)
    if row.page is None:
        return indented
    grid = Table.grid(padding=(0, GAP, 0, 0))
    grid.add_column(width=label_width, overflow="fold")
    grid.add_column(width=page_width)
    grid.add_row(indented, row.page)
    return grid


def _address(url: str) -> str:
    """Return the address to show, without `https://www.`; its link has the whole address."""
    return visible(url).removeprefix("https://www.")


class TerminalText:
    """The text of an answer while it is generated, with a status line: its last lines. Call `add` within `live`."""

    def __init__(self, console: Console, marker: str) -> None:
        self._console, self._marker = console, marker
        self._written, self._fact = Text(), ""
        self.reads, self.facts, self.tokens = True, 0, 0
        self._begun = self._thinks = False
        self._started = time.monotonic()

    @contextmanager
    def live(self) -> Iterator[Live]:
        """Redraw the text during the block, and remove it at its end: the answer, its proof first, takes its place."""
        with Live(
            console=self._console, get_renderable=self._render, refresh_per_second=REFRESH_RATE, transient=True
        ) as drawn:
            yield drawn

    def add(self, piece: TextPiece) -> None:
        text = visible(piece.text)
        if self._thinks and not piece.in_thought:  # the answer begins as a text does
            self._written.append("\n")
            self._begun = False
        self._thinks = piece.in_thought
        if not self._begun:  # an answer's text has no leading white space
            text = text.lstrip()
            self._begun = bool(text)
        style = THOUGHT if piece.in_thought else ""
        if not piece.in_fact:
            self._written.append(text, style)
            return
        self._fact += text.replace("\n", " ")  # a fact is one line, whoever made the index
        if piece.completes:
            self._written.append(self._fact, style or FACT)
            self._fact = ""
            self.facts += 1

    def _render(self) -> Group:
        tokens = counted(self.tokens, "token") if self.tokens else READING
        status = f"{tokens}, {counted(self.facts, 'fact')}, {time.monotonic() - self._started:.0f} s"
        written = self._written.copy().append(self._fact, UNFINISHED)
        lines = [_marked(one, self._marker) for one in written.split("\n", allow_blank=True)]
        shown = [part for one in lines for part in one.wrap(self._console, self._console.width)]
        return Group(*shown[2 - max(3, self._console.height) :], Text(status, style="dim"))


def _marked(text: Text, marker: str) -> Text:
    """Return the line, bold if it holds the answer."""
    if text.plain.lstrip(" *").startswith(marker):
        text.stylize(ANSWER)
    return text


def terminal(**options: Any) -> Console:
    """Return a console for standard output that prints texts as they are, without markup or emoji codes."""
    return Console(highlight=False, markup=False, emoji=False, **options)


def print_answer(console: Console, answer: Answer, marker: str, *, free: bool = False) -> None:
    """Print an answer, the facts that prove it, and how many were only tried: the whole text if there is neither."""
    if answer.answer and answer.evidence:
        console.print(Text(f"{marker} {line(answer.answer)}", ANSWER))
    elif answer.text:
        for written in _with_facts(answer).split("\n", allow_blank=True):
            console.print(_marked(written, marker))
    if not answer.answer and not ending(answer):
        console.print(Text(f"{marker} (the model came to no answer)", ANSWER))
    for note in notes(answer, free=free):
        console.print(Text(note, style="yellow"))
    for query in answer.queries:
        console.print(Text(f"Query: {line(query.line)}", "dim"))
    if proof := [one.fact for one in answer.evidence if one.proves]:
        console.print()
        console.print(fact_tree(proof[:MOST_PROOF], console.width))
    if left_out := left_out_of(answer):
        console.print()
        console.print(Text(left_out, "dim"))
    console.print()


def print_question(console: Console, question: str) -> None:
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


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns True after the first Ctrl-C within the block.

    The second Ctrl-C raises KeyboardInterrupt, as Ctrl-C outside the block does. Use it in the main thread only.
    """
    requested = False

    def request(number: int, frame: FrameType | None) -> None:
        nonlocal requested
        if requested:
            raise KeyboardInterrupt
        requested = True

    before = signal.signal(signal.SIGINT, request)
    try:
        yield lambda: requested
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """An asker and how to ask it. `free`: without facts; `marker`: the text before the final answer (`Answer:`)."""

    asker: "Asker | CheckedAsker"
    options: Generation
    free: bool
    marker: str

    @property
    def streams(self) -> bool:
        """Whether the text can be shown while it is written: beams may change what was written."""
        return self.asker.streams and self.options.num_beams == 1

    def ask(self, question: str, history: Sequence[Example], view: "Reader") -> Answer:
        """Ask, and pass the text to `view` while it is written; Ctrl-C ends the generation."""
        streamer = (
            self.asker.stream(view.add, self.free, think=self.options.think) if self.streams and view.reads else None
        )
        prompt_length, due = 0, 0.0  # of the next count of facts, if no streamer counts them

        with interruptible() as interrupted:

            def until(ids: Any) -> bool:
                nonlocal prompt_length, due
                view.tokens += 1
                prompt_length = prompt_length or ids.shape[1] - 1
                if streamer is None and view.reads and not self.free and time.monotonic() > due:
                    view.facts = self.asker.count_facts(ids[0].tolist(), prompt_length)
                    due = time.monotonic() + _COUNT_INTERVAL
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


class View(Protocol):
    """A way to ask questions and to show answers."""

    def ask(self, question: str, history: Sequence[Example] = ()) -> Answer:
        """Ask a question and show its answer."""

    def show(self, answer: Answer, error: str = "") -> None:
        """Show a finished answer, or one that `error` ended early."""


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
        self._bar.set_description("", refresh=False)
        self._bar.set_postfix(facts=self.facts, refresh=False)
        self._bar.update(count - self._tokens)
        self._tokens = count

    def add(self, piece: TextPiece) -> None:
        self.facts += piece.completes


class _TextStream:
    """Standard output, to which a text is written as it comes."""

    def __init__(self) -> None:
        self.reads, self.facts, self.tokens, self._begun = True, 0, 0, False

    def add(self, piece: TextPiece) -> None:
        text = visible(piece.text) if self._begun else visible(piece.text).lstrip()
        self._begun = self._begun or bool(text)
        click.echo(text, nl=False)


class StreamView:
    """The text of each answer as it is written, for programs."""

    def __init__(self, asking: "Asking") -> None:
        self._asking = asking

    def ask(self, question: str, history: Sequence[Example] = ()) -> Answer:
        answer = self._asking.ask(question, history, _TextStream())
        self.show(answer)
        return answer

    def show(self, answer: Answer, error: str = "") -> None:
        """End the text; print all of it if it could not be shown while it was written."""
        click.echo("" if self._asking.streams else visible(answer.text))
        if note := ending(answer):
            click.echo(note)


class LineView:
    """Plain lines, or JSON lines, for programs and files."""

    def __init__(self, asking: Asking, as_json: bool) -> None:
        self._asking, self._as_json = asking, as_json

    def ask(self, question: str, history: Sequence[Example] = ()) -> Answer:
        with shown(self.show), tqdm(desc=READING, unit=" tokens", disable=None, leave=False) as bar:
            answer = self._asking.ask(question, history, _Bar(bar))
        self.show(answer)
        return answer

    def show(self, answer: Answer, error: str = "") -> None:
        """Print an answer; if `error` ended it early, JSON has that as a field."""
        if self._as_json:
            print_json(to_json(answer_document(answer)) | ({"error": error} if error else {}))
        else:
            click.echo(plain(answer, free=self._asking.free))


class TerminalView:
    """Answers on a terminal. `asks`: whether to show each question too."""

    def __init__(self, asking: Asking, asks: bool = True) -> None:
        self._asking, self._asks, self._console = asking, asks, terminal()

    def ask(self, question: str, history: Sequence[Example] = ()) -> Answer:
        if self._asks:
            print_question(self._console, question)
        text = TerminalText(self._console, self._asking.marker)

        def show_rest(answer: Answer, _: str = "") -> None:
            print_answer(self._console, answer, self._asking.marker, free=self._asking.free)

        with shown(show_rest), text.live():
            answer = self._asking.ask(question, history, text)
        show_rest(answer)
        return answer

    def show(self, answer: Answer, error: str = "") -> None:
        """Show the answer with its question; the command line prints `error`, which ended it early, after it."""
        print_question(self._console, answer.question)
        print_answer(self._console, answer, self._asking.marker, free=self._asking.free)


def view_of(asking: Asking, as_json: bool, asks: bool = True, streams: bool = False) -> View:
    """Return the view for standard output: JSON or plain lines, a text as it is written (`streams`), or a `TerminalView` if
    it is a terminal."""
    if not as_json and sys.stdout.isatty():
        return TerminalView(asking, asks)
    return StreamView(asking) if streams else LineView(asking, as_json)


def ask_many(
    asking: Asking, view: View, questions: Sequence[str], batch_size: int, on_error: Callable[[str, InputError], object]
) -> bool:
    """Ask `batch_size` questions at a time and show the answers in order. Call `on_error` for one that cannot be asked.

    Returns whether all were asked: Ctrl-C ends those that are being written, shows them, and leaves out the later ones.
    """
    with (
        shown(view.show),
        progress_bar("answers", len(questions), unit=" questions", leave=False) as bar,
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
            with bar.external_write_mode():  # the bar is hidden while answers are printed
                if isinstance(answer, InputError):
                    on_error(question, answer)
                else:
                    facts += len(answer.facts)
                    view.show(answer)
            bar.update()
        return not interrupted()


@contextmanager
def shown(show: Callable[[Answer, str], object]) -> Iterator[None]:
    """If an error leaves the block, call `show` for each answer that it ended early, with the text of the error."""
    try:
        yield
    except RefactxError as error:
        for answer in error.partial.answers if error.partial else ():
            show(answer, without_password(str(error)))
        raise
