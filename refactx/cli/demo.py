"""`make demo`: the whole job on the committed sample of Wikidata, with a model small enough for any machine."""

import os
import sys
from importlib.resources import as_file, files

import click

from refactx.asking.asker import Asker
from refactx.asking.options import Generation
from refactx.asking.prompt import load_prompt
from refactx.cli.views import Asking, view_of
from refactx.connect import database, open_index
from refactx.errors import IndexNotFoundError, RefactxError
from refactx.index.index import find_index
from refactx.models.demo import demo_model_folder
from refactx.models.loading import load_model, load_tokenizer
from refactx.paths import refactx_home
from refactx.postgres.database import Database

INDEX = "demo"
QUESTIONS = (
    "What is the capital of Alaska?",
    "When did Vincent van Gogh die?",
    "Who is the spouse of John Lennon?",
)


def main() -> None:
    """Get the model, build the index if it is not there yet, and ask."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # see refactx.cli.main.main
    try:
        model = str(demo_model_folder())
        # The server is held for the whole demo: it would stop and start between the steps otherwise.
        with database() as opened:
            try:
                find_index(opened, INDEX)
            except IndexNotFoundError:
                _ingest(opened, model)
            _ask(model)
    except RefactxError as error:
        click.echo(f"refactx: {error}", err=True)
        sys.exit(2)


def _ingest(database: Database, model: str) -> None:
    from refactx.ingest.new_index import Options, ingest

    tokenizer, _ = load_tokenizer(model)
    sample = files("refactx") / "data" / "wikidata-sample.nt.gz"
    with as_file(sample) as path:
        options = Options(INDEX, tokenizer, "SmolLM2-135M-Instruct")
        result = ingest([path], database, refactx_home() / "work", options)
    click.echo(f"Index {INDEX!r}: {result.report.facts:,} facts, {result.size / result.report.facts:.1f} bytes each.\n")


def _ask(model: str) -> None:
    click.echo("The demo model has 135 million parameters: its facts are true, its answers often are not.\n")
    with open_index(INDEX) as index:
        prompt = load_prompt()
        asker = Asker(*load_model(model), index, prompt)
        view = view_of(Asking(asker, Generation(max_new_tokens=120), free=False, marker=prompt.marker), as_json=False)
        for question in QUESTIONS:
            if view.ask(question).finish_reason == "interrupted":
                sys.exit(130)


if __name__ == "__main__":
    main()
