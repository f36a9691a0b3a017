"""The command line as a user types it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import click


def run_refactx(*arguments: object, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run the command line as a user types it, in a new process and without a terminal."""
    command = [str(Path(sys.executable).with_name("refactx")), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, **options)


def complains(*arguments: object) -> str:
    """Return the error of a command that must fail with one line, exit code 2 and no output."""
    done = run_refactx(*arguments)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert done.stdout == ""
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, lines
    assert "Traceback" not in done.stderr
    return lines[0]


def subcommands(command: click.Command) -> dict[str, click.Command]:
    """The commands of a group by their names; none of a command that is no group."""
    if not isinstance(command, click.Group):
        return {}
    context = click.Context(command)
    found = {name: command.get_command(context, name) for name in command.list_commands(context)}
    return {name: inner for name, inner in found.items() if inner is not None}
