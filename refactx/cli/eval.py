"""`refactx eval`: answers, with `--sparql` queries of policies, with `--pack` translations, scored by known answers."""

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from refactx.ask.prompt import Generation
from refactx.cli import options as common
from refactx.cli.compare import compare, judge, speed
from refactx.cli.help import CommandWithOthers
from refactx.cli.query import WRITING, PolicyOptions, check_place
from refactx.cli.translate import Models, TranslatorOptions, engine_of, open_translator
from refactx.errors import InputError
from refactx.fact import counted
from refactx.models.options import ServerOptions

if TYPE_CHECKING:
    from refactx.eval.pack_task import Mode, PackCase
    from refactx.eval.questions import StratifiedSample
    from refactx.eval.run import Shard, Task
    from refactx.sparql.packs.shots import ShotChoice
    from refactx.sparql.packs.translator import Translator

_POLICY_GROUP = ("sparql", *(name for name in WRITING if name != "model_url"), "shots", "train", "thresholds")
_PACK_GROUP = ("pack_name", "modes", "policy", "source", "category", "pattern", "encoder")
_SAMPLE = ("sample", "by")
_OF_SERVERS = ("tokenizer",)
_OF_ANSWERS = (
    *_OF_SERVERS,
    "free",
    "judge",
    "judge_url",
    "judge_prompt",
    "batch_size",
    "weights",
    "ranker",
    *(one.name for one in fields(Generation) if one.name != "language"),
)
_OF_PACKS = (
    *_PACK_GROUP, *_SAMPLE, "model", "model_url", "grammar", "run_on", "questions", "split", "kinds", "language", "limit",
    "shard", "out", "as_json", *common.MACHINE_GROUP, "index",
)  # fmt: skip
_GROUPS = {
    "Questions and judge": ("split", "kinds", "limit", *_SAMPLE, "shard", "judge", "judge_url", "judge_prompt"),
    "SPARQL of policies": _POLICY_GROUP,
    "Domain packs": _PACK_GROUP,
    **common.GENERATION_GROUPS,
    "Database and machine": (*common.MACHINE_GROUP, "tokenizer"),
}
MODES = ("prompt", "retrieval", "repair", "agent")
_RUN_ON = {None: "invented", "invented": "invented", "frozen": "invented"}
"""What runs the queries of a pack, by what is given, where that is the pack's own data."""
_TYPED = ParameterSource.COMMANDLINE


def _modes(_context: click.Context, _parameter: click.Parameter, given: str) -> tuple[str, ...]:
    modes = common.parts_of(given)
    if not modes or not set(modes) <= set(MODES):
        raise click.BadParameter(f"{given} is no list of {', '.join(MODES)}")
    return modes


def _shard(_context: click.Context, _parameter: click.Parameter, given: str) -> "Shard":
    from refactx.eval.run import Shard

    try:
        return Shard.parse(given)
    except InputError as error:
        raise click.BadParameter(str(error)) from None


def _shots(_context: click.Context, _parameter: click.Parameter, given: str | None) -> "tuple[int, ShotChoice] | None":
    """Return how many examples are shown, and which; None if it was not given."""
    if given is None:
        return None
    how, _, number = given.rpartition(":")
    if how not in ("", "random") or not (number.isascii() and number.isdigit()):
        raise click.BadParameter("give a number of examples, such as 25, or random:25")
    return int(number), "random" if how else "nearest"


def _taus(_context: click.Context, _parameter: click.Parameter, given: str) -> tuple[float, ...]:
    between = common.Number(0, 1)
    return tuple(dict.fromkeys(between.convert(one, _parameter, _context) for one in common.parts_of(given)))


