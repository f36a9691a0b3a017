"""Runs of evaluations: a task, and a folder in which the run can be stopped and continued.

    task (options) -> questions -> records, a line each in WAY.jsonl -> scores -> report.json, report.md, report.html

The **task** says what is asked, in which ways, how that is answered and scored, and what the report has. There are three:
answers (`answer_task`), queries that policies write (`policy_task`) and translations by packs (`pack_task`).

The **folder** has `run.json` (the settings), a log for each way of asking, and what was looked up in the index. A line of
a log is a JSON object with a `key`, and is on the disk before the next question is asked. If a process was killed while
it wrote a line, the incomplete line is removed when the log is opened again. One process at a time may write a log.

**Shards** are runs of many machines: each has a part of the questions and logs of its own (`free.2-of-8.jsonl`), in one
folder that all of them see.
"""

import json
import os
import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from functools import cached_property
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar
from uuid import uuid4

from refactx.errors import InputError
from refactx.eval.questions import Question, Split, StratifiedSample, choose_questions, count_left_out
from refactx.eval.report import Figure, Layout, write_report
from refactx.eval.statistics import Estimate
from refactx.locking import lock_file
from refactx.models.options import EngineOptions
from refactx.progress import progress_bar

if TYPE_CHECKING:
    from refactx.index import Index

VERSION = 2
"""The version of report.json."""

Record = dict[str, Any]
"""A line of a log."""
_T = TypeVar("_T")
Answers = Generator[tuple[str, str, Record], None, None]
"""The records of questions as they are asked: way of asking, key, record."""


class Keyed(Protocol):
    """What is asked: a question, or a case of a pack."""

    @property
    def key(self) -> str:
        """Unique in a run."""


_Q = TypeVar("_Q", bound=Keyed)


def fingerprint(document: Any) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of a document, the same in every process."""
    return sha256(json.dumps(document, sort_keys=True, default=sorted).encode()).hexdigest()[:16]


def default_folder(name: str, model: str) -> Path:
    """Return the folder of a run that is given none. `name`: of the questions; `model`: as it was given.

    >>> default_folder("dev", "Qwen/Qwen3-8B").as_posix(), default_folder("dev", "qwen3/model.gguf").as_posix()
    ('refactx-eval/dev-Qwen3-8B', 'refactx-eval/dev-qwen3')
    """
    return Path("refactx-eval") / f"{name}-{short_name(model)}"


def short_name(model: str) -> str:
    """Return the last part of a model's name, that of its folder if its file is called model."""
    path = Path(model)
    return (path.parent.name if path.stem == "model" and path.parent.name else path.name) or "model"


