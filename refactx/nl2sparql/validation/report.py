"""What validation finds: problems, each with what to do, and the rows of a query that has none."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from refactx.sparql.engines import Term

Level = Literal["L1", "L2", "L3"]


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a query.

    `level`: L1 syntax, L2 rules and names, L3 running; `code`: what kind of problem it is (`prefix`, `name`, `variable`,
    `rule.senses`, `time`); `text`: what was found and what was expected; `hint`: what to do.
    """

    level: Level
    code: str
    text: str
    hint: str

    def to_json(self) -> dict[str, str]:
        return {"level": self.level, "code": self.code, "text": self.text, "hint": self.hint}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found in a query.

    `problems`: in the order of their levels; `count`: how many rows were read, None if the query was not run or failed;
    `truncated`: whether there are more; `variables`, `rows`: of the result, as `refactx.sparql.engines.Rows` has them;
    `answer`: that of an ASK; `failure`: why an engine could not run it now, which is no fault of the query.
    """

    problems: tuple[Problem, ...] = ()
    count: int | None = None
    truncated: bool = False
    variables: tuple[str, ...] = ()
    rows: Sequence[tuple[Term | None, ...]] = ()
    answer: bool | None = None
    failure: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong.

        >>> Report().ok, Report(problems=(Problem("L1", "syntax", "...", "..."),)).ok
        (True, False)
        """
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """Return the report as `refactx validate --json` prints it; terms as N-Triples has them."""
        return {
            "valid": self.ok,
            "problems": [problem.to_json() for problem in self.problems],
            "count": self.count,
            "truncated": self.truncated,
            "answer": self.answer,
            "variables": list(self.variables),
            "rows": [[None if term is None else str(term) for term in row] for row in self.rows],
            "failure": self.failure or None,
        }
