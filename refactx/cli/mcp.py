"""The command `refactx mcp`: the tools of an index, or of a pack."""

import os
import select
import signal
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from refactx.cli.help import GroupedCommand
from refactx.cli.options import DB, MACHINE, PROMPT, WEIGHTS, engine_options, engine_options_of
from refactx.cli.translate import (
    TRANSLATOR_GROUPS,
    Models,
    TranslatorOptions,
    engine_of,
    open_translator,
    translator_options,
)
from refactx.errors import InputError
from refactx.lazy import require

if TYPE_CHECKING:
    from mcp.server import MCPServer


@click.command(
    cls=GroupedCommand,
    groups={
        **{heading: [name for name in names if name != "index"] for heading, names in TRANSLATOR_GROUPS.items()},
        "Database and machine": MACHINE,
    },
)
@click.option("--pack", "pack_name", metavar="PACK", help="liita, wikidata, or a folder.")
@click.option("--agent", is_flag=True, help="translate: plan, verify and explore as well.")
@click.option("--writable", metavar="NAME", help="Let the assistant write facts to this index.")
@PROMPT
@WEIGHTS
@translator_options
@DB
@engine_options
@click.pass_context
def mcp(
    context: click.Context,
    /,
    pack_name: str | None,
    writable: str | None,
    prompt: str | None,
    weights: Path | None,
    ranker: str | None,
    **given: Any,
) -> None:
    """Serve tools to an assistant, over standard input and output (Model Context Protocol).

    With --index: find, complete, facts, check_fact, query, sparql and classes; with --model, also ask and check_text; with
    --writable, also add_fact, correct_fact and forget_fact: others only read. With --pack: validate, search, retrieve,
    patterns, examples, run_sparql and describe; with --model, also translate.
    """
    if pack_name is None:
        _check_index_alone(context)
        _serve_facts(prompt, weights, ranker, writable=writable, **given)
    elif writable is not None:
        raise InputError("--writable: for the tools of an index alone: leave it out, or --pack")
    else:
        _serve_pack(pack_name, **given)


def _check_index_alone(context: click.Context) -> None:
    """Raise InputError if there is nothing to serve, or for options that are for packs."""
    typed = {name for name in context.params if context.get_parameter_source(name) == ParameterSource.COMMANDLINE}
    if "index" not in typed:
        raise InputError("there is nothing to serve: give --index NAME for its facts, or --pack PACK")
    of_packs = {"agent", *chain.from_iterable(TRANSLATOR_GROUPS.values())} - {"index", "model_url"}
    if others := sorted(typed & of_packs):
        names = ", ".join(f"--{name.replace('_', '-')}" for name in others)
        raise InputError(f"{names}: for the tools of a pack alone: add --pack PACK, or leave them out")


def _serve_facts(
    prompt: str | None,
    weights: Path | None,
    ranker: str | None,
    *,
    index: str,
    writable: str | None,
    model: str | None,
    model_url: str | None,
    db: str | None,
    **given: Any,
) -> None:
    require("mcp", "mcp")
    from refactx.index.open import open_index
    from refactx.mcp import asks_alone, checks_alone, fact_server

    with ExitStack() as stack:
        opened, ask, check, writer = stack.enter_context(open_index(index, db)), None, None, None
        if writable is not None:
            from refactx.build import fact_writer

            writer = stack.enter_context(fact_writer(index, db, writable, opened))
        if model is not None:
            from refactx.ask.checked import asker_of
            from refactx.ask.examples import prompt_for
            from refactx.ask.prompt import prompt_of
            from refactx.models.options import ServerOptions

            template = prompt_for(prompt or prompt_of(given["adapter"], model), opened).weighted(weights, ranker)
            machine = replace(engine_options_of(given, texts=1, beams=1), server=ServerOptions(model_url=model_url))
            asker, _ = asker_of(model, opened, machine, template, partial(click.echo, err=True))
            ask, check = asks_alone(asker), checks_alone(asker, opened)
        _run(fact_server(opened, ask=ask, check=check, writer=writer))


def _serve_pack(pack_name: str, **given: Any) -> None:
    from refactx.mcp import pack_server
    from refactx.sparql.packs.pack import load_pack

    models = Models(engine_options_of(given, texts=1, beams=1))
    options = TranslatorOptions(runs=True, validates=True, **given)
    pack = load_pack(pack_name)
    with ExitStack() as stack:
        translator = None
        if options.model is not None:
            translator = open_translator(pack, options, models, stack)
            engine = translator.engine
        else:
            engine = engine_of(pack, options, stack)
        _run(pack_server(pack, engine, translator))


def _run(server: "MCPServer") -> None:
    # What reads input can only be ended together with the process.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(select, "poll"):  # Windows has none
        Thread(target=_end_with_reader, args=(os.dup(1),), daemon=True).start()
    server.run()


def _end_with_reader(output: int) -> None:
    """End the process when nobody reads its standard output any more."""
    reader = select.poll()
    reader.register(output, 0)
    reader.poll()
    os._exit(0)
