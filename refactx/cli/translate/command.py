"""The command `refactx translate`."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from refactx.cli.help import GroupedCommand
from refactx.cli.options import DB, JSON, engine_options, engine_options_of, print_json
from refactx.cli.plain import row_of
from refactx.cli.translate.options import (
    RUNNING,
    WRITING,
    Models,
    TranslatorOptions,
    open_translator,
    translator_options,
)
from refactx.fact import counted

if TYPE_CHECKING:
    from refactx.nl2sparql import Event, Translation

SHOWN = 10
"""The most rows that are printed below a query."""
MACHINE = ("db", "engine", "dtype", "device", "gpu_layers", "threads", "context")


@click.command(
    cls=GroupedCommand,
    groups={"What writes": WRITING, "What runs, and bounds": RUNNING, "Database and machine": MACHINE},
)
@click.argument("questions", nargs=-1, required=True, metavar="QUESTION...")
@click.option("--pack", "pack_name", required=True, metavar="PACK", help="liita, wikidata, or a folder.")
@click.option("--agent", is_flag=True, help="Plan, verify and explore as well.")
@click.option("--stream", is_flag=True, help="Print each step as it ends.")
@click.option("--validate/--no-validate", "validates", default=True, help="Check and repair; default: on.")
@click.option("--run/--no-run", "runs", default=True, help="Run the query to check it; default: on.")
@JSON
@translator_options
@DB
@engine_options
def translate(questions: tuple[str, ...], pack_name: str, stream: bool, as_json: bool, **given: Any) -> None:
    """Write the SPARQL of questions for the endpoint of a domain pack.

    The model is shown examples of the pack that are like the question, and its rules. What it writes is checked (syntax,
    rules, names, and by running it), and written again with what was wrong.
    """
    from refactx.nl2sparql import load_pack

    models = Models(engine_options_of(given, texts=1, beams=1))
    options = TranslatorOptions(**given)
    options.check()
    with ExitStack() as stack:
        translator = open_translator(load_pack(pack_name), options, models, stack)
        for question in questions:
            last = None
            for event in translator.stream(question):
                last = event
                if stream:
                    _print_event(event, as_json)
            if last is not None and last.translation is not None and not (stream and as_json):
                _print_translation(last.translation, as_json)


def _print_event(event: "Event", as_json: bool) -> None:
    if as_json:
        print_json(event.to_json())
        return
    if event.node != "output":
        click.echo(f"[{event.node}] {_line_of(event)}", err=True)


def _line_of(event: "Event") -> str:
    detail = event.detail
    match event.node:
        case "analyse":
            return f"{', '.join(detail.get('patterns', ())) or 'no pattern'} ({detail.get('complexity', 'simple')})"
        case "plan":
            return "; ".join(detail.get("plan", ())) or "no steps"
        case "retrieve":
            return ", ".join(f"{name} {score:.2f}" for name, score in detail.get("examples", ())) or "no examples"
        case "generate":
            return " ".join((detail.get("sparql") or "no query").split())
        case "execute":
            found = "; ".join(detail.get("problems", ()))
            return found or ("right" if detail.get("rows") is None else f"right, {counted(detail['rows'], 'row')}")
        case "verify":
            return detail.get("doubt") or "it asks what the question asks"
        case "explore":
            return " ".join(detail.get("properties", ())) or "nothing found"
        case _:
            return "; ".join(detail.get("problems", ()))


def _print_translation(found: "Translation", as_json: bool) -> None:
    if as_json:
        print_json(found.to_json())
        return
    if found.sparql is None:
        click.echo(f"no query: {found.reason or 'the model wrote none'}")
        return
    click.echo(found.sparql)
    rows = "" if found.rows is None else f", {counted(found.rows, 'row')}"
    sure = "" if found.confidence is None else f", confidence {found.confidence:.2f}"
    tried = f", {len(found.attempts)} attempts" if len(found.attempts) > 1 else ""
    click.echo(f"# {'valid' if found.valid else 'not valid'}{rows}{sure}{tried}")
    best = next((one for one in found.attempts if one.sparql == found.sparql), None)
    report = None if best is None else best.report
    if report is not None and report.answer is not None:
        click.echo(f"#   {'yes' if report.answer else 'no'}")
    for row in () if report is None else report.rows[:SHOWN]:
        click.echo(f"#   {row_of(row)}")
    if report is not None and len(report.rows) > SHOWN:
        click.echo("#   ...")
    for problem in () if best is None else best.problems:
        click.echo(f"# {problem}")
    if found.reason:
        click.echo(f"# {found.reason}")
