"""The options of `refactx eval --sparql`."""

from dataclasses import dataclass
from pathlib import Path

from refactx.engines.loading import EngineOptions
from refactx.errors import InputError
from refactx.eval.logs import WHOLE, Shard
from refactx.eval.question import Split
from refactx.eval.run import default_folder
from refactx.sparql.policies import POLICIES, PolicyName

SECONDS = 60.0
"""The most time of a query by default."""
_STEERED = ("strict", "harvest")
"""Policies that choose among a model's continuations, which no server offers."""


@dataclass(frozen=True, kw_only=True)
class PolicyEvaluationOptions:
    """The options of an evaluation of policies.

    `run_on`: the engine, as of `refactx query --run-on`; `timeout`: the most seconds of a query; `grammar`: whether open
    text of our engines is held to the grammar; `ablate`: the shares of names that are taken out of the memory;
    `distractors`: how many times as large the memory is made; `shard`: ask its questions alone, without a report;
    `out`: the run's folder, by default `refactx-eval/QUESTIONS-sparql-MODEL`. The others are those of `refactx query` and
    of `refactx eval`.
    """

    questions: Path
    model: str
    policies: tuple[PolicyName, ...]
    index: str = "default"
    db: str | None = None
    split: Split = "all"
    kinds: tuple[str, ...] = ()
    limit: int | None = None
    prompt: str = "wikidata"
    sparql_prompt: str = "sparql"
    model_url: str | None = None
    tau: float | None = None
    grammar: bool = True
    run_on: str | None = None
    timeout: float = SECONDS
    engine: EngineOptions = EngineOptions()  # noqa: RUF009  (it is frozen)
    out: Path | None = None
    shard: Shard = WHOLE
    ablate: tuple[float, ...] = ()
    distractors: tuple[int, ...] = ()

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.out or default_folder(f"{self.questions.stem}-sparql", self.model)

    @property
    def is_held(self) -> bool:
        """Whether open text is held to the grammar."""
        return self.grammar and self.model_url is None

    def check(self) -> None:
        """Raise InputError for policies that do not exist, and for options that exclude each other."""
        unknown = [name for name in self.policies if name not in POLICIES]
        if unknown or not self.policies:
            raise InputError(f"--sparql {','.join(unknown)} is no policy: give some of {','.join(POLICIES)}")
        steered = [name for name in self.policies if name in _STEERED]
        if self.model_url is not None and steered:
            raise InputError(
                f"--sparql {steered[0]} needs a model whose choices can be steered, which no server offers: give open, rag "
                "or direct, or leave out --model-url"
            )
        if self.tau is not None and ("open" not in self.policies or self.is_held):
            raise InputError(
                "--tau is of names that a memory resolves: give --sparql open with --no-grammar or --model-url"
            )
        if (self.ablate or self.distractors) and ("open" not in self.policies or self.is_held):
            raise InputError(
                "--ablate-names and --distractors resolve the texts of open again, and text that is held to the grammar has "
                "nothing to resolve: give --sparql open with --no-grammar or --model-url"
            )
