"""`refactx ask --chat`: a conversation, question by question.

Earlier turns go into the prompt as they were, facts and all. A fact of theirs may be written again, since a new answer
needs its own proof. A turn that was interrupted or cut off is left out, or the model would learn from half a fact.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress

import click

from refactx.asking.prompt import Example
from refactx.cli.views import View
from refactx.errors import RefactxError, without_password

HELP = "/new begins a new conversation, /quit or Ctrl-D ends; Ctrl-C ends an answer"
_PROMPT = "> "


def chat(view: View, questions: Sequence[str] = ()) -> None:
    """Ask these questions, then those that come on standard input, each with the turns before it."""
    with suppress(ImportError):
        import readline  # noqa: F401  (input() then has a history and keys to edit with)

    waiting, history = list(questions), list[Example]()
    if sys.stdin.isatty():
        click.echo(HELP, err=True)
    while (text := waiting.pop(0) if waiting else _read()) is not None:
        match text.strip():
            case "":
                continue
            case "/quit" | "/exit":
                return
            case "/new":
                history.clear()
                click.echo("a new conversation", err=True)
            case command if command.startswith("/"):
                click.echo(HELP, err=True)
            case question:
                _turn(view, question, history)


def _turn(view: View, question: str, history: list[Example]) -> None:
    try:
        answer = view.ask(question, history)
    except RefactxError as error:
        click.echo(f"refactx: {without_password(str(error))}", err=True)
        return
    if answer.turns_left_out:
        del history[: answer.turns_left_out]
        turns = "1 earlier turn was" if answer.turns_left_out == 1 else f"{answer.turns_left_out} earlier turns were"
        click.echo(f"({turns} left out: the model has no room for more)", err=True)
    if answer.finish_reason == "stop":
        history.append(Example(question, answer.text))


def _read() -> str | None:
    """The next line; None at the end. Ctrl-C begins the line again."""
    while True:
        try:
            if not sys.stdin.isatty():
                return input()
            if sys.stdout.isatty():
                return input(_PROMPT)
            click.echo(_PROMPT, nl=False, err=True)
            return input()
        except EOFError:
            if sys.stdin.isatty():
                click.echo(err=True)
            return None
        except KeyboardInterrupt:
            click.echo(f"\n{HELP}", err=True)
