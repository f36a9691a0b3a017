"""The options that several commands share, and JSON as they print it."""

import json
import math
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from refactx.ask.prompt import MAX_FACTS, MAX_NEW_TOKENS, Generation
from refactx.paths import is_file_name, needs_database

if TYPE_CHECKING:
    from refactx.engines.loading import EngineOptions

ENGINES = ("auto", "transformers", "llamacpp")


class Number(click.FloatRange):
    """The type of an option that is a number: in a range, and neither infinite nor `nan`, which compares with nothing."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number of an option's text. Raises BadParameter if it is none, or out of range."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a number that can be used: give one such as 0.5", param, ctx)
        return number


JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
DB = click.option("--db", metavar="URL", help="PostgreSQL; default: $REFACTX_DB or embedded.")
INDEX = click.option(
    "--index", default="default", show_default=True, metavar="NAME", help="Its name, or a FILE.refactx."
)


def in_database(_context: click.Context, _parameter: click.Parameter, name: str | None) -> str | None:
    """Return the name of an index that a command makes or changes. Raises InputError if it is the path of a file."""
    if name is not None and is_file_name(name):
        raise needs_database(name)
    return name


NAME = click.argument("name", callback=in_database)
OWN_INDEX = click.option(
    "--index",
    default="default",
    show_default=True,
    metavar="NAME",
    callback=in_database,
    help="Name of the index.",
)
MODEL = click.option("--model", required=True, metavar="MODEL", help="Hugging Face id, folder, GGUF; or demo.")
PROMPT = click.option(
    "--prompt", default="wikidata", show_default=True, metavar="PROMPT", help="Its name or a .toml file."
)
BATCH_SIZE = click.option(
    "--batch-size", default=1, show_default=True, type=click.IntRange(1), metavar="N", help="Ask N questions at a time."
)
RUN_FOLDER = click.option(
    "--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Folder of the run; default: in refactx-eval/."
)
NEW_TOKENS = click.option(
    "--max-new-tokens",
    default=MAX_NEW_TOKENS,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="At most N tokens per answer.",
)
DTYPE = click.option(
    "--dtype",
    default="auto",
    show_default=True,
    type=click.Choice(["auto", "float32", "bfloat16", "float16"]),
    metavar="TYPE",
    help="float32, bfloat16, float16.",
)
DEVICE = click.option(
    "--device",
    default="auto",
    show_default=True,
    metavar="DEVICE",
    help="Such as cpu, cuda, cuda:1.",
)

_ENGINE = (
    click.option(
        "--engine",
        default="auto",
        show_default=True,
        type=click.Choice(ENGINES),
        metavar="ENGINE",
        help="transformers or llamacpp.",
    ),
    click.option(
        "--gpu-layers", type=click.IntRange(0), metavar="N", help="llamacpp: N layers on the GPU; default: all."
    ),
    click.option("--threads", type=click.IntRange(1), metavar="N", help="llamacpp: default: physical cores."),
    click.option("--context", type=click.IntRange(1024), metavar="N", help="llamacpp: room for N tokens."),
)

_GENERATION = (
    click.option(
        "--channel/--no-channel",
        default=True,
        help="Choose by the question; default: on without beams.",
    ),
    click.option("--tells", type=Number(), metavar="X", help="Confidence an answer needs; default: the prompt's."),
    click.option(
        "--num-beams",
        default=1,
        show_default=True,
        type=click.IntRange(1),
        metavar="N",
        help="Beam search over the whole text.",
    ),
    click.option(
        "--fact-beams",
        type=click.IntRange(1),
        metavar="N",
        help="Beam search within each fact.",
    ),
    click.option(
        "--fact-length-penalty",
        default=0.0,
        type=Number(0),
        metavar="X",
        help="Divide scores of --fact-beams by length^X.",
    ),
    NEW_TOKENS,
    click.option(
        "--max-facts",
        default=MAX_FACTS,
        show_default=True,
        type=click.IntRange(1),
        metavar="N",
        help="After N facts, the answer follows.",
    ),
    click.option(
        "--temperature",
        default=0.0,
        type=Number(0),
        metavar="X",
        help="Sample with this temperature; default: greedy.",
    ),
    click.option("--top-k", type=click.IntRange(1), metavar="K", help="Sample from the K likeliest tokens."),
    click.option(
        "--top-p",
        type=Number(0, 1, min_open=True),
        metavar="P",
        help="Sample from the likeliest of total probability P.",
    ),
    click.option("--seed", type=click.IntRange(0), metavar="N", help="Seed that makes sampling repeatable."),
)
GENERATION_GROUPS = {
    "Choice of facts": ("channel", "tells", "fact_beams", "fact_length_penalty", "num_beams", "max_facts"),
    "Sampling": ("temperature", "top_k", "top_p", "seed"),
}
MACHINE_GROUP = ("db", "batch_size", "engine", "dtype", "device", "gpu_layers", "threads", "context")


def engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of how a model is run to a command; `engine_options_of` reads them."""
    for option in reversed((*_ENGINE[:1], DTYPE, DEVICE, *_ENGINE[1:])):
        command = option(command)
    return command


def engine_options_of(given: dict[str, Any], texts: int, beams: int) -> "EngineOptions":
    """Remove the options of how a model is run from those given to a command, and return them.

    `texts`: how many texts are written at once; `beams`: over the whole text, which Transformers has alone.
    """
    from refactx.engines.loading import EngineOptions

    names = ("engine", "device", "dtype", "gpu_layers", "threads", "context")
    if beams > 1 and given["engine"] == "auto":
        given["engine"] = "transformers"
    return EngineOptions(texts=texts, **{name: given.pop(name) for name in names})


def question_options(split: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the options of which questions of a file are asked. `split`: the default half.

    The command gets `split`, `kinds` (a tuple of names) and `limit`.
    """
    options = (
        click.option(
            "--split",
            default=split,
            show_default=True,
            type=click.Choice(["all", "tune", "report"]),
            metavar="HALF",
            help="Which half: all, tune or report.",
        ),
        click.option(
            "--kinds",
            default="",
            callback=lambda _context, _parameter, given: tuple(filter(None, map(str.strip, given.split(",")))),
            metavar="KIND,...",
            help="Ask only these kinds, such as single,multi.",
        ),
        click.option("--limit", type=click.IntRange(1), metavar="N", help="Ask N questions, always the same ones."),
    )

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def generation_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `Generation` to a command; `generation_of` reads them."""
    for option in reversed(_GENERATION):
        command = option(command)
    return command


def generation_of(given: dict[str, Any]) -> Generation:
    """Remove the options of `Generation` from those given to a command, and return them.

    Raises InputError if a value is out of range, or if two options exclude each other.
    """
    return Generation(**{field.name: given.pop(field.name) for field in fields(Generation) if field.name in given})


def print_json(document: Any, err: bool = False) -> None:
    """Print a document as one line of JSON on standard output (`err`: on standard error)."""
    click.echo(json.dumps(document, ensure_ascii=False, default=str), err=err)
