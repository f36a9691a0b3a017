"""`refactx ask`: answers to questions, with facts of an index as proof.

Earlier turns go into the prompt unchanged, with their facts. An answer may repeat a fact of an earlier turn, since each
answer needs its own proof. A turn that was interrupted or cut off is left out: the model would imitate half a fact.
"""

import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import click

from refactx.ask.prompt import Example
from refactx.cli.help import GroupedCommand
from refactx.cli.options import (
    BATCH_SIZE,
    DB,
    GENERATION_GROUPS,
    INDEX,
    JSON,
    MACHINE_GROUP,
    MODEL,
    PROMPT,
    SERVED,
    WEIGHTS,
    engine_options,
    engine_options_of,
    generation_of,
    generation_options,
    print_json,
    server_options,
)
from refactx.cli.views import View
from refactx.errors import InputError, RefactxError, without_password

CHAT_HELP = "/new begins a new conversation, /quit or Ctrl-D ends it; Ctrl-C ends an answer"
_PROMPT = "> "


@click.command(
    cls=GroupedCommand,
    groups={**GENERATION_GROUPS, "Database and machine": (*MACHINE_GROUP, *SERVED)},
)
@click.argument("questions", nargs=-1, metavar="[QUESTION]...")
@MODEL
@INDEX
@click.option("--chat", is_flag=True, help="Hold a conversation: earlier turns are context.")
@click.option("--stream", is_flag=True, help="In a pipe: print the text as it is written.")
@click.option(
    "--file",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Read questions, one a line or JSON; -: stdin.",
)
@PROMPT
@WEIGHTS
@click.option("--free", is_flag=True, help="Ask the model alone, without an index.")
@generation_options
@server_options
@JSON
@DB
@BATCH_SIZE
@engine_options
def ask(
    questions: tuple[str, ...],
    model: str,
    index: str,
    db: str | None,
    chat: bool,
    stream: bool,
    file: Path | None,
    batch_size: int,
    prompt: str | None,
    weights: Path | None,
    ranker: str | None,
    free: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Answer questions with facts of an index as proof.

    The answer comes first, then the facts that prove it, with their pages. On a terminal, the text is seen while it is
    written. Ctrl-C ends the answer, prints what is there, and exits with code 130; --chat then continues.
    """
    from refactx.ask.examples import prompt_for
    from refactx.ask.prompt import check_prompt, load_prompt, prompt_of
    from refactx.index.open import open_index

    asked = prompt or prompt_of(given["adapter"], model)
    generation, template = generation_of(given), load_prompt(asked or "wikidata").weighted(weights, ranker)
    engine = engine_options_of(given, batch_size, generation.num_beams)
    _check_together(chat, stream, file is not None or batch_size > 1, as_json)
    for question in questions:
        template.messages(question)  # reports an empty question before anything is loaded
    texts = list(questions)
    if file is not None:
        from refactx.eval.questions import read_texts

        texts += read_texts(file)
    if not texts and not chat:
        raise InputError("there is no question: give one in quotes, or --file FILE, or --chat")
    with ExitStack() as stack:
        is_served = engine.server is not None and engine.server.model_url is not None
        opened = None if free and not is_served else stack.enter_context(open_index(index, db))
        template = prompt_for(asked, opened).weighted(weights, ranker)
        notes = check_prompt(template, opened) if opened else []
        from refactx.ask.checked import asker_of
        from refactx.cli.views import Asking, ask_many, view_of

        def say(text: str) -> None:
            click.echo(f"refactx: {text}", err=True)

        asker, usage = asker_of(model, opened, engine, template, say)
        if usage is not None and not as_json:
            stack.callback(lambda: click.echo(f"({usage})", err=True))
        asking = Asking(asker=asker, options=generation, free=free, marker=template.marker)
        for note in notes if prompt and prompt.endswith(".toml") else []:  # the built-in prompts go with any index
            say(note)
        view = view_of(asking, as_json, asks=not chat, streams=stream)
        if chat:
            return converse(view, texts)
        if file is None and batch_size == 1:
            for text in texts:
                if view.ask(text).finish_reason == "interrupted":
                    raise click.Abort
            return None
        failed: list[tuple[str, InputError]] = []

        def report(question: str, error: InputError) -> None:
            failed.append((question, error))
            if as_json:
                print_json({"question": question, "error": str(error)})

        if not ask_many(asking, view, texts, batch_size, report):
            raise click.Abort
    if failed:
        raise InputError(
            f"{len(failed)} of {len(texts)} questions cannot be asked; the first is {failed[0][0]!r}: {failed[0][1]}"
        )
    return None


def _check_together(chat: bool, stream: bool, is_many: bool, as_json: bool) -> None:
    if chat and is_many:
        raise InputError(
            "--chat was given with --file or --batch-size: leave them out, a conversation asks one question at a time"
        )
    if stream and (is_many or as_json):
        raise InputError(
            "--stream was given with --file, --batch-size or --json: leave them out, it shows a text at a time"
        )


def converse(view: View, questions: Sequence[str] = ()) -> None:
    """Ask `questions`, then those on standard input, each after the earlier turns."""
    with suppress(ImportError):
        import readline  # noqa: F401  (gives input() a history and editing keys)

    waiting, history = list(questions), list[Example]()
    if sys.stdin.isatty():
        click.echo(CHAT_HELP, err=True)
    while (text := waiting.pop(0) if waiting else _read()) is not None:
        match text.strip():
            case "":
                continue
            case "/quit" | "/exit":
                return
            case "/new":
                history.clear()
                click.echo("a new conversation", err=True)
            case command if command.startswith("/"):
                click.echo(CHAT_HELP, err=True)
            case question:
                _turn(view, question, history)


def _turn(view: View, question: str, history: list[Example]) -> None:
    try:
        answer = view.ask(question, history)
    except RefactxError as error:
        click.echo(f"refactx: {without_password(str(error))}", err=True)
        return
    if answer.turns_left_out:
        del history[: answer.turns_left_out]
        turns = "1 earlier turn was" if answer.turns_left_out == 1 else f"{answer.turns_left_out} earlier turns were"
        click.echo(f"({turns} left out: they exceed the context of the model)", err=True)
    if answer.finish_reason == "stop":
        history.append(Example(question, answer.text))


def _read() -> str | None:
    """Return the next line; None at the end. Ctrl-C begins the line again."""
    while True:
        try:
            if not sys.stdin.isatty():
                return input()
            if sys.stdout.isatty():
                return input(_PROMPT)
            click.echo(_PROMPT, nl=False, err=True)
            return input()
        except UnicodeDecodeError as error:
            raise InputError(f"standard input is not text in UTF-8: {error}") from None
        except EOFError:
            if sys.stdin.isatty():
                click.echo(err=True)
            return None
        except KeyboardInterrupt:
            click.echo(f"\n{CHAT_HELP}", err=True)
