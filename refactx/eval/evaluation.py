"""`refactx eval`: questions, run, judge and report put together."""

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from refactx.asking.options import GREEDY, Generation
from refactx.asking.prompt import Prompt, load_prompt
from refactx.errors import InputError
from refactx.eval.judge import Case, Reply, judge_all, load_judge_prompt, local_judge, remote_judge
from refactx.eval.log import write_whole
from refactx.eval.names import holders_of, possible_aliases, with_aliases
from refactx.eval.questions import Question, Split, chosen, read_questions, with_names
from refactx.eval.render import html, markdown
from refactx.eval.report import report
from refactx.eval.results import Result, result
from refactx.eval.run import (
    FILES,
    Ask,
    ask_all,
    fingerprint,
    missing,
    open_run,
    read_answers,
    stored_holders,
    stored_names,
)


@dataclass(frozen=True)
class Options:
    """What `refactx eval` is asked for. `out`: None for `refactx-eval/QUESTIONS-MODEL` in the current folder."""

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
    dtype: str = "auto"
    device: str = "auto"
    out: Path | None = None

    @property
    def folder(self) -> Path:
        """Where the run is kept."""
        model = Path(self.model).name or "model"
        return self.out or Path("refactx-eval") / f"{self.questions.stem}-{model}"

    @property
    def ways(self) -> tuple[str, ...]:
        """How each question is asked."""
        return tuple(FILES) if self.free else ("grounded",)


def evaluate(options: Options) -> dict[str, Any]:
    """Ask what has not been asked yet, judge, and write report.json, report.md and report.html into the run's folder.

    Returns the report. Raises InputError for options or files that can't be used, and what asking raises;
    KeyboardInterrupt leaves the answers so far, and the same call goes on.
    """
    if options.judge_url and not options.judge:
        raise InputError("--judge-url says where the judge is; give its model's name with --judge too")
    questions = chosen(read_questions(options.questions), options.split, options.kinds, options.limit)
    prompt, folder = load_prompt(options.prompt), options.folder
    settings = _settings(options, questions, prompt)
    open_run(folder, settings)
    named = _asked(options, folder, questions, prompt)
    records = {way: read_answers(folder, questions, way) for way in options.ways}

    def results(verdicts: dict[str, bool | None]) -> dict[str, list[Result]]:
        return {
            way: [
                result(
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
    return write_reports(folder, settings, runs, options.judge)


def write_reports(
    folder: Path, settings: dict[str, Any], runs: dict[str, list[Result]], judge: str | None
) -> dict[str, Any]:
    """Write the report in its three forms; returns it."""
    document = report(settings, runs, judge)
    write_whole(folder / "report.json", document)
    (folder / "report.md").write_text(markdown(document), encoding="utf-8")
    seconds = {way: [result.seconds for result in results] for way, results in runs.items()}
    (folder / "report.html").write_text(html(document, seconds), encoding="utf-8")
    return document


def _settings(options: Options, questions: Sequence[Question], prompt: Prompt) -> dict[str, Any]:
    return {
        "questions": options.questions.name,
        "questions_fingerprint": fingerprint(questions),
        "model": options.model,
        "index": options.index,
        "split": options.split,
        "kinds": sorted(options.kinds),
        "limit": options.limit,
        "prompt": options.prompt,
        "prompt_fingerprint": sha256(repr(prompt).encode()).hexdigest()[:16],
        **asdict(options.generation),
        "batch_size": options.batch_size,
        "dtype": options.dtype,
        "refactx": version("refactx"),
    }


def _asked(options: Options, folder: Path, questions: Sequence[Question], prompt: Prompt) -> list[Question]:
    """Ask what is left; the questions with what the index calls their answers, by aliases too.

    Opens index and model only if need be.
    """
    left = missing(folder, questions, options.ways)
    with ExitStack() as stack:

        def opened() -> Any:
            from refactx.connect import open_index

            return stack.enter_context(open_index(options.index, options.db))

        index = opened() if left else None

        def look_up() -> dict[str, tuple[str, ...]]:
            from refactx.eval.gold_names import gold_names

            ids = {gold.id for q in questions for gold in q.answers if gold.id} | {
                i for q in questions for i in q.answer_ids
            }
            return gold_names(index or opened(), ids)

        names = stored_names(folder, look_up)
        if left:
            ask_all(folder, questions, _asks(options, index, prompt), options.batch_size)
        lines = zip(*(read_answers(folder, questions, way) for way in options.ways), strict=True)
        said = [_possible_aliases(records) for records in lines]
        holders = stored_holders(folder, set().union(*said), lambda texts: holders_of(index or opened(), texts))
    named = [with_names(question, names) for question in questions]
    # its own answers' aliases alone: what one question counts must not hang on what is said to another
    return [with_aliases(q, {t: holders[t] for t in texts}, names) for q, texts in zip(named, said, strict=True)]


def _possible_aliases(records: Iterable[dict[str, Any]]) -> set[str]:
    answers = (record["answer"]["answer"] for record in records if "answer" in record)
    return {text for answer in answers for text in possible_aliases(answer)}


def _asks(options: Options, index: Any, prompt: Prompt) -> dict[str, Ask]:
    from functools import partial

    from refactx.asking.asker import Asker
    from refactx.asking.prompt_check import check_prompt
    from refactx.engines.hf.processor import check_tokenizer
    from refactx.models.loading import load_model

    notes = check_prompt(prompt, index)
    loaded = load_model(options.model, options.device, options.dtype, check=partial(check_tokenizer, index))
    for note in notes if options.prompt.endswith(".toml") else []:  # ours serve any index
        print(f"refactx: {note}", file=sys.stderr)
    asker = Asker(*loaded, index, prompt)
    ask = partial(asker.ask_all, batch_size=options.batch_size)
    asks = {
        "grounded": partial(ask, options=options.generation),
        "free": partial(ask, options=options.generation.free, free=True),
    }
    return {way: asks[way] for way in options.ways}


def _verdicts(options: Options, folder: Path, runs: dict[str, list[Result]]) -> dict[str, bool | None]:
    cases = [
        Case(
            f"{way}:{result.question.key}",
            result.question.text,
            tuple(next(iter(gold.names), "") for gold in result.question.answers if gold.names),
            result.answer,
        )
        for way, results in runs.items()
        for result in results
        if result.given
    ]
    who, url = options.judge or "", options.judge_url
    make: Callable[[], Reply] = (lambda: remote_judge(who, url)) if url else (lambda: local_judge(who))
    return judge_all(folder, cases, who, load_judge_prompt(), make)
