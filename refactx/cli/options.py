"""The options that several commands share, and JSON as they print it."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

import click

from refactx.ask.prompt import Generation
from refactx.cli.help import ModelName
from refactx.models.options import EngineOptions, ServerOptions
from refactx.options import Option, options_of
from refactx.paths import is_file_name, needs_database

if TYPE_CHECKING:
    from refactx.index import Index

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
DB = click.option("--db", metavar="URL", help="PostgreSQL; default: $REFACTX_DB or embedded.")

INDEX = click.option(
    "--index", default="default", show_default=True, metavar="NAME", help="Its name, or a FILE.refactx."
)
ANY_NAME = click.argument("name", default="default")
MODEL = click.option(
    "--model", required=True, type=ModelName(), metavar="MODEL", help="Hugging Face id, folder, GGUF; or demo."
)
PROMPT = click.option("--prompt", metavar="PROMPT", help="Its name or a .toml file; default: the index's own.")

BATCH_SIZE = click.option(
    "--batch-size", default=1, show_default=True, type=click.IntRange(1), metavar="N", help="Ask N questions at a time."
)

JUDGE_URL = click.option("--judge-url", metavar="URL", help="Its OpenAI-like API; key: $REFACTX_JUDGE_KEY.")
JUDGE_PROMPT = click.option(
    "--judge-prompt", default="judge", metavar="PROMPT", help="judge, judge-complete or a .toml file."
)
RUN_FOLDER = click.option(
    "--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Folder of the run; default: in refactx-eval/."
)
MACHINE = ("db", *options_of(EngineOptions))
MACHINE_GROUP = ("db", "batch_size", *MACHINE[1:])

DEVICE = click.option(
    "--device", default="auto", show_default=True, metavar="DEVICE", help="Such as cpu, cuda, cuda:1."
)
SERVED = tuple(options_of(ServerOptions))


class Number(click.FloatRange):
    """The type of an option that is a number: in a range, and neither infinite nor `nan`, which compares with nothing."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number of an option's text. Raises BadParameter if it is none, or out of range."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a number that can be used: give one such as 0.5", param, ctx)
        return number


class NumberByKind(Number):
    """The type of an option that is a number, or one for some `kinds`, such as `entity=0.7,relation=0.9`."""

    def __init__(self, kinds: Sequence[str], **limits: Any) -> None:
        super().__init__(**limits)
        self._kinds = kinds

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number of an option's text, or a number by kind. Raises BadParameter for another text."""
        if not isinstance(value, str) or "=" not in value:
            return super().convert(value, param, ctx)
        pairs = [one.partition("=") for one in parts_of(value)]
        given = {kind: number for kind, _, number in pairs}
        if len(given) < len(pairs) or not given.keys() <= set(self._kinds):
            self.fail(
                f"{value!r} is not one number for some of {', '.join(self._kinds)}: give such as {self._kinds[0]}=0.7",
                param,
                ctx,
            )
        return {kind: super(NumberByKind, self).convert(number, param, ctx) for kind, number in given.items()}


class NamedNumber(click.IntRange):
    """The type of an option that is a whole number, or one of some `words` for such numbers."""

    def __init__(self, words: Mapping[str, int], **limits: Any) -> None:
        super().__init__(**limits)
        self._words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of an option's text. Raises BadParameter if it is none, or out of range."""
        if value in self._words:
            return self._words[value]
        try:
            number: int = super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is none of {', '.join(self._words)}, and no number from {self.min} on", param, ctx)
        return number


class RenamedChoice(click.Choice[str]):
    """The type of an option that is one of some names. `old`: what names of earlier releases mean, which are still taken."""

    def __init__(self, choices: Sequence[str], old: Mapping[str, str]) -> None:
        super().__init__(choices)
        self._old = old

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name of an option's text. Raises BadParameter if it is none."""
        return self._old[value] if value in self._old else super().convert(value, param, ctx)


class Renamed(click.Option):
    """An option whose later names are those of earlier releases: it has them, and its help text does not."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option's name, and its help text."""
        found = super().get_help_record(ctx)
        return found and (found[0].replace(", " + ", ".join(self.opts[1:]), ""), found[1])


def in_database(_context: click.Context, _parameter: click.Parameter, name: str | None) -> str | None:
    """Return the name of an index that a command makes or changes. Raises InputError if it is the path of a file."""
    if name is not None and is_file_name(name):
        raise needs_database(name)
    return name


