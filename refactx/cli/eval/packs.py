"""The options of `refactx eval --pack`, and its report."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from refactx.cli.eval.policies import is_typed
from refactx.cli.eval.printing import print_report
from refactx.cli.options import engine_options_of
from refactx.errors import InputError

if TYPE_CHECKING:
    from refactx.eval.packs import Mode
    from refactx.eval.packs.cases import Case
    from refactx.nl2sparql import Translator

PACK_GROUP = ("pack_name", "modes", "policy", "source", "language", "category", "encoder")
MODES = ("prompt", "retrieval", "repair", "agent")
_USED = {
    *PACK_GROUP,
    "model",
    "model_url",
    "grammar",
    "run_on",
    "questions",
    "split",
    "kinds",
    "limit",
    "shard",
    "out",
    "as_json",
    "db",
    "index",
    "batch_size",
}
_MACHINE = {"engine", "dtype", "device", "gpu_layers", "threads", "context"}


def _modes(_context: click.Context, _parameter: click.Parameter, given: str) -> tuple[str, ...]:
    modes = tuple(dict.fromkeys(filter(None, map(str.strip, given.split(",")))))
    if not modes or not set(modes) <= set(MODES):
        raise click.BadParameter(f"{given} is no list of {', '.join(MODES)}")
    return modes


_OPTIONS = (
    click.option("--pack", "pack_name", metavar="PACK", help="Score translations, by default of its cases."),
    click.option("--modes", default=",".join(MODES), callback=_modes, metavar="MODE,...", help="Default: all four."),
    click.option(
        "--policy",
        default="text",
        type=click.Choice(["text", "strict"]),
        metavar="POLICY",
        help="text, or strict: walks of --index.",
    ),
    click.option(
        "--source", default="cases", type=click.Choice(["cases", "examples"]), metavar="SET", help="cases, or examples."
    ),
    click.option("--language", metavar="LANGUAGE", help="Of the questions, such as it."),
    click.option("--category", metavar="CATEGORY", help="These cases alone, such as complex."),
    click.option("--encoder", metavar="MODEL", help="Compare questions by it too: minilm."),
)


def pack_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of packs to a command; `evaluate_pack_given` and `drop_pack_options` read them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def drop_pack_options(given: dict[str, Any]) -> None:
    """Remove the options of packs from those of a command without `--pack`. Raise InputError if one was given."""
    for name in PACK_GROUP:
        if is_typed(name):
            raise InputError(f"--{name.replace('_', '-')} is of packs: give --pack with it")
        given.pop(name)


def evaluate_pack_given(given: dict[str, Any], as_json: bool) -> None:
    """Evaluate a pack by a command's options, and print the report."""
    from refactx.cli.translate import Models, TranslatorOptions, engine_of, open_translator
    from refactx.eval.packs import PackEvaluationOptions, evaluate_pack
    from refactx.eval.packs.report import lines_of
    from refactx.nl2sparql import load_pack

    for name in given.keys() - _USED - _MACHINE:
        if is_typed(name):
            raise InputError(f"--{name.replace('_', '-')} is not of packs: leave out one of --pack and this")
    models, out = Models(engine_options_of(given, given["batch_size"], 1)), given["out"]
    pack = load_pack(given["pack_name"])
    run_on = given["run_on"] or "frozen"
    cases = _cases(given)

    def options_of(mode: str) -> TranslatorOptions:
        return TranslatorOptions(
            model=given["model"],
            model_url=given["model_url"],
            fast_model=None,
            grammar=given["grammar"],
            policy=given["policy"],
            index=given["index"],
            db=given["db"],
            examples=0 if mode == "prompt" else 5,
            encoder=given["encoder"],
            agent=mode == "agent",
            validates=mode in ("repair", "agent"),
            runs=mode in ("repair", "agent"),
            run_on=run_on,
            attempts=4,
            steps=40,
            tokens=4000,
            seconds=3600.0,  # tokens and steps end a translation, however slow the machine is
        )

    options_of("agent").check()
    settings = {
        "grammar": given["grammar"] and given["model_url"] is None,
        "model_url": None if given["model_url"] is None else given["model_url"].rpartition("@")[2],
        "encoder": given["encoder"],
        "run_on": run_on.rpartition("@")[2],
    }
    if given["policy"] == "strict":
        settings |= {"policy": "strict", "index": given["index"]}
    if given["questions"] is not None:
        settings["source"] = str(given["questions"])
    options = PackEvaluationOptions(
        pack=pack,
        model=given["model"],
        modes=given["modes"],
        source=given["source"],
        language=given["language"],
        category=given["category"],
        cases=cases,
        limit=given["limit"],
        batch_size=given["batch_size"],
        out=out,
        shard=given["shard"],
        settings=settings,
    )
    with ExitStack() as stack:
        engine = engine_of(pack, options_of("repair"), stack)
        if engine is None:
            raise InputError("nothing runs the queries: give --run-on with the URL of an endpoint, or frozen")

        def translator_of(mode: "Mode") -> "Translator":
            return open_translator(pack, options_of(mode), models, stack)

        try:
            report = evaluate_pack(options, translator_of, engine, models.stopped.set)
        except KeyboardInterrupt:
            click.echo(f"stopped; the same command continues the run in {options.folder}", err=True)
            raise
    return print_report(report, lines_of, as_json, str(options.folder / "report.json"))


def _cases(given: dict[str, Any]) -> "list[Case]":
    """Return the cases of a file of questions, empty if none is given. Raise InputError for options that do not fit."""
    from refactx.eval.packs.cases import cases_of_questions
    from refactx.eval.questions import choose_questions, read_queries

    if given["questions"] is None:
        choosing = [name for name in ("split", "kinds") if is_typed(name)]
        if choosing:
            raise InputError(f"--{choosing[0]} chooses among the questions of a file: give one")
        return []
    choosing = [name for name in ("source", "language", "category") if is_typed(name)]
    if choosing:
        raise InputError(f"--{choosing[0]} chooses among cases of the pack: leave out one of the file and this")
    if given["run_on"] in (None, "frozen"):
        raise InputError(
            "the pack has no frozen data for the questions of a file: give --run-on with store, tree or the URL of an endpoint"
        )
    return cases_of_questions(choose_questions(read_queries(given["questions"]), given["split"], given["kinds"]))
