"""`refactx ask --chat`: a conversation, question by question.

Earlier turns go into the prompt unchanged, with their facts. An answer may repeat a fact of an earlier turn, since each
answer needs its own proof. A turn that was interrupted or cut off is left out: the model would imitate half a fact.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress

import click

from refactx.asking.prompt import Example
from refactx.cli.views import View
from refactx.errors import InputError, RefactxError, without_password

HELP = "/new begins a new conversation, /quit or Ctrl-D ends it; Ctrl-C ends an answer"
_PROMPT = "> "


def converse(view: View, questions: Sequence[str] = ()) -> None:
    """Ask `questions`, then those on standard input, each after the earlier turns."""
    with suppress(ImportError):
        import readline  # noqa: F401  (gives input() a history and editing keys)

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
        click.echo(f"({turns} left out: they exceed the context of the model)", err=True)
    if answer.finish_reason == "stop":
        history.append(Example(question, answer.text))


def _read() -> str | None:
    """Return the next line; None at the end. Ctrl-C begins the line again."""
    while True:
        try:
            if not sys.stdin.isatty():
                return input()
            if sys.stdout.isatty():
                return input(_PROMPT)
            click.echo(_PROMPT, nl=False, err=True)
            return input()
        except UnicodeDecodeError as error:
            raise InputError(f"standard input is not text in UTF-8: {error}") from None
        except EOFError:
            if sys.stdin.isatty():
                click.echo(err=True)
            return None
        except KeyboardInterrupt:
            click.echo(f"\n{HELP}", err=True)