def write_atomically(path: Path, document: Any) -> None:
    """Write a JSON file by a rename, so that it is never incomplete."""
    part = path.with_name(f"{path.name}.{uuid4().hex}.part")  # other machines may write the same file
    try:
        with part.open("w", encoding="utf-8") as file:
            json.dump(document, file, ensure_ascii=False, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Shard:
    """The `number`th of `count` shards, from 1: every `count`th question, so that all shards have like questions."""

    number: int = 1
    count: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise InputError(f"shard {self.number}/{self.count} is none: give I/N, with I from 1 to N, such as 2/8")

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Return the shard of a text. Raise InputError if it is not I/N.

        >>> Shard.parse("2/8")
        Shard(number=2, count=8)
        """
        found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text.strip())
        if found is None:
            raise InputError(f"{text} is no shard: give I/N, with I from 1 to N, such as 2/8")
        return cls(int(found[1]), int(found[2]))

    def of(self, some: Sequence[_T]) -> Sequence[_T]:
        """Return the shard's own of some questions, in their order.

        >>> Shard(2, 3).of("abcdefg")
        'be'
        """
        return some[self.number - 1 :: self.count]

    def file_of(self, way: str) -> str:
        """Return the name of the shard's own log.

        >>> Shard(2, 8).file_of("free"), WHOLE.file_of("free")
        ('free.2-of-8.jsonl', 'free.jsonl')
        """
        return f"{way}.jsonl" if self.count == 1 else f"{way}.{self.number}-of-{self.count}.jsonl"


WHOLE = Shard()
"""All questions."""


class RunLog:
    """The log of a way of asking: `records` are those of all shards by key, and new ones go to the shard's own file.

    Use it in a `with` block. Raises InputError if another process has the file open, or if a complete line of the files
    is not a record.
    """

    def __init__(self, folder: Path, way: str, shard: Shard = WHOLE) -> None:
        self._path = path = folder / shard.file_of(way)
        try:
            self._file = path.open("a+b")
        except OSError as error:
            raise InputError(f"cannot write {path} ({error.strerror}): give another --out") from error
        try:
            lock_file(self._file)
        except OSError as error:
            self._file.close()
            raise InputError(f"{path} is being written by another run: wait for it, or give another --out") from error
        try:
            self.records = self._read(re.compile(re.escape(way) + r"(\.[0-9]+-of-[0-9]+)?\.jsonl"))
        except BaseException:
            self._file.close()
            raise

    def _read(self, name: re.Pattern[str]) -> dict[str, Record]:
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            self._file.truncate(whole)
        records = _parsed(content[:whole], self._path)
        for path in sorted(path for path in self._path.parent.iterdir() if name.fullmatch(path.name)):
            if path != self._path:
                content = path.read_bytes()  # its last line may be one that is being written
                records = {**_parsed(content[: content.rfind(b"\n") + 1], path), **records}
        return records

    def add(self, key: str, record: Record) -> None:
        """Write a record and wait until it is on the disk."""
        record = {"key": key, **record}
        # (In ASCII: a text of a model may have other line ends, but a record is one line.)
        self._file.write(json.dumps(record).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.records[key] = record

    def __enter__(self) -> "RunLog":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _parsed(content: bytes, path: Path) -> dict[str, Record]:
    records = {}
    for number, line in enumerate(content.splitlines(), 1):
        try:
            record = json.loads(line)
            records[record["key"]] = record
        except (ValueError, RecursionError, KeyError, TypeError) as error:
            raise InputError(
                f"{path}: line {number} is not a record of a run: delete that line, or give another --out"
            ) from error
    return records


def read_document(path: Path, advice: str) -> dict[str, Any]:
    """Return the JSON object in a file of a run. Raises InputError with the advice if there is none."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(document, dict):
            raise TypeError("expected an object")
        return document
    except (OSError, ValueError, RecursionError, TypeError) as error:
        raise InputError(f"{path} cannot be read ({error}): {advice}") from error


def open_run(folder: Path, settings: Mapping[str, Any], ways: Iterable[str]) -> None:
    """Make the run's folder, or check that the run in it has the same settings.

    Raises InputError if the folder cannot be used, or if settings differ; the message names them.
    """
    path = folder / "run.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        exists = path.exists()
    except OSError as error:
        raise InputError(f"cannot use the folder {folder} ({error}): give another --out") from error
    if not exists:
        left = [f"{way}.jsonl" for way in ways if (folder / f"{way}.jsonl").exists()]
        if left:
            raise InputError(f"{folder} has {left[0]} but no run.json: give another --out")
        return write_atomically(path, settings)
    recorded = read_document(path, "give another --out")
    if "task" not in recorded:
        raise InputError(
            f"{folder} has a run of an earlier release of refactx, which cannot be continued: give another --out"
        )
    names = sorted(recorded.keys() | settings.keys())
    differ = [f"{n} {recorded.get(n)!r}, now {settings.get(n)!r}" for n in names if recorded.get(n) != settings.get(n)]
    if differ:
        raise InputError(
            f"{folder} has a run with other options ({'; '.join(differ)}): give the same options to continue it, or "
            "another --out"
        )
    return None


def look_up(
    path: Path, keys: Collection[str], find: Callable[[list[str]], Mapping[str, Any]], make: Callable[[Any], _T]
) -> dict[str, _T]:
    """Return what keys have in an index, from a file of the run; find what it lacks, and store it.

    `find`: returns JSON values by key, none for what is empty; `make`: makes a value of JSON. So the report can be made
    again without the index. Raises InputError for a file that cannot be read.
    """
    again = "delete it, so that it is made again"
    known = read_document(path, again) if path.exists() else {}
    lacking = sorted(set(keys) - known.keys())
    if lacking:
        found = find(lacking)
        known |= {key: found.get(key, []) for key in lacking}
        write_atomically(path, dict(sorted(known.items())))
        known = read_document(path, again)  # as JSON has it: lists in place of tuples
    try:
        return {key: make(known[key]) for key in sorted(keys)}
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path} cannot be read ({error}): {again}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredQuestion:
    """The score of one question.

    `values`: by key of a figure, None where the question does not count for it; `groups`: by key of the report the names
    of the groups that have the question, such as `{"by_kind": ["count"]}`; `line`: what the report has of the question.
    """

    values: Mapping[str, Any]
    groups: Mapping[str, Sequence[str]]
    line: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of a run. `runs`: of each question, by name of what was asked in one way; `more`: further parts of the
    report; `details`: further parts of it by run."""

    runs: Mapping[str, Sequence[ScoredQuestion]]
    more: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(kw_only=True)
class Task(ABC, Generic[_Q]):
    """What an evaluation asks, how that is answered and scored, and what the report has. Its fields are the options.

    `model`: its name; `limit`: the most questions; `out`: the run's folder; `shard`: ask its questions alone, without a
    report. Use it in a `with` block, which closes what it opens.
    """

    model: str
    limit: int | None = None
    out: Path | None = None
    shard: Shard = WHOLE
    stack: ExitStack = field(default_factory=ExitStack, init=False, repr=False, compare=False)

    name: ClassVar[str]
    """Of the task, also in the progress bar."""
    figures: ClassVar[Sequence[Figure]]
    """What the report has of each run, and of groups in it."""

    def check(self) -> None:
        """Raise InputError for options that exclude each other, or if a package is missing."""

    @property
    @abstractmethod
    def folder(self) -> Path:
        """The folder of the run."""

    @property
    @abstractmethod
    def ways(self) -> tuple[str, ...]:
        """The ways in which each question is asked, each with a log."""

    @property
    @abstractmethod
    def asked(self) -> Sequence[_Q]:
        """The questions. Raises InputError if they cannot be read."""

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What has to be the same when the run is continued."""

    @abstractmethod
    def ask(self, missing: Sequence[tuple[_Q, Sequence[str]]], records: Mapping[str, Mapping[str, Record]]) -> Answers:
        """Yield the records that are missing. `missing`: questions, each with ways; `records`: those that there are."""

    @abstractmethod
    def score(self, records: Mapping[str, Sequence[Record]]) -> Scored:
        """Return the scores of all records, given by way in the order of the questions."""

    @staticmethod
    @abstractmethod
    def layout(report: Mapping[str, Any]) -> Layout:
        """Return how a report is shown."""

    def __enter__(self: _T) -> _T:
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()


