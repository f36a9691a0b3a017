"""`python -m bench.picture QUESTION --model MODEL [--index NAME] --out FILE`: an answer on a terminal as an SVG.

It made the picture of the README, docs/images/answer.svg.
"""

import io
import re
from pathlib import Path

import click

from refactx.ask.asker import Asker
from refactx.ask.prompt import Generation, load_prompt
from refactx.cli.views import print_answer, print_question, terminal
from refactx.index.open import open_index
from refactx.models.loading import load_model

WIDTH = 100
"""Columns of the terminal."""


@click.command()
@click.argument("question")
@click.option("--model", required=True, help="Hugging Face id, folder or GGUF file; or demo.")
@click.option("--index", default="default", show_default=True)
@click.option("--out", required=True, type=click.Path(path_type=Path))
def main(question: str, model: str, index: str, out: Path) -> None:
    """Ask a question, and write what a terminal shows to an SVG."""
    prompt, loaded = load_prompt(), load_model(model)
    with open_index(index) as opened:
        answer = Asker(loaded[0], loaded[1], opened, prompt).ask(question, Generation(max_new_tokens=200))
    console = terminal(record=True, width=WIDTH, force_terminal=True, file=io.StringIO())
    print_question(console, question)
    print_answer(console, answer, prompt.marker)
    out.parent.mkdir(parents=True, exist_ok=True)
    svg = console.export_svg(title="refactx ask", unique_id="answer")
    # Without Rich's fonts, which would be loaded from a server: the viewer's monospace font is enough.
    out.write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL), encoding="utf-8")
    click.echo(answer.text)


if __name__ == "__main__":
    main()
