"""The command `refactx sparql`, which runs a query, and its subcommands."""

from typing import Any

import click
from click.core import ParameterSource

from refactx.cli.help import OrderedGroup
from refactx.cli.options import DB, INDEX, JSON
from refactx.cli.sparql.from_pgmr import from_pgmr
from refactx.cli.sparql.to_pgmr import to_pgmr
from refactx.errors import InputError

ENGINES = ("auto", "store", "tree")
FORMATS = ("table", "csv", "tsv", "json")
SECONDS = 60.0


class QueryGroup(OrderedGroup):
    """A group that is a command too: arguments are its own unless the first one is the name of a subcommand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Leave the arguments of the command in `ctx.args`."""
        if args and args[0] in self.commands:
            return super().parse_args(ctx, args)
        ctx.allow_interspersed_args = True
        ctx.args = click.Command.parse_args(self, ctx, args)
        return ctx.args


@click.group(
    cls=QueryGroup,
    invoke_without_command=True,
    no_args_is_help=False,
    subcommand_metavar="[QUERY] | COMMAND [ARGS]...",
)
@INDEX
@click.option(
    "--engine",
    default="auto",
    show_default=True,
    type=click.Choice(ENGINES),
    metavar="ENGINE",
    help="store, tree; auto: store if there is one.",
)
@click.option("--endpoint", metavar="URL", help="Ask a SPARQL endpoint instead of the index.")
@click.option(
    "--format",
    "form",
    default=None,
    type=click.Choice(FORMATS),
    metavar="FORMAT",
    help="table (default), csv, tsv or json.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most N rows; default: all, table: 50.")
@click.option(
    "--timeout",
    default=SECONDS,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="At most so long.",
)
@click.option("--explain", is_flag=True, help="Print the query with ids, and why it has no rows.")
@JSON
@DB
@click.pass_context
def sparql(context: click.Context, /, as_json: bool, form: str | None, **given: Any) -> None:
    """Run a SPARQL query, or convert SPARQL to text with names in place of URIs.

    A QUERY is a SELECT or ASK with ids (wd:Q797 wdt:P36 ?x) or with labels in angle brackets (<Alaska> <capital> ?x),
    or a file with one. Wikidata's prefixes need no declaration. Without QUERY, queries are read from the terminal, where
    Tab completes names; with - or from a pipe, all of standard input is one query.
    """
    if context.invoked_subcommand is not None:
        return
    from refactx.cli.sparql.running import Settings, run_queries

    if as_json and form not in (None, "json"):
        raise InputError(f"--json and --format {form} exclude each other: give one of them")
    if given["endpoint"] is not None and given["engine"] != "auto":
        raise InputError("--endpoint and --engine exclude each other: an endpoint is an engine of its own")
    sources = (context.get_parameter_source(name) for name in ("index", "db"))
    run_queries(
        context.args,
        Settings(
            form="json" if as_json else form or "table",
            names_index=any(source is not ParameterSource.DEFAULT for source in sources),
            **given,
        ),
    )


sparql.add_command(to_pgmr)
sparql.add_command(from_pgmr)
