"""The option of a shard."""

from typing import TYPE_CHECKING

import click

from refactx.errors import InputError

if TYPE_CHECKING:
    from refactx.eval.logs import Shard


def _shard(_context: click.Context, _parameter: click.Parameter, given: str) -> "Shard":
    from refactx.eval.logs import Shard

    try:
        return Shard.parse(given)
    except InputError as error:
        raise click.BadParameter(str(error)) from None


SHARD = click.option(
    "--shard", default="1/1", callback=_shard, metavar="I/N", help="Ask the Ith of N parts; without it: report."
)
