"""`refactx calibrate`: the threshold of the confidence that fits a model, an index and a prompt best."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from refactx.ask.prompt import GREEDY
from refactx.cli import options as common
from refactx.cli.eval import run_task
from refactx.cli.help import MODELS, GroupedCommand
from refactx.errors import InputError
from refactx.fact import counted

if TYPE_CHECKING:
    from refactx.eval.statistics import Estimate

FLOOR = 0.0
"""The threshold of the run: an answer below it makes the question less likely than no fact does."""
FEW = 100
"""With fewer questions, the 95% interval of a share is wider than 20 points."""


@click.command(cls=GroupedCommand, groups={"Database and machine": common.MACHINE_GROUP})
@click.argument("questions", type=click.Path(path_type=Path), required=False)
@click.option("--model", metavar="MODEL", help="Hugging Face id, folder, GGUF; or demo.")
@common.INDEX
@click.option(
    "--run", type=click.Path(path_type=Path), metavar="FOLDER", help="Take a run of refactx eval; ask nothing."
)
@click.option(
    "--precision",
    type=common.Number(0, 1, min_open=True),
    metavar="P",
    help="At least P; default: most right minus wrong ones; names: 0.5.",
)
@click.option("--pack", "pack_name", metavar="PACK", help="Calibrate translations by a pack, from --run.")
@click.option("--mode", type=click.Choice(["repair", "agent"]), metavar="MODE", help="--pack: repair or agent.")
@common.PROMPT
@common.WEIGHTS
@click.option(
    "--save", type=click.Path(path_type=Path), metavar="FILE", help="Write the weights with this confidence there."
)
@common.question_options("tune")
@common.NEW_TOKENS
@common.RUN_FOLDER
@common.JSON
@common.DB
@common.BATCH_SIZE
@common.engine_options
def calibrate(
    questions: Path | None,
    run: Path | None,
    precision: float | None,
    pack_name: str | None,
    mode: str | None,
    weights: Path | None,
    save: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Find the confidence that answers need, or how similar names have to be, by questions whose answers are known. The same
    command continues a stopped run. With --run of `refactx eval --sparql placeholders`: learn --tau, the similarity of
    names. With --pack: fit the confidence of translations to a run of `refactx eval --pack`, for that model.
    """
    from refactx.eval.calibration import calibrate as find
    from refactx.eval.calibration import report_in
    from refactx.eval.policy_task import PolicyTask
    from refactx.selection.weights import Weights, load_weights, weights_file

    if pack_name is not None:
        return _calibrate_pack(pack_name, run, mode, as_json)
    if mode is not None:
        raise InputError("--mode is of packs: give --pack with it")
    if (questions is None) == (run is None):
        raise InputError("give either a file of questions or --run with the folder of a run of refactx eval")
    if run is not None and report_in(run).get("task") == PolicyTask.name:
        if save is not None:
            raise InputError("--save writes weights of answers: thresholds of names are given by --tau")
        return _calibrate_names(run, given["db"], precision, as_json)
    folder = run if run is not None else _ask(questions, weights=weights, **given)
    found = find(folder, precision)
    if save is not None:
        base = Weights() if weights is None else load_weights(weights)
        save.write_text(weights_file(replace(base, min_confidence=found.min_confidence)), encoding="utf-8")
    _warn_of_few(found.point.of, "question")
    if as_json:
        return common.print_json({"run": str(folder), **found.to_json()})
    click.echo(f"{counted(found.point.of, 'question')} in {folder}; AUC of the confidence {_interval(found.auc)}")
    click.echo(f"{'confidence':>10} {'answered':>9} {'accuracy':>9} {'precision':>10} {'refusal accuracy':>17}")
    for row in found.table:
        threshold = "any" if row["threshold"] is None else f"{row['threshold']:g}"
        shown = [_number(row[name]) for name in ("answered", "accuracy", "precision", "refusal_accuracy")]
        click.echo(f"{threshold:>10} {shown[0]:>9} {shown[1]:>9} {shown[2]:>10} {shown[3]:>17}")
    aim = "the most right answers minus wrong ones" if precision is None else f"a precision of at least {precision:g}"
    click.echo(
        f"best for {aim}: {found.point.right} right and {found.point.wrong} wrong answers, precision "
        f"{_interval(found.precision)}"
    )
    if math.isfinite(found.floor) and found.floor > FLOOR:
        click.echo(
            f"this run has no answers by facts below {found.floor:g}: --min-confidence {FLOOR:g} in refactx eval has them"
        )
    click.echo(
        f"use it with `refactx ask --min-confidence {found.min_confidence:g}`, or write "
        f"`min_confidence = {found.min_confidence:g}` in the prompt file"
        + ("" if save is None else f"; {save} has all weights, for --weights")
    )
    return None


