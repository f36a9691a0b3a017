"""The lines of `refactx query`: from a pipe, or typed on a terminal with Tab completing names."""

from collections.abc import Callable, Iterator
from contextlib import suppress

import click

from refactx.cli.plain import standard_input
from refactx.cli.query.completion import Completer, LineCompleter
from refactx.index.index import Index

HELP = "a question, or a query such as count <Louisiana> <nickname>: Tab completes names, Ctrl-D ends"
_PROMPT = "query> "


def read_piped() -> Iterator[str]:
    """Yield the lines of standard input that are not empty."""
    for text in standard_input():
        if text.strip():
            yield text.strip()


def complete_lines(make: Callable[[Callable[[], str]], LineCompleter]) -> None:
    """Give `input` a history, editing keys and completions, if Python has `readline`.

    `make`: returns the completer, given a function that returns the line so far.
    """
    with suppress(ImportError):
        import readline

        readline.set_completer_delims("<")
        readline.set_completer(make(readline.get_line_buffer).complete)
        is_libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")


def read_typed(index: Index) -> Iterator[str]:
    """Yield lines that are typed on a terminal, with a history and completions. Ctrl-C begins the line again."""
    complete_lines(lambda buffer: Completer(index, buffer))
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
