"""`refactx ask`: questions → answers, with facts of the index as proof."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import click

from refactx.cli.options import (
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
from refactx.errors import InputError


@click.command()
@click.argument("questions", nargs=-1, metavar="[QUESTION]...")
@MODEL
@INDEX
@DB
@click.option("--chat", is_flag=True, help="A conversation: each question with the turns before it.")
@click.option(
    "--file",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Questions, one a line, or JSON as `eval` reads it; - is standard input.",
)
@click.option("--batch-size", default=1, show_default=True, type=click.IntRange(1), help="Questions asked at a time.")
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
    chat: bool,
    file: Path | None,
    batch_size: int,
    prompt: str,
    dtype: str,
    device: str,
    free: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Answer QUESTIONs with facts of the index as proof. On a terminal answers appear as they are written.

    Ctrl-C ends an answer: what was written is printed, and the exit code is 130 (with --chat the conversation goes on).
    """
    from refactx.asking.prompt import load_prompt
    from refactx.asking.prompt_check import check_prompt
    from refactx.connect import open_index

    generation, template = generation_of(given), load_prompt(prompt)
    if chat and (file is not None or batch_size > 1):
        raise InputError("--chat asks one question after the other: leave out --file and --batch-size")
    for question in questions:
        template.messages(question)  # an empty one is told before anything is loaded
    texts = [*questions, *(_texts(file) if file is not None else [])]
    if not texts and not chat:
        raise InputError("there is no question: give one in quotes, or --file, or --chat")
    with ExitStack() as stack:
        opened = None if free else stack.enter_context(open_index(index, db))
        notes = check_prompt(template, opened) if opened else []
        from refactx.asking.asker import Asker
        from refactx.cli.chat import chat as converse
        from refactx.cli.views import Asking, ask_many, view_of
        from refactx.engines.hf.processor import check_tokenizer
        from refactx.models.loading import load_model

        check = partial(check_tokenizer, opened) if opened else lambda tokenizer: None
        asker = Asker(*load_model(model, device, dtype, check=check), opened, template)
        asking = Asking(asker, generation, free, template.marker)
        for note in notes if prompt.endswith(".toml") else []:  # ours serve any index
            click.echo(f"refactx: {note}", err=True)
        view = view_of(asking, as_json, asks=not chat)
        if chat:
            return converse(view, texts)
        if file is None and batch_size == 1:
            for text in texts:
                if view.ask(text).finish_reason == "interrupted":
                    raise click.Abort
            return None
        failed: list[tuple[str, InputError]] = []

        def tell(question: str, error: InputError) -> None:
            failed.append((question, error))
            if as_json:
                print_json({"question": question, "error": str(error)})

        if not ask_many(asking, view, texts, batch_size, tell):
            raise click.Abort
    if failed:
        raise InputError(
            f"{len(failed)} of {len(texts)} questions cannot be asked, such as {failed[0][0]!r}: {failed[0][1]}"
        )
    return None


def _texts(file: Path) -> list[str]:
    from refactx.eval.questions import read_texts

    return read_texts(file)
