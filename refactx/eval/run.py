"""Asking the questions of a set, so that it can be stopped at any time and gone on with.

A run is a folder: `run.json` (what was asked of which model, and how), `names.json` (what the index calls the gold
answers), `answers.jsonl` (with facts) and `free.jsonl` (without constraint), one line a question, and `aliases.json` (whose
aliases the answers have). With both, each
question is asked in both ways, one right behind the other, so that what else the machine does slows both alike.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any

from tqdm import tqdm

from refactx.asking.answer import Answer
from refactx.errors import InputError
from refactx.eval.log import AnswerLog, write_whole
from refactx.eval.questions import Question

FILES = {"grounded": "answers.jsonl", "free": "free.jsonl"}
"""The ways of asking, and the file of each."""

Ask = Callable[[Sequence[str]], Iterable[Answer | InputError]]
"""Some questions' answers, in order, or why one cannot be asked: `Asker.ask_all`."""


def fingerprint(questions: Sequence[Question]) -> str:
    """Which questions these are, in which order, with which gold answers: 16 hexadecimal digits of a SHA-256."""
    whole = [[q.key, q.text, [[g.text, g.id, *g.aliases] for g in q.answers]] for q in questions]
    return sha256(json.dumps(whole).encode()).hexdigest()[:16]


def open_run(folder: Path, settings: dict[str, Any]) -> None:
    """Make the run's folder, or see that what is there is a run with the same settings.

    Raises InputError, naming what differs.
    """
    path = folder / "run.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        recorded = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot use the folder {folder} ({error}): give another --out") from error
    if recorded is None:
        left = [name for name in FILES.values() if (folder / name).exists()]
        if left:
            raise InputError(f"{folder} has {left[0]} but no run.json: give another --out")
        write_whole(path, settings)
    elif recorded != settings:
        names = sorted(recorded.keys() | settings.keys()) if isinstance(recorded, dict) else []
        differ = [
            f"{n} {recorded.get(n)!r}, now {settings.get(n)!r}" for n in names if recorded.get(n) != settings.get(n)
        ]
        raise InputError(
            f"{folder} holds a run with other options ({'; '.join(differ) or 'run.json is no object'}): "
            "give the same ones to go on with it, or another --out"
        )


Names = dict[str, tuple[str, ...]]
"""Several names by one key."""


def stored_names(folder: Path, look_up: Callable[[], Names]) -> Names:
    """The names of the gold answers from the run's folder; looked up and kept there the first time."""
    path = folder / "names.json"
    if not path.exists():
        write_whole(path, look_up())
    return _read_names(path)


def stored_holders(folder: Path, texts: Collection[str], look_up: Callable[[Collection[str]], Names]) -> Names:
    """Who has each text for an alias, from the run's folder; what it lacks is looked up and kept there."""
    path = folder / "aliases.json"
    known = _read_names(path) if path.exists() else {}
    lacking = set(texts) - known.keys()
    if lacking:
        known |= look_up(lacking)
        write_whole(path, known)
    return {text: known[text] for text in sorted(texts)}


def _read_names(path: Path) -> Names:
    try:
        return {key: tuple(names) for key, names in json.loads(path.read_text(encoding="utf-8")).items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path} cannot be read ({error}): delete it, and it is made again") from error


def missing(folder: Path, questions: Sequence[Question], ways: Sequence[str]) -> int:
    """How many answers the run still lacks."""
    count = 0
    for way in ways:
        with AnswerLog(folder / FILES[way]) as log:
            count += sum(question.key not in log.records for question in questions)
    return count


def ask_all(folder: Path, questions: Sequence[Question], asks: Mapping[str, Ask], batch_size: int = 1) -> None:
    """Ask what has no line yet, `batch_size` questions at a time. `asks`: how to ask, by way (`grounded`, `free`).

    A question that cannot be asked (it is too long for the model, say) gets a line that says so. Anything that is raised,
    KeyboardInterrupt too, leaves what is there: the next call goes on.
    """
    with ExitStack() as stack:
        logs = {way: stack.enter_context(AnswerLog(folder / FILES[way])) for way in asks}
        whole, done = len(questions) * len(asks), sum(q.key in log.records for q in questions for log in logs.values())
        left = [question for question in questions if any(question.key not in log.records for log in logs.values())]
        with tqdm(total=whole, initial=done, desc="answers", disable=None, leave=False) as bar:
            for first in range(0, len(left), batch_size):
                for way, ask in asks.items():
                    batch = [q for q in left[first : first + batch_size] if q.key not in logs[way].records]
                    answers = ask([question.text for question in batch])
                    for question, answer in zip(batch, answers, strict=True):
                        record = (
                            {"error": str(answer)} if isinstance(answer, InputError) else {"answer": answer.to_json()}
                        )
                        logs[way].add(question.key, record)
                        bar.update()


def read_answers(folder: Path, questions: Sequence[Question], way: str) -> list[dict[str, Any]]:
    """The lines of the questions, in their order. Raises InputError if one is missing."""
    with AnswerLog(folder / FILES[way]) as log:
        lacking = [question.key for question in questions if question.key not in log.records]
        if lacking:
            raise InputError(f"{log.path} has no answer to {len(lacking)} questions: run the same command again")
        return [log.records[question.key] for question in questions]
