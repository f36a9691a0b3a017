"""An answer on a terminal of pyte: facts blue and underlined, the answer bold, the facts grouped with their links."""

import io
import re
from dataclasses import replace
from typing import Any

import pyte
import pytest
from rich.console import Console
from support.tiny_asker import ANSWER, BERN, WIKI, tiny_asker

from refactx.ask.answer import Answer
from refactx.ask.prompt import Generation
from refactx.cli.views import Asking, StreamView, TerminalText, fact_tree, plain, print_answer, print_question, terminal
from refactx.decoding.stream import TextPiece
from refactx.fact import Link, LinkedFact, visible
from refactx.walks import AnsweredQuery, Result, read_line


class Screen:
    """A terminal in memory. `written`: everything sent to it, with escape codes."""

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
        """Colour, underlined and bold of the last occurrence of the text, which has one style."""
        screen = self.look()
        rows = [n for n, row in enumerate(screen.display) if text in row]
        start = screen.display[rows[-1]].index(text)
        cells = [screen.buffer[rows[-1]][column] for column in range(start, start + len(text))]
        (style,) = {(cell.fg, cell.underscore, cell.bold) for cell in cells}
        return style


def pieces(text: TerminalText, *parts: str) -> None:
    for part in parts:
        text.add(TextPiece(part, in_fact="<" in part or part == " .", completes=part == " ."))


def test_a_fact_is_blue_once_it_is_complete_and_the_text_goes_when_it_has_ended() -> None:
    screen = Screen()
    text = TerminalText(screen.console, "Answer:")
    with text.live() as drawn:
        pieces(text, "\n I", " look.\nFact:", " <Switzerland>", " <capital>")
        drawn.refresh()
        assert screen.lines[:2] == ["I look.", "Fact: <Switzerland> <capital>"]
        assert screen.lines[2] == "reading the prompt, 0 facts, 0 s"
        assert screen.style("<Switzerland> <capital>") == ("default", True, False)
        pieces(text, " <Bern>", " .")
        drawn.refresh()
        assert screen.style("<Switzerland> <capital> <Bern> .") == ("blue", True, False)
        pieces(text, "\nThe capital is Bern.\nAnswer: Be", "rn")
        drawn.refresh()
        assert screen.lines[2:4] == ["The capital is Bern.", "Answer: Bern"]
        assert screen.style("The capital is Bern.") == ("default", False, False)
        assert screen.style("Answer: Bern") == ("default", False, True)
    assert not any(screen.lines)


def test_the_end_of_a_long_text_is_seen_while_it_is_written() -> None:
    screen = Screen()
    text = TerminalText(screen.console, "Answer:")
    with text.live() as drawn:
        pieces(text, *(f"line {number}\n" for number in range(500)))
        drawn.refresh()
        shown = [row for row in screen.lines if row]
        assert shown[-2] == "line 499"
        assert len(shown) < screen.console.height


def test_the_answer_comes_first_and_below_it_its_proof_once() -> None:
    screen = Screen()
    print_question(screen.console, ANSWER.question)
    print_answer(screen.console, ANSWER, "Answer:")
    assert screen.lines[:11] == [
        "What[2J is it?",
        "",
        "Answer: Bern",
        "",
        "Switzerland  wikidata.org/wiki/Q39",
        "  capital    wikidata.org/wiki/Property:P36",
        "    Bern     wikidata.org/wiki/Q70",
        "",
        "(besides: 1 other fact tried; --json shows all)",
        "",
        "",
    ]
    assert screen.style("Answer: Bern") == ("default", False, True)
    assert f";{WIKI}Property:P36\x1b\\" in screen.written, "the link leads to the whole address"
    assert "\x07" not in screen.written
    assert "Fact:" not in screen.written


def test_an_answer_without_proof_says_so() -> None:
    alone = replace(ANSWER, text="So.\nAnswer: Bern", facts=(), links=())
    note = "(no fact of the index proves this answer)"
    for said, free in ((alone, False), (replace(alone, unknown=True), False), (alone, True)):
        screen = Screen()
        print_answer(screen.console, said, "Answer:", free=free)
        assert [row for row in screen.lines if row][:2] == ["So.", "Answer: Bern"]
        is_told = not (free or said.unknown)
        assert (note in screen.lines, note in plain(said, free=free)) == (is_told, is_told)


