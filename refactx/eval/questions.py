"""Questions with their gold answers, and which of them a run asks.

**The split.** A question belongs to `tune` if the last bit of the SHA-256 of its id (UTF-8) is 0, else to `report`: each
half is the same on every machine, whatever the file's order and whatever else is in the file. Ideas are tried on `tune`
alone. **The order** is that of the same hash, so that `--limit 200` always takes the same 200 questions of a half.
"""

import json
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from refactx.errors import InputError
from refactx.eval.answers import Gold, same

Split = Literal["all", "tune", "report"]
MAX_BYTES = 2 << 30
"""No published set is larger: 2WikiMultiHopQA's training file, with its paragraphs, has some 700 MB."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question and what counts as its answer.

    `kind`: how the data set sorts it (`single`, `multi`, `count`, ...). `answer_ids`: ids of the answers in no order,
    for those whose `Gold` has none. `sparql`: the gold query, "" if there is none. `key` tells it from all others of a
    run: the id, or `source/id` where an id occurs twice (see `keyed`).
    """

    id: str
    source: str
    text: str
    answers: tuple[Gold, ...]
    kind: str = "all"
    answer_ids: tuple[str, ...] = ()
    sparql: str = ""
    key: str = ""


def hash_of(question: Question) -> bytes:
    """What order and split go by: the SHA-256 of the id."""
    return sha256(question.id.encode()).digest()


def half_of(question: Question) -> Split:
    """The half that a question belongs to.

    >>> half_of(Question("WebQTrn-13", "wwq/train", "Which countries border the US?", ()))
    'report'
    """
    return "tune" if hash_of(question)[-1] % 2 == 0 else "report"


def chosen(
    questions: Sequence[Question], split: Split = "all", kinds: Collection[str] = (), limit: int | None = None
) -> list[Question]:
    """The questions of that half and those kinds (none given: all), in the order of their hashes, `limit` at most.

    Raises InputError if none is left.
    """
    unknown = sorted(set(kinds) - {question.kind for question in questions})
    if unknown:
        there = ", ".join(f"{kind} ({n})" for kind, n in Counter(q.kind for q in questions).most_common())
        raise InputError(f"there are no questions of kind {', '.join(unknown)}; there are: {there}")
    kept = [q for q in questions if split in ("all", half_of(q)) and (not kinds or q.kind in kinds)]
    if not kept:
        raise InputError("no question is left: give another --split or --kinds")
    return sorted(kept, key=lambda q: (hash_of(q), q.key))[:limit]


def keyed(questions: Sequence[Question]) -> list[Question]:
    """The questions with their keys. Raises InputError where two have the same source and id."""
    ids = Counter(question.id for question in questions)
    named = [replace(q, key=q.id if ids[q.id] == 1 else f"{q.source}/{q.id}") for q in questions]
    twice = [key for key, n in Counter(q.key for q in named).items() if n > 1]
    if twice:
        raise InputError(f"{len(twice)} ids occur twice, such as {twice[0]!r}: each question needs an id of its own")
    return named


def with_names(question: Question, names: dict[str, tuple[str, ...]]) -> Question:
    """The question with what the knowledge base calls its answers, by id, as aliases of them.

    An id in `answer_ids` goes to the answer that has one of its names; if one id and one answer are left, to each other.
    """
    golds = [replace(g, aliases=(*g.aliases, *names.get(g.id, ()))) if g.id else g for g in question.answers]
    ids = [number for number in question.answer_ids if number in names]
    free = {at for at, gold in enumerate(golds) if gold.id is None}
    left = []
    for number in ids:
        at = next((a for a in sorted(free) if any(same(n, golds[a].text) for n in names[number])), None)
        if at is None:
            left.append(number)
        else:
            golds[at] = replace(golds[at], id=number, aliases=(*golds[at].aliases, *names[number]))
            free.remove(at)
    if len(left) == len(free) == 1 and len(question.answer_ids) == len(question.answers):
        at = free.pop()
        golds[at] = replace(golds[at], id=left[0], aliases=(*golds[at].aliases, *names[left[0]]))
    return replace(question, answers=tuple(golds))


def read_questions(path: Path) -> list[Question]:
    """The questions of a file, in its order; those without a gold answer are left out.

    The format is told by what is in the file, see `refactx.eval.formats`. Raises InputError.
    """
    from refactx.eval.formats import questions_of

    questions = questions_of(_documents(_content(path), path), path)
    asked = [question for question in questions if question.answers]
    if not asked:
        raise InputError(
            f"{path} has {len(questions)} questions and no gold answer: give a published train or dev file"
        )
    return keyed(asked)


def read_texts(path: Path) -> list[str]:
    """The questions of a file as texts alone, without their answers, if it has any; `-`: standard input.

    One a line, or one JSON object with a `question` a line, or any format that `read_questions` knows. Raises InputError.
    """
    from refactx.eval.formats import questions_of

    content = sys.stdin.read() if str(path) == "-" else _content(path)
    if content.lstrip()[:1] not in ("{", "["):
        texts = [line.strip() for line in content.splitlines() if line.strip()]
    else:
        document = _documents(content, path)
        records = [document] if isinstance(document, dict) else document
        texts = [record.get("question") for record in records if isinstance(record, dict)]
        if len(texts) < len(records) or not all(isinstance(text, str) and text.strip() for text in texts):
            texts = [question.text for question in questions_of(document, path)]
    if not texts:
        raise InputError(f"{path} has no questions: give one a line, or one JSON object with a question a line")
    return texts


def _content(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path} is larger than {MAX_BYTES >> 30} GiB: give a file of questions")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot read the questions in {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a file of questions: it is not UTF-8 text") from error


def _documents(text: str, path: Path) -> Any:
    """The JSON document of a file, or the list of those in its lines."""
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as whole:
        if not text.strip():
            raise InputError(f"{path} is empty: give a file of questions") from None
        lines = []
        for number, line in enumerate(text.split("\n"), 1):
            try:
                if line.strip():
                    lines.append(json.loads(line))
            except (json.JSONDecodeError, RecursionError) as error:
                where = f"line {number}" if lines else str(whole)
                raise InputError(
                    f"{path} is neither JSON nor one JSON object a line ({where}): give a file of questions"
                ) from error
        return lines
