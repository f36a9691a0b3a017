"""What people see on a terminal, looked at on a screen: facts blue and underlined, the answer bold, a table of links."""

import io
import re
from dataclasses import replace
from typing import Any

import pyte
import pytest
from rich.console import Console
from test_asker import ANSWER, BERN, WIKI, tiny_asker

from refactx.asking.answer import Answer
from refactx.cli.terminal import TerminalText, print_answer, print_question, terminal
from refactx.decoding.stream import Piece


class Screen:
    """A terminal in memory. `written`: all that it got, escape codes and all."""

    def __init__(self, width: int = 90) -> None:
        self._file, self._width = io.StringIO(), width
        self.console: Console = terminal(file=self._file, force_terminal=True, width=width, color_system="standard")

    @property
    def written(self) -> str:
        return self._file.getvalue()

    def look(self) -> Any:
        screen = pyte.Screen(self._width, 60)
        screen.set_mode(pyte.modes.LNM)
        pyte.Stream(screen).feed(re.sub("\x1b]8;.*?\x1b\\\\", "", self.written))
        return screen

    @property
    def lines(self) -> list[str]:
        return [row.rstrip() for row in self.look().display]

    def style(self, text: str) -> tuple[str, bool, bool]:
        """Colour, underlined, bold: of the last place where the text stands, all of it alike."""
        screen = self.look()
        rows = [n for n, row in enumerate(screen.display) if text in row]
        start = screen.display[rows[-1]].index(text)
        cells = [screen.buffer[rows[-1]][column] for column in range(start, start + len(text))]
        (style,) = {(cell.fg, cell.underscore, cell.bold) for cell in cells}
        return style


def pieces(text: TerminalText, *parts: str) -> None:
    for part in parts:
        text.add(Piece(part, in_fact="<" in part or part == " .", completes=part == " ."))


def test_a_fact_is_blue_from_when_it_is_complete() -> None:
    screen = Screen()
    text = TerminalText(screen.console, "Answer:")
    with text.live():
        pieces(text, "\n I", " look.\nFact:", " <Switzerland>", " <capital>")
        text._live.refresh()  # type: ignore[union-attr]
        assert screen.lines[:2] == ["I look.", "Fact: <Switzerland> <capital>"]
        assert screen.lines[2] == "0 tokens, 0 facts, 0 s"
        assert screen.style("<Switzerland> <capital>") == ("default", True, False)
        pieces(text, " <Bern>", " .")
        text._live.refresh()  # type: ignore[union-attr]
        assert screen.style("<Switzerland> <capital> <Bern> .") == ("blue", True, False)
        pieces(text, "\nThe capital is Bern.\nAnswer: Be", "rn")
    assert screen.lines[:5] == [
        "I look.",
        "Fact: <Switzerland> <capital> <Bern> .",
        "The capital is Bern.",
        "Answer: Bern",
        "",
    ]
    assert screen.style("<Switzerland> <capital> <Bern> .") == ("blue", True, False)
    assert screen.style("The capital is Bern.") == ("default", False, False)
    assert screen.style("Answer: Bern") == ("default", False, True)


def test_the_facts_stand_in_a_table_with_their_pages() -> None:
    screen = Screen()
    print_question(screen.console, ANSWER.question)
    print_answer(screen.console, ANSWER, "Answer:", was_streamed=False)
    assert screen.lines[:15] == [
        "What[2J is it?",
        "",
        "I look.",
        "Fact: <Switzerland> <capital> <Bern> .",
        "Fact: <Switzerland> <inception> <1291> .",
        "Answer: Bern",
        "",
        "   subject                predicate                       object",
        "1  Switzerland            capital                         Bern",
        "   wikidata.org/wiki/Q39  wikidata.org/wiki/Property:P36  wikidata.org/wiki/Q70",
        "2  Switzerland            inception (inverse)             1291",
        "   wikidata.org/wiki/Q39",
        "",
        "",
        "",
    ]
    for fact in ANSWER.facts:
        assert screen.style(fact.text) == ("blue", True, False)
    assert f";{WIKI}Property:P36\x1b\\" in screen.written, "the whole address is behind the short one"
    assert "\x07" not in screen.written


def test_where_there_is_no_room_for_addresses_the_ids_lead_to_the_pages() -> None:
    screen = Screen(70)
    print_answer(screen.console, ANSWER, "Answer:", was_streamed=True)
    assert screen.lines[1:6] == [
        "   subject      predicate            object",
        "1  Switzerland  capital              Bern",
        "   Q39          P36                  Q70",
        "2  Switzerland  inception (inverse)  1291",
        "   Q39",
    ]
    assert f";{WIKI}Property:P36\x1b\\" in screen.written


def test_behind_a_streamed_text_nothing_is_said_twice() -> None:
    screen = Screen()
    print_answer(screen.console, replace(ANSWER, answer="Bern", text="Answer: Bern"), "Answer:", was_streamed=True)
    assert "Bern" not in screen.lines[0]
    assert not any(row.startswith("Answer:") for row in screen.lines)


@pytest.mark.parametrize(
    ("reason", "answer", "expected"),
    [
        ("stop", "", "Answer: (the model came to no answer)"),
        ("stop", "Bern", "Answer: Bern"),
        ("length", "", "(cut off after 9 tokens: see --max-new-tokens)"),
        ("interrupted", "", "(interrupted)"),
    ],
)
def test_how_an_answer_ended_is_told(reason: Any, answer: str, expected: str) -> None:
    screen = Screen()
    ended = Answer("Q?", answer, "Answer: Bern\nAnd so on", (), (), 9, 9, 0.1, finish_reason=reason)
    print_answer(screen.console, replace(ended, text="So") if not answer else ended, "Answer:", was_streamed=True)
    assert [row for row in screen.lines if row] == [expected]


@pytest.mark.parametrize("free", [False, True])
def test_the_pieces_of_a_stream_are_the_text(free: bool) -> None:
    asker, got = tiny_asker(), list[Piece]()
    answer = asker.ask("Fact:", max_new_tokens=60, free=free, streamer=asker.stream(got.append, free))
    assert "".join(piece.text for piece in got).strip() == answer.text
    facts = "".join(piece.text + "\n" * piece.completes for piece in got if piece.in_fact)
    assert [fact.strip() for fact in facts.splitlines()][: len(answer.facts)] == [fact.text for fact in answer.facts]
    assert sum(piece.completes for piece in got) == len(answer.facts)
    assert bool(answer.facts) != free
    assert BERN.text not in facts
