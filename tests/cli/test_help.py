"""Help texts: the common options fit a screen of 30 lines and 80 columns, each option has one line."""

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner
from support.command import subcommands

from refactx.cli.help import GroupedCommand
from refactx.cli.main import COMMANDS, cli


def help_of(*command: str) -> list[str]:
    done = CliRunner().invoke(cli, [*command, "--help"], env={"COLUMNS": "80"}, prog_name="refactx")
    assert done.exit_code == 0
    return done.output.splitlines()


def commands(group: click.Command, *path: str) -> Iterator[tuple[str, ...]]:
    for name, command in subcommands(group).items():
        yield (*path, name)
        yield from commands(command, *path, name)


def test_the_list_of_commands_begins_the_help_of_each() -> None:
    for name, (_, text) in COMMANDS.items():
        assert text == subcommands(cli)[name].get_short_help_str(300)


def test_listing_the_commands_loads_none_of_them() -> None:
    script = """if True:
        import sys
        from refactx.cli.main import COMMANDS, cli
        cli(["--help"], standalone_mode=False)
        print(sum(name.split(".")[0] == "refactx" for name in sys.modules))
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "calibrate" in done.stdout
    assert int(done.stdout.split()[-1]) < 20


@pytest.mark.parametrize("command", [(), *commands(cli)])
def test_help_is_no_wider_than_a_screen(command: tuple[str, ...]) -> None:
    assert max(map(len, help_of(*command))) <= 80


@pytest.mark.parametrize("command", [("ask",), ("ingest",), ("forget",), ("eval",)])
def test_common_options_come_first_and_fit_a_screen(command: tuple[str, ...]) -> None:
    lines = help_of(*command)
    titles = [number for number, line in enumerate(lines) if line.endswith(":") and not line.startswith(" ")]
    assert lines[titles[0]] == "Options:"
    assert titles[1] <= 30
    assert len(lines) <= (81 if command in (("eval",), ("ingest",), ("forget",)) else 52)
    end = lines.index("Commands:") if "Commands:" in lines else None
    options = [line for line in lines[titles[0] : end] if line.startswith("  ")]
    assert all(line.startswith("  -") for line in options), "one line for each option"


@pytest.mark.parametrize("name", ["ask", "ingest", "forget", "eval"])
def test_every_option_is_listed_once(name: str) -> None:
    lines = help_of(name)
    for parameter in subcommands(cli)[name].params:
        if isinstance(parameter, click.Option):
            spelt = parameter.opts[0].replace("--", "--[no-]") if parameter.secondary_opts else parameter.opts[0]
            assert sum(line.startswith(f"  {spelt} ") for line in lines) == 1, spelt


def test_a_group_names_options_that_exist() -> None:
    with pytest.raises(ValueError, match="command c has no parameters beams"):
        GroupedCommand("c", groups={"Search": ["beams"]})


def test_without_a_command_the_first_steps_are_shown() -> None:
    done = CliRunner().invoke(cli, [])
    assert done.exit_code == 0
    for step in ("refactx demo", "refactx ingest FILE", "refactx ask", "refactx COMMAND --help", "docs/"):
        assert step in done.stdout
    assert len(done.stdout.splitlines()) <= 12
    assert max(map(len, done.stdout.splitlines())) <= 82