def test_a_long_proof_is_cut_and_counted() -> None:
    facts = tuple(LinkedFact(Link("Ann"), Link("child"), Link(f"Bo {number}")) for number in range(50))
    listed = replace(ANSWER, answer="; ".join(f"Bo {number}" for number in range(50)), text="", facts=(), links=facts)
    assert plain(listed).count("<child>") == 20
    assert "(besides: 30 more facts as proof; --json shows all)" in plain(listed)


BOYLE, DIRECTED = Link("Danny Boyle", "Q103916"), Link("director of", "P57")
LONG = "A film with a title so long that no terminal of eighty columns shows it beside an address"


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (
            80,
            [
                "Danny Boyle                                       wikidata.org/wiki/Q103916",
                "  director of (inverse)                           wikidata.org/wiki/Property:P57",
                "    Slumdog Millionaire                           wikidata.org/wiki/Q201674",
                "    A film with a title so long that no terminal  wikidata.org/wiki/Q2",
                "    of eighty columns shows it beside an address",
                "  description",
                "    British",
                "Slumdog Millionaire                               wikidata.org/wiki/Q201674",
                "  director                                        wikidata.org/wiki/Property:P57",
                "    Danny Boyle                                   wikidata.org/wiki/Q103916",
            ],
        ),
        (
            40,
            [
                "Danny Boyle                      Q103916",
                "  director of (inverse)          P57",
                "    Slumdog Millionaire          Q201674",
                "    A film with a title so long  Q2",
                "    that no terminal of eighty",
                "    columns shows it beside an",
                "    address",
                "  description",
                "    British",
                "Slumdog Millionaire              Q201674",
                "  director                       P57",
                "    Danny Boyle                  Q103916",
            ],
        ),
    ],
)
def test_facts_are_grouped_in_the_order_of_their_first_appearance(width: int, expected: list[str]) -> None:
    film = Link("Slumdog Millionaire", "Q201674")
    facts = [
        LinkedFact(BOYLE, DIRECTED, film, inverse=True),
        LinkedFact(film, Link("director", "P57"), BOYLE),
        LinkedFact(BOYLE, Link("description"), "British"),
        LinkedFact(BOYLE, DIRECTED, Link(LONG, "Q2"), inverse=True),
        LinkedFact(BOYLE, DIRECTED, film, inverse=True),
    ]
    screen = Screen(width)
    screen.console.print(fact_tree(facts, width))
    assert [row for row in screen.lines if row] == expected


def test_namesakes_are_two_subjects() -> None:
    screen = Screen(60)
    facts = [LinkedFact(Link("Springfield", id_), Link("in"), "x") for id_ in ("Q1", "Q2")]
    screen.console.print(fact_tree(facts, 60))
    assert [row.split() for row in screen.lines if "Springfield" in row] == [
        ["Springfield", "Q1"],
        ["Springfield", "Q2"],
    ]


def test_ids_replace_addresses_on_a_narrow_terminal() -> None:
    screen = Screen(60)
    print_answer(screen.console, ANSWER, "Answer:")
    assert screen.lines[2:5] == ["Switzerland  Q39", "  capital    P36", "    Bern     Q70"]
    assert f";{WIKI}Property:P36\x1b\\" in screen.written


@pytest.mark.parametrize(
    ("reason", "answer", "expected"),
    [
        ("stop", "", "Answer: (the model came to no answer)"),
        ("stop", "Bern", "Answer: Bern"),
        ("length", "", "(cut off after 9 tokens: see --max-new-tokens)"),
        ("interrupted", "", "(interrupted)"),
    ],
)
def test_an_answer_says_how_it_ended(reason: Any, answer: str, expected: str) -> None:
    screen = Screen()
    ended = Answer(
        question="Q?",
        answer=answer,
        text="Answer: Bern",
        facts=(),
        links=(),
        unknown=True,
        tokens=9,
        forward_passes=9,
        seconds=0.1,
        finish_reason=reason,
    )
    print_answer(screen.console, ended if answer else replace(ended, text=""), "Answer:")
    assert [row for row in screen.lines if row] == [expected]


