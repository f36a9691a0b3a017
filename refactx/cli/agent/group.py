"""The commands `refactx agent`: about the machine by which `refactx translate --agent` works."""

import click

from refactx.cli.help import OrderedGroup


@click.group(cls=OrderedGroup)
def agent() -> None:
    """Show how questions are translated."""


@agent.command()
def graph() -> None:
    """Print the steps and the ways between them as a Mermaid flow chart."""
    from refactx.nl2sparql.agent import mermaid

    click.echo(mermaid())
