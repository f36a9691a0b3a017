"""Runs of many machines: each has a shard of the questions and a log of its own, in one folder that all of them see."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from refactx.errors import InputError
from refactx.eval.logs.log import AnswerLog, parse_records

_One = TypeVar("_One")


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

    def of(self, some: Sequence[_One]) -> Sequence[_One]:
        """Return the shard's own of some questions, in their order.

        >>> Shard(2, 3).of("abcdefg")
        'be'
        """
        return some[self.number - 1 :: self.count]

    def document(self, questions: Sequence[Any]) -> dict[str, Any]:
        """Return what an evaluation of a shard returns in place of a report: its name, and how many questions it has."""
        return {"shard": str(self), "questions": len(self.of(questions))}

    def file_of(self, stem: str) -> str:
        """Return the name of the shard's own log.

        >>> Shard(2, 8).file_of("answers"), WHOLE.file_of("answers")
        ('answers.2-of-8.jsonl', 'answers.jsonl')
        """
        return f"{stem}.jsonl" if self.count == 1 else f"{stem}.{self.number}-of-{self.count}.jsonl"


WHOLE = Shard()
"""All questions."""


class RunLog(AnswerLog):
    """The log `stem` of a run: `records` are those of all shards, and new ones go to the shard's own file.

    Raises InputError as `AnswerLog` does. Two processes with the same shard exclude each other, others do not.
    """

    def __init__(self, folder: Path, stem: str, shard: Shard = WHOLE) -> None:
        self.folder, self.stem = folder, stem
        super().__init__(folder / shard.file_of(stem))

    def _read(self) -> dict[str, dict[str, Any]]:
        records = super()._read()
        name = re.compile(re.escape(self.stem) + r"(\.[0-9]+-of-[0-9]+)?\.jsonl")
        for path in sorted(path for path in self.folder.iterdir() if name.fullmatch(path.name)):
            if path != self.path:
                content = path.read_bytes()  # its last line may be one that is being written
                records = {**parse_records(content[: content.rfind(b"\n") + 1], path), **records}
        return records
