"""Help texts that fit a screen: common options first, the others in named groups below."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

MODELS = "a folder, a .gguf file, a Hugging Face id or demo"
"""What names a model, as errors say it."""


class ModelName(click.types.StringParamType):
    """The type of an option that names a model. Without the option, the error says what a model is."""

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str:
        """Return what the error of a missing option says."""
        return f"Give {MODELS}"


class GroupedCommand(click.Command):
    """A command that lists some of its options in groups.

    `groups` maps the title of each group to its parameters (`max_new_tokens`), in the order of the help text. Options
    that no group names are the common ones, and come first.
    """

    def __init__(self, *arguments: Any, groups: Mapping[str, Sequence[str]] | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._groups = groups or {}
        unknown = {name for names in self._groups.values() for name in names} - {str(p.name) for p in self.params}
        if unknown:
            raise ValueError(f"command {self.name} has no parameters {', '.join(sorted(unknown))}")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records = {
            str(option.name): (_short_names(names), _without_range(text))
            for option in self.get_params(ctx)
            if isinstance(option, click.Option)
            for names, text in filter(None, [option.get_help_record(ctx)])
        }
        grouped = {name for names in self._groups.values() for name in names}
        sections = {"Options": [name for name in records if name not in grouped], **self._groups}
        width = max(len(names) for names, _ in records.values())
        for title, members in sections.items():
            with formatter.section(title):
                formatter.write_dl([(records[name][0].ljust(width), records[name][1]) for name in members])


class CommandWithOthers(GroupedCommand, click.Group):
    """A command of its own, `refactx eval FILE`, below which are others, `refactx eval compare`.

    A file that is called like one of them is given as ./compare.
    """

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Return the context of the command that arguments name, which is this one if they name none."""
        inner = self.commands.get(args[0]) if args else None
        if inner is None:
            return super().make_context(info_name, args, parent, allow_interspersed_args=True, **extra)
        return inner.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return click.Command.parse_args(self, ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        return click.Command.invoke(self, ctx)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return click.Command.collect_usage_pieces(self, ctx)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters; without arguments for the usage of the commands below."""
        known = super().get_params(ctx)
        return known if ctx.command is self else [one for one in known if not isinstance(one, click.Argument)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


class IndexCommand(click.Command):
    """A command whose first argument is the name of an index, which may be given as `--index NAME` too."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.params.append(
            click.Option(["--index"], metavar="NAME", expose_value=False, help="The same as the argument NAME.")
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments, of which `--index NAME` becomes the first."""
        end = args.index("--") if "--" in args else len(args)
        for at, text in enumerate(args[:end]):
            option, equals, name = text.partition("=")
            if option == "--index" and (equals or at + 1 < end):
                return super().parse_args(
                    ctx, [name if equals else args[at + 1], *args[:at], *args[at + 2 - bool(equals) :]]
                )
        return super().parse_args(ctx, args)


class OrderedGroup(click.Group):
    """A group that lists its commands in the order in which they were added, and prints its help without one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments; print the help and exit with code 0 if there are none."""
        if not args and not self.invoke_without_command:
            click.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class LazyGroup(click.Group):
    """A group of commands that are imported when they are used, so that listing them loads none.

    `modules` maps the name of each command to its module and object (`ask:ask`, below `refactx.cli`) and its help.
    """

    def __init__(self, *arguments: Any, modules: Mapping[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command with a name; None if there is none."""
        if cmd_name not in self._modules:
            return None
        module, _, name = self._modules[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(f"refactx.cli.{module}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of arguments; fail with the name that is like it, which click seeks among loaded ones."""
        near = get_close_matches(args[0], self._modules, 1)
        if near and args[0] not in self._modules:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        room = formatter.width - 6 - max(map(len, self._modules))
        commands = [click.Command(name, help=text) for name, (_, text) in self._modules.items()]
        with formatter.section("Commands"):
            formatter.write_dl([(str(command.name), command.get_short_help_str(room)) for command in commands])


def _short_names(names: str) -> str:
    """Return an option's names with a switch and its opposite as one.

    >>> _short_names("--channel / --no-channel"), _short_names("-h, --help")
    ('--[no-]channel', '-h, --help')
    """
    return re.sub(r"--([\w-]+) / --no-\1", r"--[no-]\1", names)


def _without_range(text: str) -> str:
    """Return an option's help without the range that click appends; the error for a number out of range has it.

    >>> _without_range("Beams.  [default: 1; x>=1]"), _without_range("At most N.  [x>=1]"), _without_range("P.  [0<x<=1]")
    ('Beams.  [default: 1]', 'At most N.', 'P.')
    """
    without = re.sub(r"  \[[^\[\];]*x[<>][^\[\];]*\]$", "", text)
    return re.sub(r"; [^\[\];]*x[<>][^\[\];]*\]$", "]", without)
