"""`refactx ask`: questions → answers, with facts of the index as proof."""

import sys
from contextlib import ExitStack
from functools import partial
from typing import Any

import click

from refactx.cli_options import (
    DB,
    DEVICE,
    DTYPE,
    INDEX,
    JSON,
    MODEL,
    PROMPT,
    generation_of,
    generation_options,
    print_json,
)
from refactx.cli_so_far import shown_so_far


@click.command()
@click.argument("questions", nargs=-1, required=True, metavar="QUESTION...")
@MODEL
@INDEX
@DB
@PROMPT
@generation_options
@DTYPE
@DEVICE
@click.option("--free", is_flag=True, help="The same model and prompt without constraint (no index is read).")
@JSON
def ask(
    questions: tuple[str, ...],
    model: str,
    index: str,
    db: str | None,
    prompt: str,
    dtype: str,
    device: str,
    free: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Answer QUESTIONS with facts of the index as proof."""
    from tqdm import tqdm

    from refactx.connect import open_index
    from refactx.prompt import load_prompt

    generation, template = generation_of(given), load_prompt(prompt)
    for question in questions:
        template.messages(question)  # an empty one is told before anything is loaded
    with ExitStack() as stack:
        opened = None if free else stack.enter_context(open_index(index, db))
        from refactx.answer_text import render
        from refactx.ask import Asker
        from refactx.models import load_model
        from refactx.processor import check_tokenizer

        check = partial(check_tokenizer, opened) if opened else lambda tokenizer: None
        asker = Asker(*load_model(model, device, dtype, check=check), opened, template)
        for question in tqdm(questions, desc="questions", disable=None, leave=False):
            with shown_so_far(as_json):
                answer = asker.ask(question, generation, free=free)
            if as_json:
                print_json(answer.to_json())
            else:
                click.echo(render(answer, color=sys.stdout.isatty()))
