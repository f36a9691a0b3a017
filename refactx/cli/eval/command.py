"""`refactx eval`: a report on the answers to questions whose answers are known."""

from pathlib import Path
from typing import Any

import click

from refactx.cli.eval.packs import PACK_GROUP, drop_pack_options, evaluate_pack_given, pack_options
from refactx.cli.eval.policies import POLICY_GROUP, drop_unused, evaluate_given, policy_options
from refactx.cli.eval.printing import print_report
from refactx.cli.eval.shards import SHARD
from refactx.cli.help import GroupedCommand
from refactx.cli.options import (
    BATCH_SIZE,
    DB,
    GENERATION_GROUPS,
    INDEX,
    JSON,
    MACHINE_GROUP,
    MODEL,
    PROMPT,
    RUN_FOLDER,
    engine_options,
    engine_options_of,
    generation_of,
    generation_options,
    question_options,
)
from refactx.errors import InputError

_GROUPS = {
    "Questions and judge": ("split", "kinds", "limit", "shard", "judge", "judge_url"),
    "SPARQL of policies": POLICY_GROUP,
    "Domain packs": PACK_GROUP,
    **GENERATION_GROUPS,
    "Database and machine": MACHINE_GROUP,
}


@click.command("eval", cls=GroupedCommand, groups=_GROUPS)
@click.argument("questions", type=click.Path(path_type=Path), required=False)
@MODEL
@INDEX
@click.option("--free", is_flag=True, help="Also ask the model alone, and compare.")
@PROMPT
@RUN_FOLDER
@click.option("--judge", metavar="MODEL", help="Also have a language model judge the answers.")
@click.option("--judge-url", metavar="URL", help="Its OpenAI-like API; key: $REFACTX_JUDGE_KEY.")
@question_options("all")
@SHARD
@policy_options
@pack_options
@generation_options
@JSON
@DB
@BATCH_SIZE
@engine_options
def eval_(as_json: bool, **given: Any) -> None:
    """Score answers to a file of questions; the same command continues a run."""
    if given["pack_name"] is not None:
        return evaluate_pack_given(given, as_json)
    if given["questions"] is None:
        raise InputError("there are no questions: give a file, or --pack PACK for the cases of a domain pack")
    drop_pack_options(given)
    if given["sparql"] is not None:
        return evaluate_given(given, as_json)
    drop_unused(given)
    from refactx.eval.evaluation import EvaluationOptions, evaluate
    from refactx.eval.render import lines

    generation = generation_of(given)
    engine = engine_options_of(given, given["batch_size"], generation.num_beams)
    options = EvaluationOptions(generation=generation, engine=engine, **given)
    try:
        report = evaluate(options)
    except KeyboardInterrupt:
        click.echo(f"stopped; the same command continues the run in {options.folder}", err=True)
        raise
    return print_report(
        report, lines, as_json, f"{options.folder / 'report.html'}, report.md and report.json beside it"
    )
