"""Queries that are typed, line by line, with Tab completing names."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

import click

from refactx.cli.views import standard_input
from refactx.errors import RefactxError, without_password
from refactx.index.index import Index
from refactx.sparql.labels import completions
from refactx.sparql.syntax.tokens import tokens_of
from refactx.walks.facts import TreeFacts
from refactx.walks.language import HEADS, OPERATORS, Hop, Query
from refactx.walks.resolve import resolve

MOST = 30
"""The most completions."""
SAMPLE = 20
"""The most members that stand for a set."""
_TOKEN = re.compile(r"<([^<>]*)>[+*]?|starts\s+with|[a-z]+")
QUERY_HELP = "a question, or a query such as count <Louisiana> <nickname>: Tab completes names, Ctrl-D ends"
_PROMPT = "query> "

SPARQL_HELP = (
    "a query such as SELECT ?x { <Alaska> <capital> ?x }: Tab completes names, an empty line ends a query, Ctrl-D ends"
)
PROMPT, MORE = "sparql> ", "   ...> "
RESET = "\0"
_ENDS = ("/quit", "/exit")


class ReadlineCompletion:
    """What `readline` completes, with `<` as the only delimiter. `of`: returns completions of what follows the last `<` of
    a line; `buffer`: returns the line so far."""

    def __init__(self, of: Callable[[str], Sequence[str]], buffer: Callable[[], str]) -> None:
        self._of, self._buffer = of, buffer
        self._found: Sequence[str] = ()

    def complete(self, text: str, state: int) -> str | None:
        """Return a completion of the text after the last `<`, or of the first word; None if there are no more."""
        if state == 0:
            try:
                self._found = self._of(self._buffer())
            except RefactxError:  # an error would be printed into the line
                self._found = ()
        return self._found[state] if state < len(self._found) else None


class Completer:
    """A completer of walk lines."""

    def __init__(self, index: Index) -> None:
        self._facts = TreeFacts(index)

    def completions(self, typed: str) -> list[str]:
        """Return completions of what follows the last `<` of a line, with the closing bracket; of a head without one.

        completer.completions("count <Louisiana (state of the United States of America)> <nick")  # ["nickname>"]
        """
        before, opened, begun = typed.rpartition("<")
        if not opened:
            return [f"{head} <" for head in HEADS if head.startswith(typed)]
        if ">" in begun:
            return []
        names = [f"{name}>" for name in self._names(before, begun) if name.startswith(begun)]
        return list(dict.fromkeys(names))[:MOST]

    def _names(self, before: str, begun: str) -> Iterable[str]:
        """Yield names that may follow `before`, the line up to an opened bracket."""
        tokens = list(_TOKEN.finditer(before))
        parts = [token[1] for token in tokens]
        if not any(part is not None for part in parts):
            return self._facts.linker.entities_beginning(begun, MOST)
        first = next(place for place, part in enumerate(parts) if part is not None)
        start, _ = resolve(Query("list", parts[first] or "", (Hop(""),)), self._facts)
        members = own = [start.start]
        values: Sequence[str] = ()
        is_filter, wants_value = tokens[0].group() == "ask", False
        for token in tokens[first + 1 :]:
            word, name = " ".join(token.group().split()), token[1]
            if name is not None:
                pairs = islice(self._facts.objects(members[:SAMPLE], name), 10 * SAMPLE)
                members = list(dict.fromkeys(object_ for _, object_ in pairs))
                values = members if is_filter else ()
            elif word in ("which", "and", "by"):
                members = own = own if is_filter else members
                is_filter, wants_value, values = word != "by", False, ()
            elif word in OPERATORS:
                wants_value = True
        predicates = (name for member in members[:SAMPLE] for name in self._facts.predicates(member))
        return members if wants_value else [*values, *dict.fromkeys(predicates)]


def read_piped() -> Iterator[str]:
    """Yield the lines of standard input that are not empty."""
    for text in standard_input():
        if text.strip():
            yield text.strip()


def run_typed(texts: Iterable[str], run: Callable[[str], None]) -> None:
    """Run texts that are typed. An error of one is printed, and Ctrl-C ends only that one."""
    for text in texts:
        try:
            run(text)
        except RefactxError as error:
            click.echo(f"refactx: {without_password(str(error))}", err=True)
        except KeyboardInterrupt:
            click.echo("(interrupted)", err=True)


def complete_lines(completions: Callable[[str], Sequence[str]]) -> None:
    """Give `input` a history, editing keys and completions, if Python has `readline`."""
    with suppress(ImportError):
        import readline

        readline.set_completer_delims("<")
        readline.set_completer(ReadlineCompletion(completions, readline.get_line_buffer).complete)
        is_libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")


def _typed(help_text: str, prompt: Callable[[], str]) -> Iterator[str]:
    """Yield lines that are typed on a terminal, until Ctrl-D; for Ctrl-C, which begins anew, `RESET`."""
    click.echo(help_text, err=True)
    while True:
        try:
            yield input(prompt())
        except EOFError:
            click.echo(err=True)
            return
        except KeyboardInterrupt:
            click.echo(f"\n{help_text}", err=True)
            yield RESET


def read_typed_queries(index: Index) -> Iterator[str]:
    """Yield lines that are typed on a terminal, with a history and completions. Ctrl-C begins the line again."""
    complete_lines(Completer(index).completions)
    for typed in _typed(QUERY_HELP, lambda: _PROMPT):
        text = typed.strip()
        if text in _ENDS:
            return
        if text and typed != RESET:
            yield text


def read_typed_sparql(facts: Callable[[], TreeFacts]) -> Iterator[str]:
    """Yield queries that are typed on a terminal. One ends with its last bracket, or with an empty line.

    Ctrl-C begins it again. `facts`: returns the facts of the index, when the first one is completed.
    """
    lines = list[str]()
    complete_lines(lambda typed: completions("\n".join([*lines, typed]), facts()))
    for typed in _typed(SPARQL_HELP, lambda: MORE if lines else PROMPT):
        if typed == RESET:
            lines.clear()
            continue
        if not lines and typed.strip() in _ENDS:
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