NAME = click.argument("name", default="default", callback=in_database)
DROPPED = click.argument("name", callback=in_database)
WRITABLE = click.option("--writable", metavar="NAME", help="Of several in --index, the one that is written.")
OWN_INDEX = click.option(
    "--index", default="default", show_default=True, metavar="NAME", callback=in_database, help="Name of the index."
)
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def all_of(*options: Decorator) -> Decorator:
    """Return a decorator that adds options to a command, in their order."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


def parts_of(given: str) -> tuple[str, ...]:
    """Return the parts of a list with commas, each once.

    >>> parts_of("single, multi,")
    ('single', 'multi')
    """
    return tuple(dict.fromkeys(filter(None, map(str.strip, given.split(",")))))


def declared(options: type, *names: str) -> Decorator:
    """Return a decorator that adds options of a dataclass (`refactx.options`) to a command: those named, or all."""
    wanted = [each for each in fields(options) if "option" in each.metadata and (each.name in names or not names)]
    return all_of(*(_click_option(each.name, each.type, each.default, each.metadata["option"]) for each in wanted))


def _click_option(name: str, kind: Any, default: Any, known: Option) -> Decorator:
    flag, kinds = f"--{(known.flag or name).replace('_', '-')}", get_args(kind) or (kind,)
    if bool in kinds:
        both = flag if default is False else f"{flag}/--no-{flag[2:]}"
        return click.option(both, name, is_flag=True, default=default, help=known.help)
    least, is_open = (known.least, False) if known.above is None else (known.above, True)
    value: Any = str
    if known.kinds:
        value = NumberByKind(known.kinds, min=least, max=known.most, min_open=is_open)
    elif known.choices:
        value = RenamedChoice(known.choices, known.old)
    elif known.words:
        value = NamedNumber(known.words, min=known.least, max=known.most)
    elif int in kinds:
        value = click.IntRange(least, known.most, min_open=is_open)
    elif float in kinds:
        value = Number(least, known.most, min_open=is_open)
    elif Path in kinds:
        value = click.Path(path_type=Path)
    shown: dict[str, Any] = {"metavar": known.metavar or "N", "help": known.help}
    shown["show_default"] = default not in (None, 0.0, ()) and "default:" not in known.help
    names, cls = ([flag, f"--{known.former}", name], Renamed) if known.former else ([flag, name], click.Option)
    return click.option(*names, cls=cls, type=value, multiple=get_origin(kind) is tuple, default=default, **shown)


def groups_of(options: type) -> dict[str, tuple[str, ...]]:
    """Return the names of the options of a dataclass by the headings that they are under."""
    known = options_of(options)
    headings = dict.fromkeys(one.group for one in known.values() if one.group)
    return {heading: tuple(name for name, one in known.items() if one.group == heading) for heading in headings}


NEW_TOKENS = declared(Generation, "max_new_tokens")
GENERATION_GROUPS = groups_of(Generation)
generation_options = declared(Generation)
WEIGHTS = all_of(
    click.option(
        "--weights",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Weights of the choice, as calibrate --save writes.",
    ),
    click.option("--ranker", metavar="NAME", help="By meaning: static, words, e5, minilm or a MODEL."),
)


engine_options = declared(EngineOptions)
server_options = declared(ServerOptions)
"""The options of how a model is run, and of a server that has it; `engine_options_of` reads them."""


def engine_options_of(given: dict[str, Any], texts: int, beams: int) -> EngineOptions:
    """Remove the options of how a model is run from those given to a command, and return them.

    `texts`: how many texts are written at once; `beams`: over the whole text, which Transformers has alone.
    """
    if beams > 1 and given["engine"] == "auto":
        given["engine"] = "transformers"
    server = ServerOptions(**{name: given.pop(name) for name in SERVED}) if SERVED[-1] in given else None
    return EngineOptions(texts=texts, server=server, **{name: given.pop(name) for name in MACHINE[1:]})


def index_opener(stack: ExitStack, index: str, db: str | None) -> "Callable[[str | None], Index]":
    """Return what opens the index of a name, or `index` for None, until `stack` is closed."""
    from refactx.index.open import open_index

    return lambda name: stack.enter_context(open_index(name or index, db))


def split_option(split: str) -> Decorator:
    """Return a decorator that adds the option of a half of the questions of a file. `split`: the default."""
    halves, which = click.Choice(["all", "tune", "report"]), "Which half: all, tune or report."
    return click.option("--split", default=split, show_default=True, type=halves, metavar="HALF", help=which)


def question_options(split: str) -> Decorator:
    """Return a decorator that adds the options of which questions of a file are asked. `split`: the default half.

    The command gets `split`, `kinds` (a tuple of names) and `limit`.
    """
    only = "Ask only these kinds, such as single,multi."
    return all_of(
        split_option(split),
        click.option(
            "--kinds", default="", callback=lambda _, __, given: parts_of(given), metavar="KIND,...", help=only
        ),
        click.option("--limit", type=click.IntRange(1), metavar="N", help="Ask N questions, always the same ones."),
    )


def generation_of(given: dict[str, Any]) -> Generation:
    """Remove the options of `Generation` from those given to a command, and return them.

    Raises InputError if a value is out of range, or if two options exclude each other.
    """
    return Generation(**{field.name: given.pop(field.name) for field in fields(Generation) if field.name in given})


def print_done(as_json: bool, document: Any, text: str) -> None:
    """Print what was done: as JSON, or as a line."""
    print_json(document) if as_json else click.echo(text)


def print_json(document: Any, err: bool = False) -> None:
    """Print a document as one line of JSON on standard output (`err`: on standard error)."""
    click.echo(json.dumps(document, ensure_ascii=False, default=str), err=err)
