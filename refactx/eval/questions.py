"""The questions of a run: those of a file, with gold answers, and the choice among them.

**The split.** A question belongs to `tune` if the last bit of the SHA-256 of its id (UTF-8) is 0, else to `report`:
each half is the same on every machine, for any order of the file and whatever other questions it has. Experiments use
`tune` alone. **The order** is that of the same hash, so that `--limit 200` always takes the same 200 questions of a
half.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from refactx.errors import InputError
from refactx.eval.answers import same
from refactx.eval.question import Question, Split, assign_keys, half_of, hash_of

MAX_BYTES = 2 << 30
"""More than any published set has: 2WikiMultiHopQA's training file, with its paragraphs, has some 700 MB."""

_TABLES = {
    "a table of SimpleQuestions": re.compile(r"(?:www|fb)[.:][^\t\n]*\t[^\t\n]*\t[^\t\n]*\t|Q\d+\t[PR]\d+\tQ\d+\t"),
    "a table of MetaQA": re.compile(r"[^\t\n]*\[[^\]\n]+\][^\t\n]*\t[^\t\n]+\n"),
    "YAML": re.compile(r"(?:---\s*\n|- |[A-Za-z_]+:\s*(?:\n|$))"),
    "a table (CSV or TSV)": re.compile(r"[^\n{}\[\]]*[,;\t][^\n{}\[\]]*\n"),
}
"""What a file that is no JSON is, by its first line."""


def choose_questions(
    questions: Sequence[Question], split: Split = "all", kinds: Collection[str] = (), limit: int | None = None
) -> list[Question]:
    """Return at most `limit` questions of a half and of some kinds (none given: all), in the order of their hashes.

    Raises InputError for an unknown kind, or if no question is left.
    """
    unknown = sorted(set(kinds) - {question.kind for question in questions})
    if unknown:
        there = ", ".join(f"{kind} ({n})" for kind, n in Counter(q.kind for q in questions).most_common())
        raise InputError(f"there are no questions of kind {', '.join(unknown)}: give some of {there}")
    kept = [q for q in questions if split in ("all", half_of(q)) and (not kinds or q.kind in kinds)]
    if not kept:
        raise InputError("no question is left: give another --split or --kinds")
    return sorted(kept, key=lambda q: (hash_of(q), q.key))[:limit]


def with_names(question: Question, names: dict[str, tuple[str, ...]]) -> Question:
    """Return the question with the knowledge base's names of its answers, which `names` has by id, as their aliases.

    An id in `answer_ids` belongs to the answer that has one of its names; if one id and one answer are left, they
    belong together.
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
    """Return the questions of a file, in its order, without those that have no gold answer.

    The format is recognised by the content, see `refactx.eval.formats`. Raises InputError if the file cannot be read or
    has no such question.
    """
    questions = _questions(path)
    asked = [question for question in questions if question.answers]
    if not asked:
        has_queries = any(question.sparql.strip() for question in questions)
        advice = "score its gold queries with --sparql" if has_queries else "give a train or dev file, which has them"
        raise InputError(f"{path} has {len(questions)} questions but no gold answers: {advice}")
    return assign_keys(asked)


def read_queries(path: Path) -> list[Question]:
    """Return the questions of a file that have a gold query, in its order, with gold answers or without.

    Raises InputError if the file cannot be read or has no such question.
    """
    questions = _questions(path)
    asked = [question for question in questions if question.sparql.strip()]
    if not asked:
        raise InputError(
            f"{path} has {len(questions)} questions but no gold SPARQL: give QALD, LC-QuAD 2.0, or lines with `sparql`"
        )
    return assign_keys(asked)


def read_texts(path: Path) -> list[str]:
    """Return the texts of the questions in a file; `-`: standard input.

    A line is a question, or a JSON object with a `question`; or the file is in a format that `read_questions` reads.
    Raises InputError if the file cannot be read or has no questions.
    """
    from refactx.eval.formats import questions_of

    content = _standard_input() if str(path) == "-" else _content(path)
    if content.lstrip()[:1] not in ("{", "["):
        texts: list[Any] = [line.strip() for line in content.splitlines() if line.strip()]
    else:
        document = _documents(content, path)
        records = [document] if isinstance(document, dict) else document
        texts = [record.get("question") for record in records if isinstance(record, dict)]
        if len(texts) < len(records) or not all(isinstance(text, str) and text.strip() for text in texts):
            texts = [question.text for question in questions_of(document, path)]
    if not texts:
        raise InputError(f"{path} has no questions: write one a line, or one JSON object with a question a line")
    return texts


def _questions(path: Path) -> list[Question]:
    from refactx.eval.formats import questions_of

    return questions_of(_documents(_content(path), path), path)


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not text in UTF-8: {error}") from error


def _content(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path} has more than {MAX_BYTES >> 30} GiB: give a file of questions")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot read the questions in {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: give a file of questions") from error


def _documents(text: str, path: Path) -> Any:
    """Return the JSON document in a text, or the list of the documents in its lines."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as whole:
        if not text.strip():
            raise InputError(f"{path} is empty: give a file of questions") from None
        lines = []
        for number, line in enumerate(text.split("\n"), 1):
            try:
                if line.strip():
                    lines.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                table = next((name for name, first in _TABLES.items() if not lines and first.match(text[:500])), None)
                if table:
                    raise InputError(
                        f"{path} is {table}, not JSON: write one JSON object a line, with question and answers or sparql"
                    ) from error
                where = f"line {number}" if lines else str(whole)
                raise InputError(
                    f"{path} is neither JSON nor one JSON object a line ({where}): give a file of questions"
                ) from error
        return lines
