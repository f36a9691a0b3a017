"""The queries of `refactx sparql` that are typed: over several lines, with Tab completing names."""

from collections.abc import Callable, Iterator

import click

from refactx.cli.query.completion import LineCompleter
from refactx.cli.query.reading import complete_lines
from refactx.sparql.completion import completions
from refactx.sparql.names import Names
from refactx.sparql.syntax import tokens_of

HELP = (
    "a query such as SELECT ?x { <Alaska> <capital> ?x }: Tab completes names, an empty line ends a query, Ctrl-D ends"
)
PROMPT, MORE = "sparql> ", "   ...> "


class _Completer(LineCompleter):
    """A completer of a query whose first lines are `lines`."""

    def __init__(self, buffer: Callable[[], str], lines: list[str], names: Callable[[], Names]) -> None:
        super().__init__(buffer)
        self._lines, self._names = lines, names

    def completions(self, typed: str) -> list[str]:
        return completions("\n".join([*self._lines, typed]), self._names())


def read_typed(names: Callable[[], Names]) -> Iterator[str]:
    """Yield queries that are typed on a terminal. One ends with its last bracket, or with an empty line.

    Ctrl-C begins it again. `names`: returns the names of the index, when the first one is completed.
    """
    lines = list[str]()
    complete_lines(lambda buffer: _Completer(buffer, lines, names))
    click.echo(HELP, err=True)
    while True:
        try:
            typed = input(MORE if lines else PROMPT)
        except EOFError:
            click.echo(err=True)
            return
        except KeyboardInterrupt:
            click.echo(f"\n{HELP}", err=True)
            lines.clear()
            continue
        if not lines and typed.strip() in ("/quit", "/exit"):
            return
        lines.append(typed)
        text = "\n".join(lines).strip()
        if text and (not typed.strip() or is_whole(text)):
            yield text
        if not text or not typed.strip() or is_whole(text):
            lines.clear()


def is_whole(text: str) -> bool:
    """Return whether a query needs no more lines: it has brackets, and all of them are closed.

    >>> is_whole("SELECT ?x {"), is_whole("SELECT ?x { ?x ?y '{' }")
    (False, True)
    """
    depth, has_any = 0, False
    for token in tokens_of(text):
        if token.kind == "other" and token.text in "{}":
            depth, has_any = depth + (1 if token.text == "{" else -1), True
    return has_any and depth <= 0
