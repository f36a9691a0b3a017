"""The evaluation of `refactx eval`: questions, run, judge and report."""

import json
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from refactx.ask.prompt import GREEDY, Generation, Prompt, load_prompt
from refactx.engines.loading import EngineOptions, engine_for
from refactx.errors import InputError
from refactx.eval.judge import Case, Reply, judge_all, load_judge_prompt, local_judge, remote_judge
from refactx.eval.logs import WHOLE, Shard, write_atomically
from refactx.eval.names import find_holders, possible_aliases, with_aliases
from refactx.eval.queries import Checked, check_line, load_checks
from refactx.eval.question import Question, Split
from refactx.eval.questions import choose_questions, read_questions, with_names
from refactx.eval.render import html, markdown
from refactx.eval.report import report
from refactx.eval.results import QuestionResult, make_result
from refactx.eval.run import (
    LOGS,
    Ask,
    ask_all,
    count_missing,
    default_folder,
    fingerprint,
    load_holders,
    load_names,
    open_run,
    read_answers,
)
from refactx.lazy import require


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """The options of `refactx eval`.

    `out`: the run's folder, by default `refactx-eval/QUESTIONS-MODEL`; `shard`: ask its questions alone, without a report.
    """

    questions: Path
    model: str
    index: str = "default"
    db: str | None = None
    free: bool = False
    judge: str | None = None
    judge_url: str | None = None
    split: Split = "all"
    kinds: tuple[str, ...] = ()
    limit: int | None = None
    prompt: str = "wikidata"
    generation: Generation = GREEDY
    batch_size: int = 1
    engine: EngineOptions = EngineOptions()  # noqa: RUF009  (it is frozen)
    out: Path | None = None
    shard: Shard = WHOLE

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.out or default_folder(self.questions.stem, self.model)

    @property
    def ways(self) -> tuple[str, ...]:
        """The ways in which each question is asked: `grounded`, and maybe `free`."""
        return tuple(LOGS) if self.free else ("grounded",)


def evaluate(options: EvaluationOptions) -> dict[str, Any]:
    """Ask the questions that have no answer yet, judge, and write report.json, report.md and report.html.

    Returns the report, or for a shard the number of its questions. After an error or KeyboardInterrupt, the answers so far
    are in the run's folder, and the same call continues.

    Raises InputError for options or files that cannot be used, and whatever asking raises.
    """
    if options.judge_url and not options.judge:
        raise InputError("--judge-url was given without --judge: give the name of the judge's model with --judge")
    require("matplotlib", "eval")  # before hours of work: the report is written last
    if options.judge_url:
        require("openai", "eval")
    questions = choose_questions(read_questions(options.questions), options.split, options.kinds, options.limit)
    prompt, folder = load_prompt(options.prompt), options.folder
    settings = _settings(options, questions, prompt)
    open_run(folder, settings)
    if options.shard.count > 1:
        _ask_shard(options, folder, options.shard.of(questions), prompt)
        return options.shard.document(questions)
    named = _asked(options, folder, questions, prompt)
    records = {way: read_answers(folder, questions, way) for way in options.ways}

    def results(verdicts: dict[str, bool | None]) -> dict[str, list[QuestionResult]]:
        return {
            way: [
                make_result(
                    question,
                    record,
                    grounded=way == "grounded",
                    unknown=prompt.unknown,
                    verdict=verdicts.get(f"{way}:{question.key}"),
                )
                for question, record in zip(named, lines, strict=True)
            ]
            for way, lines in records.items()
        }

    runs = results(_verdicts(options, folder, results({})) if options.judge else {})
    return write_reports(folder, settings, runs, options.judge, _checks(options, folder, records))


def write_reports(
    folder: Path,
    settings: dict[str, Any],
    runs: dict[str, list[QuestionResult]],
    judge: str | None,
    checks: Mapping[str, Checked] | None = None,
) -> dict[str, Any]:
    """Write the report in its three forms, and return it."""
    document = report(settings, runs, judge, checks)
    write_atomically(folder / "report.json", document)
    (folder / "report.md").write_text(markdown(document), encoding="utf-8")
    seconds = {way: [result.seconds for result in results] for way, results in runs.items()}
    (folder / "report.html").write_text(html(document, seconds), encoding="utf-8")
    return document


def _settings(options: EvaluationOptions, questions: Sequence[Question], prompt: Prompt) -> dict[str, Any]:
    return {
        "questions": options.questions.name,
        "questions_fingerprint": fingerprint(questions),
        "model": options.model,
        "index": options.index,
        "split": options.split,
        "kinds": sorted(options.kinds),
        "limit": options.limit,
        "prompt": options.prompt,
        "prompt_fingerprint": _fingerprint(prompt),
        **asdict(options.generation),
        "tells": prompt.tells if options.generation.tells is None else options.generation.tells,
        "batch_size": options.batch_size,
        "engine": engine_for(options.model, options.engine),
        "dtype": options.engine.dtype,
        "refactx": version("refactx"),
    }