@dataclass(kw_only=True)
class IndexTask(Task[Question]):
    """A task whose questions are of a file, and are asked with an index.

    `index`, `db`: as of `refactx ask`; `split`, `kinds`, `sample`: which questions; `language`: of their texts, None: English;
    `prompt`: its name or file, None: the index's own; `engine`: how the model is run.
    """

    questions: Path
    index: str = "default"
    db: str | None = None
    split: Split = "all"
    kinds: tuple[str, ...] = ()
    sample: StratifiedSample | None = None
    language: str | None = None
    prompt: str | None = "wikidata"
    engine: EngineOptions = field(default_factory=EngineOptions)

    @abstractmethod
    def read(self) -> list[Question]:
        """Return the questions of the file that can be asked."""

    @cached_property
    def asked(self) -> Sequence[Question]:
        """The questions that are chosen, in an order that has nothing to do with them."""
        return choose_questions(self.read(), self.split, self.kinds, self.limit, self.sample)

    @cached_property
    def opened_index(self) -> "Index":
        """The index, which is opened when it is first needed."""
        from refactx.index.open import open_index

        return self.stack.enter_context(open_index(self.index, self.db))

    @property
    def settings(self) -> dict[str, Any]:
        """What all such tasks have in common."""
        return {
            "questions": self.questions.name,
            "model": self.model,
            "index": self.index,
            "split": self.split,
            "kinds": sorted(self.kinds),
            "limit": self.limit,
            "prompt": self.prompt,
            "dtype": self.engine.dtype,
            **({} if self.engine.adapter is None else {"adapter": self.engine.adapter}),
            **({} if self.sample is None else {"sample": asdict(self.sample)}),
            **({} if self.language is None else {"language": self.language}),
            **({"left_out": self._left_out} if self._left_out or self.language is not None else {}),
        }

    @cached_property
    def _left_out(self) -> int:
        return count_left_out(self.questions, self.language)