_own_options = common.all_of(
    click.option("--sample", type=click.IntRange(1), metavar="N", help="N questions with the share of each kind."),
    click.option(
        "--by",
        type=click.Choice(["kind", "answer-kind", "source"]),
        callback=lambda _, __, given: given and given.replace("-", "_"),
        metavar="WHAT",
        help="Kinds of the sample: kind, answer-kind, source.",
    ),
    click.option(
        "--shard", default="1/1", callback=_shard, metavar="I/N", help="Ask the Ith of N parts; without it: report."
    ),
    click.option(
        "--sparql",
        callback=lambda _, __, given: None if given is None else common.parts_of(given),
        metavar="POLICY,...",
        help="Score queries of these, such as ids,from-walk.",
    ),
    common.declared(PolicyOptions, *WRITING),
    common.declared(ServerOptions, *_OF_SERVERS),
    click.option(
        "--shots", callback=_shots, metavar="[random:]N", help="N examples of --train, nearest or random; 0: none."
    ),
    click.option(
        "--thresholds", default="", callback=_taus, metavar="X,...", help="Resolve placeholders with each of these."
    ),
    click.option("--train", type=click.Path(path_type=Path), metavar="FILE", help="Questions with gold queries."),
    click.option("--pack", "pack_name", metavar="PACK", help="Score translations, by default of its cases."),
    click.option("--modes", default=",".join(MODES), callback=_modes, metavar="MODE,...", help="Default: all four."),
    click.option(
        "--policy",
        default="text",
        type=common.RenamedChoice(["text", "from-walk"], {"strict": "from-walk"}),
        metavar="POLICY",
        help="text, or from-walk: queries of --index.",
    ),
    click.option("--encoder", metavar="MODEL", help="Compare questions by it too: minilm."),
    click.option(
        "--source", default="cases", type=click.Choice(["cases", "examples"]), metavar="SET", help="cases, or examples."
    ),
    click.option("--category", metavar="CATEGORY", help="These cases alone, such as complex."),
    click.option("--pattern", metavar="PATTERN", help="Cases with this pattern alone."),
)


@click.command("eval", cls=CommandWithOthers, groups=_GROUPS, commands=[compare, judge, speed])
@click.argument("questions", type=click.Path(path_type=Path), required=False)
@common.MODEL
@common.INDEX
@click.option("--free", is_flag=True, help="Also ask the model alone, and compare.")
@common.PROMPT
@common.WEIGHTS
@common.RUN_FOLDER
@click.option("--judge", metavar="MODEL", help="Also have a language model judge the answers.")
@common.JUDGE_URL
@common.JUDGE_PROMPT
@common.question_options("all")
@_own_options
@common.generation_options
@common.JSON
@common.DB
@common.BATCH_SIZE
@common.engine_options
def eval_(as_json: bool, **given: Any) -> None:
    """Score answers to a file of questions; the same command continues a run."""
    given["sample"] = _sample(given)
    with ExitStack() as stack:
        if given["pack_name"] is not None:
            own = {*_OF_PACKS, "seed"} if given["sample"] else {*_OF_PACKS}
            _refuse(given.keys() - own, "is not of packs: leave out one of --pack and this")
            task: Task[Any] = _pack_task(given, stack)
        elif given["questions"] is None:
            raise InputError("there are no questions: give a file, or --pack PACK for the cases of a domain pack")
        else:
            _refuse(_PACK_GROUP, "is of packs: give --pack with it")
            task = _answer_task(given) if given["sparql"] is None else _policy_task(given)
        report = run_task(task)
    if as_json:
        return common.print_json(report)
    return _print(task, report)


def run_task(task: "Task[Any]") -> dict[str, Any]:
    """Run an evaluation, and return its report. If it is interrupted, say how to continue it."""
    from refactx.eval.run import evaluate

    try:
        return evaluate(task)
    except KeyboardInterrupt:
        click.echo(f"stopped; the same command continues the run in {task.folder}", err=True)
        raise


def _print(task: "Task[Any]", report: Mapping[str, Any]) -> None:
    """Print a report, or what a shard did."""
    from refactx.eval.report import lines

    if "shard" in report:
        done, are = report["questions"], "is" if report["questions"] == 1 else "are"
        return click.echo(
            f"shard {report['shard']}: its {counted(done, 'question')} {are} done; once all shards are, the same command "
            "without --shard writes the report"
        )
    for line in lines(task.layout(report)):
        click.echo(line)
    return click.echo(f"report: {task.folder / 'report.html'}, report.md and report.json beside it")


def _refuse(names: Collection[str], why: str) -> None:
    """Raise InputError if one of some options was given. `why`: continues its name."""
    typed = (name for name in names if click.get_current_context().get_parameter_source(name) is _TYPED)
    if (name := next(typed, None)) is not None:
        raise InputError(f"--{name.replace('_', '-')} {why}")