def _fingerprint(prompt: Prompt) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of a prompt, the same in every process."""
    return sha256(json.dumps(asdict(prompt), sort_keys=True, default=sorted).encode()).hexdigest()[:16]


def _asked(options: EvaluationOptions, folder: Path, questions: Sequence[Question], prompt: Prompt) -> list[Question]:
    """Ask the questions that have no answer. Return all questions with the index's names and aliases of gold answers.

    The index and the model are opened only if they are needed.
    """
    left = count_missing(folder, questions, options.ways)
    with ExitStack() as stack:

        def opened() -> Any:
            from refactx.index.open import open_index

            return stack.enter_context(open_index(options.index, options.db))

        index = opened() if left else None

        def look_up() -> dict[str, tuple[str, ...]]:
            from refactx.eval.names import gold_names

            ids = {gold.id for q in questions for gold in q.answers if gold.id} | {
                i for q in questions for i in q.answer_ids
            }
            return gold_names(index or opened(), ids)

        names = load_names(folder, look_up)
        if left:
            ask_all(folder, questions, _asks(options, index, prompt), options.batch_size)
        lines = zip(*(read_answers(folder, questions, way) for way in options.ways), strict=True)
        said = [_possible_aliases(records) for records in lines]
        holders = load_holders(folder, set().union(*said), lambda texts: find_holders(index or opened(), texts))
    named = [with_names(question, names) for question in questions]
    # With the aliases in its own answers alone: its score must not depend on the answers to other questions.
    return [with_aliases(q, {t: holders[t] for t in texts}, names) for q, texts in zip(named, said, strict=True)]


def _ask_shard(options: EvaluationOptions, folder: Path, questions: Sequence[Question], prompt: Prompt) -> None:
    """Ask the questions of a shard that have no answer."""
    if count_missing(folder, questions, options.ways, options.shard):
        from refactx.index.open import open_index

        with open_index(options.index, options.db) as index:
            ask_all(folder, questions, _asks(options, index, prompt), options.batch_size, options.shard)


def _checks(
    options: EvaluationOptions, folder: Path, records: Mapping[str, Sequence[dict[str, Any]]]
) -> dict[str, Checked]:
    """Return the checks of the queries of a run. The index is opened only for those that have not been checked."""

    def check(lines: Collection[str]) -> dict[str, Checked]:
        from refactx.index.open import open_index
        from refactx.query.facts import TreeFacts

        with open_index(options.index, options.db) as index:
            facts = TreeFacts(index)
            return {line: check_line(line, facts) for line in lines}

    answers = [record["answer"] for lines in records.values() for record in lines if "answer" in record]
    return load_checks(folder, {query["query"] for answer in answers for query in answer.get("queries", ())}, check)


def _possible_aliases(records: Iterable[dict[str, Any]]) -> set[str]:
    answers = (record["answer"]["answer"] for record in records if "answer" in record)
    return {text for answer in answers for text in possible_aliases(answer)}


def _asks(options: EvaluationOptions, index: Any, prompt: Prompt) -> dict[str, Ask]:
    from functools import partial

    from refactx.ask.asker import Asker
    from refactx.ask.prompt import check_prompt
    from refactx.engines.loading import load_language_model

    notes = check_prompt(prompt, index)
    model = load_language_model(options.model, index, options.engine)
    for note in notes if options.prompt.endswith(".toml") else []:  # the built-in prompts go with any index
        print(f"refactx: {note}", file=sys.stderr)
    asker = Asker(model, model.tokenizer, index, prompt)
    ask = partial(asker.ask_all, batch_size=options.batch_size)
    asks = {
        "grounded": partial(ask, options=options.generation),
        "free": partial(ask, options=options.generation.free, free=True),
    }
    return {way: asks[way] for way in options.ways}


def _verdicts(
    options: EvaluationOptions, folder: Path, runs: dict[str, list[QuestionResult]]
) -> dict[str, bool | None]:
    cases = [
        Case(
            key=f"{way}:{result.question.key}",
            question=result.question.text,
            golds=tuple(next(iter(gold.names), "") for gold in result.question.answers if gold.names),
            answer=result.answer,
        )
        for way, results in runs.items()
        for result in results
        if result.given
    ]
    who, url = options.judge or "", options.judge_url
    make: Callable[[], Reply] = (lambda: remote_judge(who, url)) if url else (lambda: local_judge(who))
    return judge_all(folder, cases, who, load_judge_prompt(), make)
