"""The command `refactx query`."""

import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from refactx.cli.help import GroupedCommand
from refactx.cli.options import DB, INDEX, JSON, PROMPT, engine_options, engine_options_of, print_json
from refactx.cli.query.policies import SECONDS, PolicyOptions, PolicyReplies, check_place
from refactx.errors import InputError, RefactxError, without_password

if TYPE_CHECKING:
    from refactx.asking.asker import Asker
    from refactx.asking.prompt import Prompt
    from refactx.engines.loading import EngineOptions
    from refactx.index.index import Index

POLICIES = ("strict", "harvest", "open", "direct", "rag")
MACHINE = ("db", "engine", "dtype", "device", "gpu_layers", "threads", "context")
SHOWN = 20
"""The most rows of a policy by default, as of walks."""
WRITING = ("model_url", "sparql_prompt", "grammar", "tau", "run_on", "timeout")


@click.command(cls=GroupedCommand, groups={"SPARQL of policies": WRITING, "Database and machine": MACHINE})
@click.argument("questions", nargs=-1, metavar="[QUESTION]...")
@click.option("--model", metavar="MODEL", help="For questions in words: id, folder, GGUF; or demo.")
@INDEX
@click.option(
    "--policy",
    default="strict",
    type=click.Choice(POLICIES),
    metavar="POLICY",
    help="harvest, open, direct, rag; default: strict.",
)
@click.option("--run/--no-run", default=True, help="Answer the query; default: on.")
@click.option("--explain", is_flag=True, help="Print candidates, or what the model wrote.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most N rows and facts; default: 20, JSON: all.")
@PROMPT
@JSON
@click.option("--model-url", metavar="URL", help="OpenAI-compatible server of the model.")
@click.option("--sparql-prompt", default="sparql", show_default=True, metavar="PROMPT", help="sparql or a .toml file.")
@click.option("--grammar/--no-grammar", default=True, help="open: only SPARQL with names; default: on.")
@click.option("--tau", type=click.FloatRange(0, 1), metavar="X", help="open: similarity that names need.")
@click.option("--run-on", metavar="WHERE", help="tree, store or URL; auto: store if there is one.")
@click.option(
    "--timeout",
    default=SECONDS,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="At most so long.",
)
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

    A QUESTION in words needs --model, which chooses the query that it asks, or with another --policy writes one. A query
    such as `count <Louisiana> <nickname>` needs no model; a label or an alias in it stands for the entity with most
    facts. Without QUESTION, lines are read from the terminal, where Tab completes names; with - or from a pipe, each
    line is one question or query.
    """
    from refactx.asking.prompt import load_prompt
    from refactx.asking.replies import check_text
    from refactx.cli.query.reading import read_piped, read_typed
    from refactx.connect import open_index

    machine = engine_options_of(given, texts=1, beams=1)
    options, template = PolicyOptions(model=model, **given), load_prompt(prompt)
    options.check()
    check_place(options.run_on)
    reads = not questions or questions == ("-",)
    for text in () if reads else questions:
        check_text(text, model is not None)
    with open_index(index, db) as opened, ExitStack() as stack:
        shown: dict[str, Any] = {"as_json": as_json, "explains": explain, "limit": limit}
        if options.is_plain:
            answer = _walks(opened, model, machine, template, runs=run, **shown)
        else:
            from refactx.cli.query.policy_views import print_policy_reply

            most = limit if as_json else limit or SHOWN
            replies = PolicyReplies(opened, options, machine, template, stack, runs=run, limit=most)

            def answer(text: str) -> None:
                print_policy_reply(replies.to(text), replies.facts, **shown)

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


def _walks(
    index: "Index", model: str | None, machine: "EngineOptions", prompt: "Prompt", *, runs: bool, **shown: Any
) -> Callable[[str], None]:
    """Return what answers a text by a walk of the fact tree, and prints the reply."""
    from refactx.asking.replies import Replies
    from refactx.cli.query.views import print_reply

    @cache
    def load() -> "Asker":
        from refactx.asking.asker import Asker
        from refactx.engines.loading import load_language_model

        loaded = load_language_model(model or "", index, machine)
        return Asker(loaded, loaded.tokenizer, index, prompt)

    choose = None if model is None else (lambda text: load().query(text))
    replies = Replies(index, choose, runs=runs, facts=shown["limit"])
    return lambda text: print_reply(replies.to(text), **shown)


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
