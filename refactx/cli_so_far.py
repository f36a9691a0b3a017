"""What a command shows of a generation that an error broke off."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from refactx.cli_options import print_json
from refactx.errors import RefactxError, without_password


@contextmanager
def shown_so_far(as_json: bool) -> Iterator[None]:
    """Print what an error that leaves the block broke off: plainly as any answer, in JSON with the error beside it."""
    try:
        yield
    except RefactxError as error:
        from refactx.answer_text import render

        for answer in error.partial.answers if error.partial else ():
            if as_json:
                print_json(answer.to_json() | {"error": without_password(str(error))})
            else:
                click.echo(render(answer, color=sys.stdout.isatty()))
        raise