def _calibrate_names(run: Path, db: str | None, precision: float | None, as_json: bool) -> None:
    from refactx.eval.calibration import calibrate_names

    found = calibrate_names(run, db, 0.5 if precision is None else precision)
    _warn_of_few(sum(kind.names for kind in found.kinds.values()), "name")
    if as_json:
        return common.print_json(found.to_json())
    click.echo(f"names in {run} that the index does not have as written; AUC of the similarity {_interval(found.auc)}")
    click.echo(f"{'kind':>10} {'names':>6} {'right':>6} {'least similarity':>17}")
    for name, kind in found.kinds.items():
        click.echo(f"{name:>10} {kind.names:>6} {kind.right:>6} {_number(kind.least):>17}")
    tau = ",".join(f"{name}={kind.least:g}" for name, kind in found.kinds.items() if kind.least is not None)
    click.echo(f"use it with `--policy placeholders --tau {tau}`")
    return None


def _warn_of_few(number: int, what: str) -> None:
    if number < FEW:
        click.echo(f"refactx: figures from {counted(number, what)} are not reliable: give at least {FEW}", err=True)


def _calibrate_pack(name: str, run: Path | None, mode: str | None, as_json: bool) -> None:
    from refactx.eval.calibration import calibrate_pack
    from refactx.sparql.packs.pack import load_pack
    from refactx.sparql.packs.translation import FEATURES, save

    if run is None:
        raise InputError(
            "a calibration of a pack is made from translations with scores: give --run FOLDER of refactx eval --pack"
        )
    found = calibrate_pack(run, load_pack(name), mode)
    path, made = save(found.calibration), found.calibration
    _warn_of_few(made.translations, "translation")
    coefficients = dict(zip(FEATURES, made.coefficients, strict=True))
    if as_json:
        return common.print_json(
            {
                "pack": made.pack,
                "model": made.model,
                "mode": found.mode,
                "translations": made.translations,
                "coefficients": coefficients,
                "auc": found.auc.to_json(),
                "brier": round(found.brier, 4),
                "brier_of_a_constant": round(found.constant, 4),
                "file": str(path),
            }
        )
    click.echo(
        f"{counted(made.translations, 'translation')} by {made.model} ({found.mode}); AUC {_number(found.auc.value)}"
    )
    click.echo(f"Brier score on those left out {found.brier:.3f}, of a constant {found.constant:.3f}")
    for feature, value in coefficients.items():
        click.echo(f"{feature:>14} {value:7.2f}")
    click.echo(
        f"refactx translate --pack {made.pack} --model {made.model} now says how likely a query is right ({path})"
    )
    return None


def _ask(questions: Path | None, **given: Any) -> Path:
    """Ask the questions, and return the folder of the run."""
    from refactx.eval.answer_task import AnswerTask

    if questions is None or given["model"] is None:
        raise InputError(
            f"there is no model to ask: give --model ({MODELS}), or --run with the folder of a run of refactx eval"
        )
    generation = replace(GREEDY, min_confidence=FLOOR, max_new_tokens=given.pop("max_new_tokens"))
    engine = common.engine_options_of(given, given["batch_size"], 1)
    task = AnswerTask(questions=questions, generation=generation, engine=engine, **given)
    if task.out is None:
        task.out = task.folder.with_name(f"{task.folder.name}-calibrate")
    run_task(task)
    return task.folder


def _interval(value: "Estimate") -> str:
    return f"{_number(value.value)} ({_number(value.low)} to {_number(value.high)})"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