def _without(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the options of a task: those given, but for those of other tasks."""
    return {name: value for name, value in given.items() if name not in names}


def _sample(given: dict[str, Any]) -> "StratifiedSample | None":
    """Return the sample that is asked for. Its seed is that of texts too, which need one if they are sampled alone."""
    from refactx.eval.questions import StratifiedSample

    by, size = given.pop("by"), given["sample"]
    if size is None:
        if by is not None:
            raise InputError("--by is of a sample: give --sample N with it")
        return None
    seed = given["seed"] or 0
    if not given["temperature"]:
        given["seed"] = None
    return StratifiedSample(size, by or "kind", seed)


def _answer_task(given: dict[str, Any]) -> "Task[Any]":
    from refactx.eval.answer_task import AnswerTask

    _refuse(_POLICY_GROUP, "is of policies: give --sparql POLICY,... with it")
    language = given["language"]  # of the texts, and so of the questions
    generation = common.generation_of(given)
    given["language"] = language
    engine = common.engine_options_of(given, given["batch_size"], generation.num_beams)
    return AnswerTask(generation=generation, engine=engine, **_without(given, *_POLICY_GROUP, *_PACK_GROUP))


def _policy_task(given: dict[str, Any]) -> "Task[Any]":
    from refactx.eval.policy_task import PolicyTask
    from refactx.sparql.packs.prompt import writer_named

    _refuse(
        {*_OF_ANSWERS} - ({"seed"} if given["sample"] else set()),
        "is of answers, and --sparql scores queries: leave one out",
    )
    check_place(given["run_on"])
    engine = common.engine_options_of(given := _without(given, *_OF_SERVERS), 1, 1)
    grammar, has_url = given.pop("grammar"), given["model_url"] is not None
    named = [writer_named(one, constrained=grammar and not (one == "open" and has_url)) for one in given.pop("sparql")]
    policies = tuple(dict.fromkeys(named))
    return PolicyTask(policies=policies, engine=engine, **_without(given, *_PACK_GROUP, *_OF_ANSWERS))


def _pack_task(given: dict[str, Any], stack: ExitStack) -> "Task[Any]":
    """Return the evaluation of a pack. What it opens is closed with `stack`."""
    from refactx.eval.pack_task import PackTask
    from refactx.sparql.packs.pack import load_pack

    machine = common.engine_options_of(given := _without(given, *_OF_SERVERS), given["batch_size"], 1)
    models, adapter = Models(machine), {} if machine.adapter is None else {"adapter": machine.adapter}
    pack, run_on = load_pack(given["pack_name"]), _RUN_ON.get(given["run_on"], given["run_on"])
    cases = _cases(given)
    names = ("model", "model_url", "grammar", "policy", "index", "db", "encoder")

    def options_of(mode: str) -> TranslatorOptions:
        return TranslatorOptions(
            **{name: given[name] for name in names},
            examples=0 if mode == "prompt" else TranslatorOptions().examples,
            agent=mode == "agent",
            validates=mode in ("repair", "agent"),
            runs=mode in ("repair", "agent"),
            run_on=run_on,
            seconds=3600.0,  # tokens and steps end a translation, however slow the machine is
        )

    def translator_of(mode: "Mode") -> "Translator":
        return open_translator(pack, options_of(mode), models, stack)

    options_of("agent").check()
    engine = engine_of(pack, options_of("repair"), stack)
    if engine is None:
        raise InputError("nothing runs the queries: give --run-on with the URL of an endpoint, or invented")
    shared = ("model", "modes", "source", "language", "category", "pattern", "limit", "batch_size", "out", "shard")
    return PackTask(
        pack=pack,
        translator=translator_of,
        runs=engine,
        cases=cases,
        stop=models.stopped.set,
        own_settings=_pack_settings(given, run_on) | adapter,
        **{name: given[name] for name in shared},
    )


def _pack_settings(given: Mapping[str, Any], run_on: str) -> dict[str, Any]:
    """Return the settings of the translator, and the questions in place of cases of the pack."""
    settings = {
        "grammar": given["grammar"] and given["model_url"] is None,
        "model_url": None if given["model_url"] is None else given["model_url"].rpartition("@")[2],
        "encoder": given["encoder"],
        "run_on": run_on.rpartition("@")[2],
    }
    if given["policy"] == "from-walk":
        settings |= {"policy": "from-walk", "index": given["index"]}
    if given["questions"] is not None:
        settings["source"] = str(given["questions"])
    if given["sample"] is not None:
        settings["sample"] = asdict(given["sample"])
    return settings


def _cases(given: Mapping[str, Any]) -> "list[PackCase]":
    """Return the cases of a file of questions, empty if none is given. Raise InputError for options that do not fit."""
    from refactx.eval.pack_task import cases_of_questions
    from refactx.eval.questions import choose_questions, read_queries

    if given["questions"] is None:
        _refuse(("split", "kinds", "sample"), "chooses among the questions of a file: give one")
        return []
    _refuse(("source", "category", "pattern"), "chooses among cases of the pack: leave out one of the file and this")
    if given["run_on"] in _RUN_ON:
        raise InputError(
            "the pack has no invented data for the questions of a file: give --run-on with store, tree or the URL of an "
            "endpoint"
        )
    asked = read_queries(given["questions"], given["language"])
    return cases_of_questions(choose_questions(asked, given["split"], given["kinds"], sample=given["sample"]))