@pytest.mark.parametrize("free", [False, True])
def test_the_pieces_of_a_stream_are_the_text(free: bool) -> None:
    asker, got = tiny_asker(), list[TextPiece]()
    answer = asker.ask("Fact:", max_new_tokens=60, free=free, streamer=asker.stream(got.append, free))
    assert "".join(piece.text for piece in got).strip() == answer.text
    facts = "".join(piece.text + "\n" * piece.completes for piece in got if piece.in_fact)
    assert [fact.strip() for fact in facts.splitlines()][: len(answer.facts)] == [fact.text for fact in answer.facts]
    assert sum(piece.completes for piece in got) == len(answer.facts)
    assert bool(answer.facts) != free
    assert BERN.text not in facts


def test_the_facts_that_prove_a_query_are_shown() -> None:
    query = AnsweredQuery(
        query=read_line("count <Switzerland> <capital>"),
        line="count <Switzerland> <capital>",
        sparql=None,
        result=Result(count=1),
        rows=(),
        facts=ANSWER.links[:1],
    )
    asked = replace(ANSWER, text="Query: count <Switzerland> <capital> .\nAnswer: 1", answer="1", facts=(), links=())
    answer = replace(asked, queries=(query,))
    screen = Screen()
    print_answer(screen.console, answer, "Answer:")
    shown = [line.split() for line in screen.lines]
    assert shown[:2] == [["Answer:", "1"], ["Query:", "count", "<Switzerland>", "<capital>"]]
    assert ["Switzerland", "wikidata.org/wiki/Q39"] in shown
    assert ["Bern", "wikidata.org/wiki/Q70"] in shown
    proof = f"<Switzerland> <capital> <Bern> .\n  {WIKI}Q39 {WIKI}Property:P36 {WIKI}Q70\n"
    assert plain(answer).endswith(f"Answer: 1\nQuery: count <Switzerland> <capital>\n{proof}")
    assert "Bern" not in plain(asked)
    urls = ("https://www.a.example/\x1b[31mx", "https://b.example/")
    sourced = replace(query, facts=(replace(ANSWER.links[0], references=urls),))
    screen = Screen()
    print_answer(screen.console, replace(asked, queries=(sourced,)), "Answer:")
    assert [row.strip() for row in screen.lines if " from " in row] == [
        "from a.example/[31mx",
        "from https://b.example/",
    ]
    assert ";https://b.example/\x1b\\" in screen.written
    said = f"{proof}  from https://www.a.example/[31mx https://b.example/\n"
    assert plain(replace(asked, queries=(sourced,))).endswith(said)


def test_a_thought_is_in_italics_while_it_is_written_and_counted_below_the_answer() -> None:
    screen = Screen()
    text = TerminalText(screen.console, "Answer:")
    with text.live() as drawn:
        for part in ("\nI look.\nFact:", " <a> <p> <b>", " .", "\nNo."):
            in_fact, ends = "<" in part or part == " .", part == " ."
            text.add(TextPiece(part, in_fact=in_fact, completes=ends, in_thought=True))
        pieces(text, "\n\nAnswer: b", ".")
        drawn.refresh()
        assert screen.lines[:5] == [
            "I look.",
            "Fact: <a> <p> <b> .",
            "No.",
            "Answer: b.",
            "reading the prompt, 1 fact, 0 s",
        ]
        assert screen.style("Answer: b.") == ("default", False, True)
        row = screen.look().buffer[2]
        assert (row[0].bold, row[0].italics) == (False, True)
    screen = Screen()
    print_answer(screen.console, replace(ANSWER, thought="Is it Bern?", thought_tokens=4), "Answer:")
    assert "(besides: 1 other fact tried, a thought of 4 tokens; --json shows all)" in screen.lines


def test_a_text_is_streamed_as_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    asking = Asking(
        asker=tiny_asker(), options=Generation(channel=False, max_new_tokens=60), free=False, marker="Answer:"
    )
    answer = StreamView(asking).ask("Fact:")
    assert capsys.readouterr().out.startswith(visible(answer.text))
