"""The lines of `refactx query`: from a pipe, or typed on a terminal with Tab completing names."""

import sys
from collections.abc import Iterator
from contextlib import suppress

import click

from refactx.cli.query.completion import Completer
from refactx.index.index import Index

HELP = "a question, or a query such as count <Louisiana> <nickname>: Tab completes names, Ctrl-D ends"
_PROMPT = "query> "


def read_piped() -> Iterator[str]:
    """Yield the lines of standard input that are not empty."""
    for text in sys.stdin:
        if text.strip():
            yield text.strip()


def read_typed(index: Index) -> Iterator[str]:
    """Yield lines that are typed on a terminal, with a history and completions. Ctrl-C begins the line again."""
    with suppress(ImportError):
        import readline  # gives input() a history and editing keys

        readline.set_completer_delims("<")
        readline.set_completer(Completer(index, readline.get_line_buffer).complete)
        is_libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    click.echo(HELP, err=True)
    while True:
        try:
            text = input(_PROMPT).strip()
        except EOFError:
            click.echo(err=True)
            return
        except KeyboardInterrupt:
            click.echo(f"\n{HELP}", err=True)
            continue
        if text in ("/quit", "/exit"):
            return
        if text:
            yield text
