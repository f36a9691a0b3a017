"""The options that several commands share, and JSON as they print it."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from refactx.ask.prompt import Generation
from refactx.options import Option, options_of
from refactx.paths import is_file_name, needs_database

if TYPE_CHECKING:
    from refactx.engines.loading import EngineOptions


class Number(click.FloatRange):
    """The type of an option that is a number: in a range, and neither infinite nor `nan`, which compares with nothing."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number of an option's text. Raises BadParameter if it is none, or out of range."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a number that can be used: give one such as 0.5", param, ctx)
        return number


class Names(click.Choice[str]):
    """The type of an option that is one of some names. `old`: what names of earlier releases mean, which are still taken."""

    def __init__(self, choices: Sequence[str], old: Mapping[str, str]) -> None:
        super().__init__(choices)
        self._old = old

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name of an option's text. Raises BadParameter if it is none."""
        return self._old[value] if value in self._old else super().convert(value, param, ctx)


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
PROMPT = click.option("--prompt", metavar="PROMPT", help="Its name or a .toml file; default: the index's own.")
BATCH_SIZE = click.option(
    "--batch-size", default=1, show_default=True, type=click.IntRange(1), metavar="N", help="Ask N questions at a time."
)
RUN_FOLDER = click.option(
    "--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Folder of the run; default: in refactx-eval/."
)


def declared(options: type, *names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds options of a dataclass (`refactx.options`) to a command: those named, or all."""
    wanted = [each for each in fields(options) if "option" in each.metadata and (each.name in names or not names)]
    made = [_click_option(each.name, each.type, each.default, each.metadata["option"]) for each in wanted]

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(made):
            command = option(command)
        return command

    return add


def _click_option(name: str, kind: Any, default: Any, known: Option) -> Callable[..., Any]:
    flag = f"--{name.replace('_', '-')}"
    if kind is bool:
        return click.option(f"{flag}/--no-{flag[2:]}", default=default, help=known.help)
    least, is_open = (known.least, False) if known.above is None else (known.above, True)
    value: Any = str
    if known.choices:
        value = Names(known.choices, known.old)
    elif kind in (int, int | None):
        value = click.IntRange(least, known.most, min_open=is_open)
    elif kind in (float, float | None):
        value = Number(least, known.most, min_open=is_open)
    is_shown = default not in (None, 0.0) and "default:" not in known.help
    metavar = known.metavar or "N"
    return click.option(flag, type=value, default=default, show_default=is_shown, metavar=metavar, help=known.help)


def groups_of(options: type) -> dict[str, tuple[str, ...]]:
    """Return the names of the options of a dataclass by the headings that they are under."""
    known = options_of(options)
    headings = dict.fromkeys(one.group for one in known.values() if one.group)
    return {heading: tuple(name for name, one in known.items() if one.group == heading) for heading in headings}


NEW_TOKENS = declared(Generation, "max_new_tokens")
GENERATION_GROUPS = groups_of(Generation)
MACHINE = ("db", "engine", "dtype", "device", "gpu_layers", "threads", "context")
MACHINE_GROUP = ("db", "batch_size", *MACHINE[1:])
generation_options = declared(Generation)
DEVICE = click.option(
    "--device", default="auto", show_default=True, metavar="DEVICE", help="Such as cpu, cuda, cuda:1."
)


def engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of how a model is run to a command; `engine_options_of` reads them."""
    from refactx.engines.loading import EngineOptions

    return declared(EngineOptions)(command)


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


def generation_of(given: dict[str, Any]) -> Generation:
    """Remove the options of `Generation` from those given to a command, and return them.

    Raises InputError if a value is out of range, or if two options exclude each other.
    """
    return Generation(**{field.name: given.pop(field.name) for field in fields(Generation) if field.name in given})


def print_json(document: Any, err: bool = False) -> None:
    """Print a document as one line of JSON on standard output (`err`: on standard error)."""
    click.echo(json.dumps(document, ensure_ascii=False, default=str), err=err)
