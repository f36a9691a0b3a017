"""The table of weights in docs/explanation/choosing-facts.md is that of the code."""

from pathlib import Path

from refactx.options import options_of
from refactx.selection.weights import Weights

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "choosing-facts.md"


def weights_table() -> str:
    rows = [f"| `{name}` | {getattr(Weights(), name):g} | {one.help} |" for name, one in options_of(Weights).items()]
    return "\n".join(["| weight | value | for what |", "|---|---|---|", *rows])


def test_the_page_has_the_weights_as_they_are() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert weights_table() in text, f"write this table there:\n{weights_table()}"
