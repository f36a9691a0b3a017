"""The command `refactx validate`."""

from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from refactx.cli.help import GroupedCommand
from refactx.cli.options import DB, INDEX, JSON, Number, index_opener, print_json
from refactx.cli.views import query_text
from refactx.fact import counted

if TYPE_CHECKING:
    from refactx.sparql.engines import SparqlEngine
    from refactx.sparql.packs.pack import Pack
    from refactx.sparql.packs.validation import ValidationReport


@click.command(cls=GroupedCommand, groups={"Running": ("run_on", "timeout", "rows", "index", "db")})
@click.argument("query", metavar="QUERY")
@click.option("--pack", "pack_name", required=True, metavar="PACK", help="liita, wikidata, or a folder.")
@click.option("--question", metavar="TEXT", help="The query has to have the names of this question.")
@click.option(
    "--run-on", metavar="WHERE", help="pack (its own), URL, RDF file, index, store, tree, invented; default: nowhere."
)
@click.option(
    "--timeout",
    default=30.0,
    show_default=True,
    type=Number(0, min_open=True),
    metavar="SECONDS",
    help="The query may take so long.",
)
@click.option("--rows", default=5, show_default=True, type=click.IntRange(1), metavar="N", help="Read N rows at most.")
@INDEX
@DB
@JSON
@click.pass_context
def validate(
    context: click.Context,
    /,
    query: str,
    pack_name: str,
    question: str | None,
    run_on: str | None,
    timeout: float,
    rows: int,
    index: str,
    db: str | None,
    as_json: bool,
) -> None:
    """Check a SPARQL query for the endpoint of a domain pack.

    QUERY is a query, a file with one, or - for standard input. Its syntax is checked (L1), the pack's rules, names and
    the use of variables (L2), and, with --run-on, its result (L3). The exit code is 0 for a valid query, else 1.
    """
    from refactx.sparql.engines import EngineError
    from refactx.sparql.packs.invented import engine_for
    from refactx.sparql.packs.pack import load_pack
    from refactx.sparql.packs.validation import QuestionCheck
    from refactx.sparql.packs.validation import validate as checked

    pack = load_pack(pack_name)
    with ExitStack() as stack:
        engine = None if run_on is None else engine_for(pack, run_on, index_opener(stack, index, db))
        if engine is not None:
            stack.callback(engine.close)
        asked = None if question is None else QuestionCheck(question, pack, engine)
        report = checked(query_text(query), pack, engine, question=asked, rows=rows, seconds=timeout)
        if as_json:
            print_json(report.to_json())
        if report.failure:
            raise EngineError(report.failure)
        if not as_json:
            _print(report, pack, engine)
    context.exit(0 if report.ok else 1)


def _print(report: "ValidationReport", pack: "Pack", engine: "SparqlEngine | None") -> None:
    from refactx.cli.sparql import table_at

    for problem in report.problems:
        click.echo(f"{problem.level} {problem.code}: {problem.text}\n   {problem.hint}")
    if not report.ok:
        return
    if report.answer is not None:
        click.echo(f"valid: {'yes' if report.answer else 'no'}")
    elif report.count is None:
        click.echo("valid")
    else:
        more = "at least " if report.truncated else ""
        click.echo(f"valid: {more}{counted(report.count, 'row')}")
        for text in table_at(engine, report.variables, report.rows, pack.languages):
            click.echo(f"  {text}")
