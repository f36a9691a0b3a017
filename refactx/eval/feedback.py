"""What people say of answers (`refactx serve --feedback FILE`), as questions of a set or as examples of a pack.

A line counts as right if it is marked so, or has the right answers. An answer that others say is wrong, and one whose
question has another right answer later, does not.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from refactx.ask.answer import final_answer
from refactx.errors import InputError
from refactx.eval.answers import outcome
from refactx.sparql.packs.pack import EXAMPLES, Pack, built_in_packs
from refactx.sparql.packs.prompt import with_prefixes
from refactx.sparql.packs.retrieval import PatternDetector
from refactx.sparql.packs.validation import validate

MARKER = "Answer:"
"""The text before the final answer, where a server's prompt has no other."""
LONGEST = 1 << 20
"""The most characters of a line: the server takes fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """A question that people say is answered right: `answers` is gold. `sparql`: its query, empty if there was none."""

    question: str
    answers: tuple[str, ...]
    sparql: str = ""

    @property
    def id(self) -> str:
        """The first 12 hexadecimal digits of the SHA-256 of the question."""
        return sha256(self.question.encode("utf-8", "replace")).hexdigest()[:12]

    def to_json(self) -> dict[str, Any]:
        """Return the question as a line of a file that `refactx eval` reads."""
        query = {"sparql": self.sparql} if self.sparql else {}
        return {"id": self.id, "source": "feedback", "question": self.question, "answers": list(self.answers)} | query


def read_feedback(path: Path, marker: str = MARKER) -> tuple[list[Marked], int]:
    """Return the questions of a file of feedback whose answers are known, and how many others it has.

    `marker`: the text before the final answer. Raises InputError if the file is none.
    """
    found, wrong, asked = dict[str, Marked](), set[tuple[str, str]](), dict[str, None]()
    for number, one in _lines(path):
        try:
            question, text, sparql = (_whole(one.get(key, "")) for key in ("question", "answer", "sparql"))
            given = tuple(filter(None, map(_whole, one.get("answers", ()))))
            if not question or "answer" not in one:
                raise KeyError("question or answer")
        except (KeyError, AttributeError, TypeError) as error:
            raise InputError(
                f"{path}: line {number} has no question with an answer ({error!r}): give a file of feedback"
            ) from None
        asked[question], said, right = None, final_answer(text, marker) or text, one.get("right") is True
        if not right:
            wrong.add((question, said.casefold()))
        if given or (right and "\n" not in said and outcome(said, at_limit=False) == "given"):
            found[question] = Marked(question=question, answers=given or (said,), sparql=sparql if right else "")
    kept = [one for one in found.values() if not any((one.question, said.casefold()) in wrong for said in one.answers)]
    return kept, len(asked) - len(kept)


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode().strip()  # JSON may have half a character


def _lines(path: Path) -> Iterator[tuple[int, Any]]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(iter(lambda: file.readline(LONGEST), ""), 1):
                if line.strip():
                    yield number, json.loads(line)
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read as feedback ({error}): expected JSON, one object a line") from error


def add_examples(pack: Pack, marked: Sequence[Marked]) -> tuple[int, list[str]]:
    """Append the questions that have a query to the examples of a pack, and return how many, and why others were left out.

    A query has to pass the pack's checks; its patterns are those that its question is found to have. Raises InputError for a
    pack that comes with ReFactX, and if the file cannot be written.
    """
    if pack.folder is None or pack.name in built_in_packs():
        raise InputError(
            f"the pack {pack.name} comes with ReFactX: copy its folder {pack.folder}, and give that under a new name"
        )
    known = {question for example in pack.examples for question in example.questions}
    detector, lines, left = PatternDetector(pack), list[str](), list[str]()
    for one in marked:
        sparql = with_prefixes(one.sparql, pack.prefixes)
        checked = validate(sparql, pack) if one.sparql else None
        if checked is None or one.question in known:
            left.append(f"{one.question}: {'it has no query' if checked is None else 'it is an example already'}")
        elif not checked.ok:
            left.append(f"{one.question}: {next(iter(checked.problems)).text}")
        else:
            patterns = {name: round(score, 3) for name, score in detector.detect(one.question).items()}
            made = {"id": f"feedback-{one.id}", "question": one.question, "sparql": sparql, "patterns": patterns}
            lines.append(json.dumps(made, ensure_ascii=False) + "\n")
    try:
        path = pack.folder / EXAMPLES
        before = path.read_text(encoding="utf-8") if path.is_file() else ""
        with path.open("a", encoding="utf-8") as file:
            file.write("".join(["\n" if lines and before and not before.endswith("\n") else "", *lines]))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}: give a pack whose folder can be written") from error
    return len(lines), left
