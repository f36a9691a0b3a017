"""The command `refactx query`."""

import sys
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from refactx.cli.help import GroupedCommand
from refactx.cli.options import DB, INDEX, JSON, PROMPT, engine_options, engine_options_of, print_json
from refactx.errors import InputError, RefactxError, without_password

if TYPE_CHECKING:
    from refactx.asking.asker import Asker

MACHINE = ("db", "engine", "dtype", "device", "gpu_layers", "threads", "context")


@click.command(cls=GroupedCommand, groups={"Database and machine": MACHINE})
@click.argument("questions", nargs=-1, metavar="[QUESTION]...")
@click.option("--model", metavar="MODEL", help="For questions in words: id, folder, GGUF; or demo.")
@INDEX
@click.option("--run/--no-run", default=True, help="Answer the query; default: on.")
@click.option("--explain", is_flag=True, help="Print all candidates for the query of a question.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most N rows and facts; default: 20, JSON: all.")
@PROMPT
@JSON
@DB
@engine_options
def query(
    questions: tuple[str, ...],
    model: str | None,
    index: str,
    db: str | None,
    run: bool,
    explain: bool,
    limit: int | None,
    prompt: str,
    as_json: bool,
    **given: Any,
) -> None:
    """Answer questions about sets of facts: how many, which ones, whether, the highest.

    A QUESTION in words needs --model, which chooses the query that it asks. A query such as `count <Louisiana>
    <nickname>` needs no model; a label or an alias in it stands for the entity with most facts. Without QUESTION, lines
    are read from the terminal, where Tab completes names; with - or from a pipe, each line is one question or query.
    """
    from refactx.asking.prompt import load_prompt
    from refactx.cli.query.reading import read_piped, read_typed
    from refactx.cli.query.replies import Replies, check_text
    from refactx.cli.query.views import print_reply
    from refactx.connect import open_index

    engine, template = engine_options_of(given, texts=1, beams=1), load_prompt(prompt)
    reads = not questions or questions == ("-",)
    for text in () if reads else questions:
        check_text(text, model is not None)
    with open_index(index, db) as opened:

        @cache
        def load() -> "Asker":
            from refactx.asking.asker import Asker
            from refactx.engines.loading import load_language_model

            loaded = load_language_model(model or "", opened, engine)
            return Asker(loaded, loaded.tokenizer, opened, template)

        choose = None if model is None else (lambda text: load().query(text))
        replies = Replies(opened, choose, runs=run, facts=limit)

        def answer(text: str) -> None:
            print_reply(replies.to(text), as_json=as_json, explains=explain, limit=limit)

        if not reads:
            for text in questions:
                answer(text)
        elif not questions and sys.stdin.isatty():
            for text in read_typed(opened):
                try:
                    answer(text)
                except RefactxError as error:
                    click.echo(f"refactx: {without_password(str(error))}", err=True)
                except KeyboardInterrupt:
                    click.echo("(interrupted)", err=True)
        else:
            _answer_each(read_piped(), answer, as_json)


def _answer_each(texts: Iterable[str], answer: Callable[[str], None], as_json: bool) -> None:
    """Answer texts one after the other. Those that cannot be answered are reported, and raise an error at the end."""
    given, failed = list[str](), list[tuple[str, InputError]]()
    for text in texts:
        given.append(text)
        try:
            answer(text)
        except InputError as error:
            failed.append((text, error))
            if as_json:
                print_json({"question": text, "error": str(error)})
            else:
                click.echo(f"refactx: {error}", err=True)
    if not given:
        raise InputError("there is no question: give one in quotes, or lines on standard input")
    if failed:
        raise InputError(f"{len(failed)} of {len(given)} questions cannot be answered; the first is {failed[0][0]!r}")
