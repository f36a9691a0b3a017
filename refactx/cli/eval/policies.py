"""The options of `refactx eval --sparql`, and its report."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import click
from click.core import ParameterSource

from refactx.ask.prompt import Generation
from refactx.cli.eval.printing import print_report
from refactx.cli.options import Number, engine_options_of
from refactx.cli.query import SECONDS, check_place
from refactx.errors import InputError

POLICY_GROUP = (
    "sparql", "model_url", "sparql_prompt", "grammar", "tau", "run_on", "timeout", "ablate_names", "distractors",
)  # fmt: skip
_OF_ANSWERS = ("free", "judge", "judge_url", "batch_size", *(field.name for field in fields(Generation)))
MOST = 9
"""The most times that a memory grows."""


def _names(_context: click.Context, _parameter: click.Parameter, given: str | None) -> tuple[str, ...] | None:
    return None if given is None else tuple(dict.fromkeys(filter(None, map(str.strip, given.split(",")))))


def _shares(_context: click.Context, _parameter: click.Parameter, given: str | None) -> tuple[float, ...]:
    try:
        shares = tuple(float(text) for text in (given or "").split(",") if text.strip())
    except ValueError:
        shares = (0.0,)
    if not all(0 < share < 1 for share in shares):
        raise click.BadParameter(f"{given} is no list of shares between 0 and 1: give one such as 0.1,0.3,0.5")
    return shares


def _factors(_context: click.Context, _parameter: click.Parameter, given: str | None) -> tuple[int, ...]:
    """Return the factors of a range such as 2..9, or of a list such as 2,5."""
    first, dots, last = (given or "").partition("..")
    try:
        numbers = [int(text) for text in ([first, last] if dots else first.split(",")) if text.strip()]
    except ValueError:
        numbers = [0]
    factors = tuple(range(numbers[0], numbers[-1] + 1)) if dots and len(numbers) == 2 else tuple(numbers)
    if not all(1 < factor <= MOST for factor in factors) or (given and not factors):
        raise click.BadParameter(f"{given} is no list of factors from 2 to {MOST}: give one such as 2..{MOST} or 2,5")
    return factors


_OPTIONS = (
    click.option(
        "--sparql", callback=_names, metavar="POLICY,...", help="Score queries of these, such as open,strict."
    ),
    click.option("--model-url", metavar="URL", help="OpenAI-compatible server of the model."),
    click.option("--sparql-prompt", default="sparql", metavar="PROMPT", help="sparql or a .toml file."),
    click.option("--grammar/--no-grammar", default=True, help="open: only SPARQL with names; default: on."),
    click.option("--tau", type=Number(0, 1), metavar="X", help="open: similarity that names need."),
    click.option("--run-on", metavar="WHERE", help="tree, store or URL; default: the store."),
    click.option("--timeout", default=SECONDS, type=Number(0, min_open=True), metavar="SECONDS", help="Of a query."),
    click.option("--ablate-names", callback=_shares, metavar="X,...", help="open: without these shares of names."),
    click.option("--distractors", callback=_factors, metavar="N..M", help="open: with N to M times as many names."),
)


def policy_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of policies to a command; `evaluate_given` and `drop_unused` read them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def drop_unused(given: dict[str, Any]) -> None:
    """Remove the options of policies from those of a command without `--sparql`. Raise InputError if one was given."""
    for name in POLICY_GROUP:
        if is_typed(name):
            raise InputError(f"--{name.replace('_', '-')} is of policies: give --sparql POLICY,... with it")
        given.pop(name)


def is_typed(name: str) -> bool:
    """Return whether the user gave an option of the command that runs."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def evaluate_given(given: dict[str, Any], as_json: bool) -> None:
    """Evaluate the policies of a command's options, and print the report."""
    from refactx.eval.policies import PolicyEvaluationOptions, evaluate_policies
    from refactx.eval.policies.render import lines

    for name in _OF_ANSWERS:
        if is_typed(name):
            raise InputError(f"--{name.replace('_', '-')} is of answers, and --sparql scores queries: leave one out")
    check_place(given["run_on"])
    engine = engine_options_of(given, 1, 1)
    for name in _OF_ANSWERS:
        given.pop(name, None)
    policies, ablate = given.pop("sparql"), given.pop("ablate_names")
    options = PolicyEvaluationOptions(policies=policies, ablate=ablate, engine=engine, **given)
    try:
        report = evaluate_policies(options)
    except KeyboardInterrupt:
        click.echo(f"stopped; the same command continues the run in {options.folder}", err=True)
        raise
    return print_report(
        report, lines, as_json, f"{options.folder / 'report.html'}, report.md and report.json beside it"
    )
