"""The command `refactx mcp`."""

from contextlib import ExitStack
from typing import Any

import click

from refactx.cli.help import GroupedCommand
from refactx.cli.options import DB, engine_options, engine_options_of
from refactx.cli.translate.options import (
    RUNNING,
    WRITING,
    Models,
    TranslatorOptions,
    engine_of,
    open_translator,
    translator_options,
)

MACHINE = ("db", "engine", "dtype", "device", "gpu_layers", "threads", "context")


@click.command(
    cls=GroupedCommand,
    groups={"What writes": WRITING, "What runs, and bounds": RUNNING, "Database and machine": MACHINE},
)
@click.option("--pack", "pack_name", required=True, metavar="PACK", help="liita, wikidata, or a folder.")
@click.option("--agent", is_flag=True, help="translate: plan, verify and explore as well.")
@translator_options
@DB
@engine_options
def mcp(pack_name: str, **given: Any) -> None:
    """Serve the tools of a pack to an assistant, over standard input and output (Model Context Protocol).

    The tools are validate, run_sparql and describe; with --model, also translate. They only read.
    """
    from refactx.mcp import pack_server
    from refactx.nl2sparql import load_pack

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
        pack_server(pack, engine, translator).run()