def evaluate(task: Task[Any]) -> dict[str, Any]:
    """Ask the questions that have no line yet, score, and write report.json, report.md and report.html.

    Returns the report, or for a shard its name and the number of its questions. After an error or KeyboardInterrupt, the
    lines so far are in the run's folder, and the same call continues.

    Raises InputError for options or files that cannot be used, and whatever asking raises.
    """
    with task:
        task.check()
        asked = task.shard.of(task.asked)
        settings = {"task": task.name, **task.settings, "refactx": version("refactx")}
        open_run(task.folder, settings, task.ways)
        records = _ask_missing(task, asked)
        if task.shard.count > 1:
            return {"shard": str(task.shard), "questions": len(asked)}
        document = report_of(task, settings, task.score(records))
    write_atomically(task.folder / "report.json", document)
    write_report(task.folder, task.layout(document))
    return document


def _ask_missing(task: Task[Any], asked: Sequence[Any]) -> dict[str, list[Record]]:
    """Ask what has no record, and return the records by way."""
    with ExitStack() as stack:
        logs = {way: stack.enter_context(RunLog(task.folder, way, task.shard)) for way in task.ways}
        lacking = [(one, [way for way, log in logs.items() if one.key not in log.records]) for one in asked]
        missing = [(one, ways) for one, ways in lacking if ways]
        if missing:
            whole, left = len(asked) * len(logs), sum(len(ways) for _, ways in missing)
            bar = stack.enter_context(
                progress_bar(task.name, whole, initial=whole - left, unit=" questions", leave=False)
            )
            answers = task.ask(missing, {way: log.records for way, log in logs.items()})
            for way, key, record in stack.enter_context(closing(answers)):
                logs[way].add(key, record)
                bar.update()
        return {way: [log.records[one.key] for one in asked] for way, log in logs.items()}


def report_of(task: Task[Any], settings: Mapping[str, Any], scored: Scored) -> dict[str, Any]:
    """Return the report as one JSON document.

        {"version", "task", "settings", "questions": n, ..., "runs": {way: {"overall": FIGURES, GROUPS: {group: FIGURES}, ...}},
         "results": [{"run": way, ...}, ...]}

    A figure is an estimate, `{"value", "low", "high", "of"}`, or a number; null if it is not defined.
    """
    return {
        "version": VERSION,
        "task": task.name,
        "settings": {name: value for name, value in settings.items() if name != "task"},
        "questions": len(next(iter(scored.runs.values()))),
        **scored.more,
        "runs": {
            way: {
                "overall": _figures(task, scores),
                **{by: _grouped(task, scores, by) for by in scores[0].groups},
                **scored.details.get(way, {}),
            }
            for way, scores in scored.runs.items()
        },
        "results": [{"run": way, **one.line} for way, scores in scored.runs.items() for one in scores],
    }


def _figures(task: Task[Any], scores: Sequence[ScoredQuestion]) -> dict[str, Any]:
    found: dict[str, Any] = {"questions": len(scores)}
    for figure in task.figures:
        values = [value for one in scores if (value := one.values[figure.key]) is not None]
        made = figure.of(values) if values else None
        found[figure.key] = made.to_json() if isinstance(made, Estimate) else made
    return found


def _grouped(task: Task[Any], scores: Sequence[ScoredQuestion], by: str) -> dict[str, Any]:
    """Return the figures of groups, the largest first."""
    found = defaultdict[str, list[ScoredQuestion]](list)
    for one in scores:
        for name in one.groups[by]:
            found[name].append(one)
    return {name: _figures(task, found[name]) for name in sorted(found, key=lambda name: (-len(found[name]), name))}
