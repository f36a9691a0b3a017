"""What the commands share: options, and how a document is printed."""

import json
from typing import Any

import click

JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
DB = click.option(
    "--db",
    metavar="URL",
    help="PostgreSQL, e.g. postgresql://me@host/kb; default: $REFACTX_DB, else the embedded server.",
)
INDEX = click.option("--index", default="default", show_default=True, metavar="NAME", help="Name of the index.")


def print_json(document: Any, err: bool = False) -> None:
    """One document on one line of standard output (`err`: standard error, where standard output is taken)."""
    click.echo(json.dumps(document, ensure_ascii=False, default=str), err=err)
