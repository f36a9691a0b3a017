"""What the commands share: options, and how a document is printed."""

import json
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import click

from refactx.asking.options import MAX_NEW_TOKENS, Generation

JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
DB = click.option(
    "--db",
    metavar="URL",
    help="PostgreSQL, e.g. postgresql://me@host/kb; default: $REFACTX_DB, else the embedded server.",
)
INDEX = click.option("--index", default="default", show_default=True, metavar="NAME", help="Name of the index.")
MODEL = click.option(
    "--model", required=True, metavar="ID_OR_FOLDER", help="Hugging Face id, folder or GGUF file; `demo`: SmolLM2."
)
PROMPT = click.option(
    "--prompt", default="wikidata", show_default=True, metavar="NAME_OR_FILE", help="A prompt's name, or a .toml file."
)
DTYPE = click.option(
    "--dtype",
    default="auto",
    show_default=True,
    type=click.Choice(["auto", "float32", "bfloat16", "float16"]),
    help="Of the weights; auto: bfloat16 on a GPU, float32 for small models on a CPU.",
)
DEVICE = click.option(
    "--device",
    default="auto",
    show_default=True,
    metavar="DEVICE",
    help="cpu, cuda, cuda:1; auto: a GPU if there is one.",
)

_GENERATION = (
    click.option(
        "--channel/--no-channel",
        default=True,
        help="Choose facts by how likely they make the question; on by default, off with beams.",
    ),
    click.option(
        "--num-beams", default=1, show_default=True, type=click.IntRange(1), help="Beams over the whole text."
    ),
    click.option(
        "--fact-beams",
        type=click.IntRange(1),
        metavar="N",
        help="Search each fact with N beams; the text stays greedy.",
    ),
    click.option(
        "--fact-length-penalty",
        default=0.0,
        show_default=True,
        type=click.FloatRange(0),
        help="With --fact-beams: a fact's score is its log-probability over its length to this power.",
    ),
    click.option("--max-new-tokens", default=MAX_NEW_TOKENS, show_default=True, type=click.IntRange(1)),
    click.option("--max-facts", type=click.IntRange(1), metavar="N", help="Behind N facts the answer has to follow."),
    click.option(
        "--temperature", default=0.0, show_default=True, type=click.FloatRange(0), help="Above 0: sample the text."
    ),
    click.option("--top-k", type=click.IntRange(1), metavar="K", help="Sample from the K likeliest tokens."),
    click.option(
        "--top-p",
        type=click.FloatRange(0, 1, min_open=True),
        metavar="P",
        help="Sample from the likeliest tokens, of probability P together.",
    ),
    click.option("--seed", type=click.IntRange(0), metavar="N", help="Sample the same text each time."),
)


def generation_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command the options of `Generation`; `generation_of` reads them."""
    for option in reversed(_GENERATION):
        command = option(command)
    return command


def generation_of(given: dict[str, Any]) -> Generation:
    """The options of `Generation`, taken out of those given to a command. Raises InputError."""
    return Generation(**{field.name: given.pop(field.name) for field in fields(Generation) if field.name in given})


def print_json(document: Any, err: bool = False) -> None:
    """One document on one line of standard output (`err`: standard error, where standard output is taken)."""
    click.echo(json.dumps(document, ensure_ascii=False, default=str), err=err)
