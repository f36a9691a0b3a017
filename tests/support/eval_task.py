"""A task of an evaluation that needs neither model nor index: how many letters words have."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refactx.eval.report import Figure, Layout, lead_of
from refactx.eval.run import Answers, Record, Scored, ScoredQuestion, Task
from refactx.eval.statistics import mean


@dataclass(frozen=True)
class Word:
    """What is asked."""

    key: str


def score_of(letters: int) -> ScoredQuestion:
    parity = "odd" if letters % 2 else "even"
    return ScoredQuestion(values={"letters": letters}, groups={"by_parity": [parity]}, line={"letters": letters})


@dataclass(kw_only=True)
class Letters(Task[Word]):
    """`count`: counts the letters of a word, in two ways."""

    folder_: Path
    words: tuple[str, ...] = ("a", "bc", "def", "ghij", "klmno")
    count: Callable[[str], int] = len
    model: str = "m"

    name = "letters"
    figures = (Figure("letters", "Letters", of=mean),)

    @property
    def folder(self) -> Path:
        return self.folder_

    @property
    def ways(self) -> tuple[str, ...]:
        return ("once", "again")

    @property
    def asked(self) -> Sequence[Word]:
        return [Word(word) for word in self.words][: self.limit]

    @property
    def settings(self) -> dict[str, Any]:
        return {"questions": "words", "model": self.model, "limit": self.limit}

    def ask(
        self, missing: Sequence[tuple[Word, Sequence[str]]], records: Mapping[str, Mapping[str, Record]]
    ) -> Answers:
        for word, ways in missing:
            for way in ways:
                yield way, word.key, {"letters": self.count(word.key)}

    def score(self, records: Mapping[str, Sequence[Record]]) -> Scored:
        return Scored({way: [score_of(line["letters"]) for line in lines] for way, lines in records.items()})

    @staticmethod
    def layout(report: Mapping[str, Any]) -> Layout:
        return Layout(
            report=report,
            title="Letters",
            lead=[lead_of(report)],
            labels={way: way for way in report["runs"]},
            figures=Letters.figures,
            tiles=["letters"],
            groups={"by_parity": ("By parity", ["letters"])},
            brief=["by_parity"],
        )
