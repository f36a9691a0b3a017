"""The group `refactx sparql`."""

import click

from refactx.cli.help import OrderedGroup
from refactx.cli.sparql.from_pgmr import from_pgmr
from refactx.cli.sparql.to_pgmr import to_pgmr


@click.group(cls=OrderedGroup, invoke_without_command=True)
@click.pass_context
def sparql(context: click.Context) -> None:
    """Convert SPARQL to text with names in place of URIs, and back."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


sparql.add_command(to_pgmr)
sparql.add_command(from_pgmr)
