"""`make demo`: an index of the sample of Wikidata and three answers, by a model small enough for any machine."""

import os
import sys
from importlib.resources import as_file, files

import click

from refactx.ask.asker import Asker
from refactx.ask.prompt import Generation, load_prompt
from refactx.cli.views import Asking, view_of
from refactx.engines.language_models import load_language_model
from refactx.errors import IndexNotFoundError, RefactxError
from refactx.fact import counted
from refactx.index.open import database, open_index
from refactx.models import demo_model_folder
from refactx.models.loading import DEMO, load_tokenizer
from refactx.paths import WORK, refactx_home
from refactx.postgres.catalogue import find_index
from refactx.postgres.database import Database

INDEX = "demo"
QUESTIONS = ("What is the capital of Alaska?", "When did Vincent van Gogh die?", "Who is the spouse of John Lennon?")


def main() -> None:
    """Download the model, build the index unless it exists, and ask the questions."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # see refactx.cli.main.main
    try:
        model = str(demo_model_folder())
        # Open for the whole demo: otherwise the server would stop and start between the steps.
        with database() as opened:
            try:
                find_index(opened, INDEX)
                click.echo(f"Index {INDEX!r} is there and is used; `refactx index drop {INDEX}` removes it.\n")
            except IndexNotFoundError:
                _ingest(opened, model)
            _ask(DEMO)
    except RefactxError as error:
        click.echo(f"refactx: {error}", err=True)
        sys.exit(2)


def _ingest(database: Database, model: str) -> None:
    from refactx.ingest import ingest

    tokenizer, _ = load_tokenizer(model)
    sample = files("refactx") / "data" / "wikidata-sample.nt.gz"
    with as_file(sample) as path:
        result = ingest(
            [path],
            database,
            index=INDEX,
            tokenizer=tokenizer,
            tokenizer_name="SmolLM2-135M-Instruct",
            work=refactx_home() / WORK,
        )
    facts = result.report.facts
    click.echo(f"Index {INDEX!r}: {counted(facts, 'fact')}, {result.size / facts:.1f} bytes each.\n")


def _ask(model: str) -> None:
    click.echo("The demo model has 135 million parameters: its facts are true, its\nanswers often are not.\n")
    with open_index(INDEX) as index:
        prompt = load_prompt()
        loaded = load_language_model(model, index)
        asker = Asker(loaded, loaded.tokenizer, index, prompt)
        view = view_of(
            Asking(asker=asker, options=Generation(max_new_tokens=120), free=False, marker=prompt.marker), as_json=False
        )
        for question in QUESTIONS:
            if view.ask(question).finish_reason == "interrupted":
                sys.exit(130)
    click.echo(
        "Ask your own questions about this sample, or build an index of your facts:\n\n"
        f'  .venv/bin/refactx ask "QUESTION" --model demo --index {INDEX}\n'
        "  .venv/bin/refactx ingest FILE --tokenizer demo\n"
    )


if __name__ == "__main__":
    main()
