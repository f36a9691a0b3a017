"""The run of an evaluation: a folder with the answers to the questions of a set, which can be stopped and continued.

The folder has `run.json` (the options), `names.json` (the index's names of gold answers), `aliases.json` (the entities
that have texts of answers as aliases), and with one line for each question `answers.jsonl` (with facts) and `free.jsonl`
(without constraint). For both of these, each question is asked in one way directly after the other, so that other
processes on the machine slow both equally.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any

from tqdm import tqdm

from refactx.ask.answer import Answer
from refactx.errors import InputError
from refactx.eval.logs import WHOLE, RunLog, Shard, write_atomically
from refactx.eval.question import Question

LOGS = {"grounded": "answers", "free": "free"}
"""The ways of asking, and the name of each one's log: `answers.jsonl`, or `answers.2-of-8.jsonl` of a shard."""

LABELS = {"grounded": "with facts", "free": "free"}
"""The names of the ways of asking in reports and plots."""

GROUP = 8

Ask = Callable[[Sequence[str]], Iterable[Answer | InputError]]
"""A function that answers questions in order, with an error for one that cannot be asked: `Asker.ask_all`."""


def fingerprint(questions: Sequence[Question]) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of the questions, their order and their gold answers."""
    whole = [[q.key, q.text, [[g.text, g.id, *g.aliases] for g in q.answers]] for q in questions]
    return sha256(json.dumps(whole).encode()).hexdigest()[:16]


def default_folder(name: str, model: str) -> Path:
    """Return the folder of a run that is given none. `name`: of the questions; `model`: as it was given.

    >>> default_folder("dev", "Qwen/Qwen3-8B").as_posix(), default_folder("dev", "qwen3/model.gguf").as_posix()
    ('refactx-eval/dev-Qwen3-8B', 'refactx-eval/dev-qwen3')
    """
    path = Path(model)
    called = path.parent.name if path.stem == "model" and path.parent.name else path.name
    return Path("refactx-eval") / f"{name}-{called or 'model'}"


def open_run(folder: Path, settings: dict[str, Any]) -> None:
    """Make the run's folder, or check that the run in it has the same settings.

    Raises InputError if the folder cannot be used, or if settings differ; the message names them.
    """
    path = folder / "run.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        recorded = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot use the folder {folder} ({error}): give another --out") from error
    if recorded is None:
        left = [f"{name}.jsonl" for name in LOGS.values() if (folder / f"{name}.jsonl").exists()]
        if left:
            raise InputError(f"{folder} has {left[0]} but no run.json: give another --out")
        write_atomically(path, settings)
    elif recorded != settings:
        names = sorted(recorded.keys() | settings.keys()) if isinstance(recorded, dict) else []
        differ = [
            f"{n} {recorded.get(n)!r}, now {settings.get(n)!r}" for n in names if recorded.get(n) != settings.get(n)
        ]
        raise InputError(
            f"{folder} has a run with other options ({'; '.join(differ) or 'run.json is not an object'}): "
            "give the same options to continue it, or another --out"
        )


Names = dict[str, tuple[str, ...]]
"""Names by key."""


def load_names(folder: Path, look_up: Callable[[], Names]) -> Names:
    """Return the names of the gold answers from the run's folder; the first time, look them up and store them."""
    path = folder / "names.json"
    if not path.exists():
        write_atomically(path, look_up())
    return _read_names(path)


def load_holders(folder: Path, texts: Collection[str], look_up: Callable[[Collection[str]], Names]) -> Names:
    """Return the entities that have each text as an alias from the run's folder; look up and store missing texts."""
    path = folder / "aliases.json"
    known = _read_names(path) if path.exists() else {}
    lacking = set(texts) - known.keys()
    if lacking:
        known |= look_up(lacking)
        write_atomically(path, known)
    return {text: known[text] for text in sorted(texts)}


def _read_names(path: Path) -> Names:
    try:
        return {key: tuple(names) for key, names in json.loads(path.read_text(encoding="utf-8")).items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path} cannot be read ({error}): delete it, so that it is made again") from error


def count_missing(folder: Path, questions: Sequence[Question], ways: Sequence[str], shard: Shard = WHOLE) -> int:
    """Return how many answers are missing in the run."""
    count = 0
    for way in ways:
        with RunLog(folder, LOGS[way], shard) as log:
            count += sum(question.key not in log.records for question in questions)
    return count


def ask_all(
    folder: Path, questions: Sequence[Question], asks: Mapping[str, Ask], batch_size: int = 1, shard: Shard = WHOLE
) -> None:
    """Ask the questions that have no answer yet, `batch_size` at a time. `asks`: functions by way of asking; `shard`:
    the one whose log gets the answers.

    A question that cannot be asked, for example since it is too long, gets a line with the error. After any exception,
    also KeyboardInterrupt, the answers so far are stored, and the next call continues. Several questions at a time are
    asked in groups of `GROUP` times as many in one way before the other, so that few wait for the last of a group.
    """
    with ExitStack() as stack:
        logs = {way: stack.enter_context(RunLog(folder, LOGS[way], shard)) for way in asks}
        whole, done = len(questions) * len(asks), sum(q.key in log.records for q in questions for log in logs.values())
        left = [question for question in questions if any(question.key not in log.records for log in logs.values())]
        with tqdm(total=whole, initial=done, desc="answers", disable=None, leave=False) as bar:
            step = 1 if batch_size == 1 else GROUP * batch_size
            for first in range(0, len(left), step):
                for way, ask in asks.items():
                    batch = [q for q in left[first : first + step] if q.key not in logs[way].records]
                    answers = ask([question.text for question in batch])
                    for question, answer in zip(batch, answers, strict=True):
                        record = (
                            {"error": str(answer)} if isinstance(answer, InputError) else {"answer": answer.to_json()}
                        )
                        logs[way].add(question.key, record)
                        bar.update()


def read_answers(folder: Path, questions: Sequence[Question], way: str) -> list[dict[str, Any]]:
    """Return the records of the questions, in their order. Raise InputError if one is missing."""
    with RunLog(folder, LOGS[way]) as log:
        lacking = [question.key for question in questions if question.key not in log.records]
        if lacking:
            raise InputError(f"{log.path} lacks the answers to {len(lacking)} questions: run the same command again")
        return [log.records[question.key] for question in questions]
