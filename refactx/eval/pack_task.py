"""Translations by a domain pack: each case is translated in several ways, and its rows are compared with those of gold.

Cases are questions with gold queries: those of the pack's `cases.jsonl`, its examples, or the questions of a file.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from refactx.errors import InputError, ModelError
from refactx.eval.execution import MOST_ROWS, rows_f1, set_f1
from refactx.eval.questions import Question
from refactx.eval.report import Figure, Layout, ReportCase, lead_of
from refactx.eval.run import Answers, Record, Scored, ScoredQuestion, Task, default_folder, fingerprint
from refactx.eval.statistics import mean
from refactx.sparql.engines import EngineError, QueryRefusedError, Rows, SparqlEngine, SparqlSyntaxError
from refactx.sparql.packs.pack import Pack
from refactx.sparql.packs.translation import Translation, features_of
from refactx.sparql.packs.translator import Translator

Mode = Literal["prompt", "retrieval", "repair", "agent"]
Source = Literal["cases", "examples"]
MODES: tuple[Mode, ...] = ("prompt", "retrieval", "repair", "agent")
CASES = "cases.jsonl"
SECONDS = 30.0
"""The most time of a query."""
FIGURES = (
    Figure("syntax", "SPARQL", "the query is SPARQL"),
    Figure("executed", "Runs", "the engine runs the query"),
    Figure("f1", "F1 of rows", "rows of the query against those of the gold query", of=mean),
    Figure("exact", "All rows right", "the same rows"),
    Figure("components", "Components", "share of the texts that the query is expected to have", of=mean),
    Figure(
        "patterns", "Patterns, F1", "patterns that the question was found to have against those that it has", of=mean
    ),
    Figure("detected", "Patterns found", "all patterns of the question are among those that it was found to have"),
    Figure("attempts", "Attempts", "queries that were written, a question", of=mean),
)
_OF_GROUPS = ("syntax", "executed", "f1", "exact")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackCase:
    """A question with its gold query.

    `primary`: the variables whose values answer the question, empty for all; `patterns`: those of the question;
    `components`: texts that the query is expected to have; `without`: ids of examples that a model is not to be shown.
    """

    key: str
    question: str
    sparql: str
    primary: tuple[str, ...] = ()
    category: str = ""
    patterns: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


@dataclass(kw_only=True)
class PackTask(Task[PackCase]):
    """The evaluation of `refactx eval --pack`.

    `modes`: `prompt` (the pack's texts alone), `retrieval` (and examples), `repair` (and validation), `agent`; `source`:
    `cases` of the pack, or its `examples`, each without itself among those that the model is shown; `language`: of the
    questions, by default the pack's first; `category`, `pattern`: those of these alone; `cases`: others in place of all
    these, in the order in which they are translated; `limit`: the most cases, and another one continues a run;
    `batch_size`: how many are translated at once, in threads.

    `translator`: makes the one of a mode, when it is first needed; `runs`: has rows for all gold queries; `stop`: called
    if the run ends early, lets the translations in other threads fail soon; `own_settings`: what has to be the same when
    the run is continued, beside those of the task.
    """

    pack: Pack
    translator: Callable[[Mode], Translator]
    runs: SparqlEngine
    modes: tuple[Mode, ...] = MODES
    source: Source = "cases"
    language: str | None = None
    category: str | None = None
    pattern: str | None = None
    cases: Sequence[PackCase] = ()
    batch_size: int = 1
    stop: Callable[[], object] = lambda: None
    own_settings: Mapping[str, Any] = field(default_factory=dict)

    name = "translations"
    figures = FIGURES

    @property
    def folder(self) -> Path:
        """The folder of the run, by default `refactx-eval/PACK-MODEL`."""
        return self.out or default_folder(self.pack.name, self.model)

    @property
    def ways(self) -> tuple[str, ...]:
        return self.modes

    @cached_property
    def chosen(self) -> Sequence[PackCase]:
        """The cases, without the limit."""
        return self.cases or cases_of(self.pack, self.source, self.language, self.category, pattern=self.pattern)

    @property
    def asked(self) -> Sequence[PackCase]:
        return self.chosen[: self.limit]

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "pack": self.pack.name,
            "fingerprint": self.pack.fingerprint,
            "model": self.model,
            "modes": list(self.modes),
            "source": self.source,
            "language": self.language,
            "category": self.category,
            "cases": fingerprint([[case.key, case.question, case.sparql] for case in self.chosen]),
            **({} if self.pattern is None else {"pattern": self.pattern}),
            **self.own_settings,
        }

    def ask(
        self, missing: Sequence[tuple[PackCase, Sequence[str]]], records: Mapping[str, Mapping[str, Record]]
    ) -> Answers:
        """Yield the lines that are missing, of `batch_size` cases at a time, each in one mode after the other.

        The first attempt of `repair` is that of `retrieval`, which comes last. After an error no other case begins.
        """
        of_mode = cache(self.translator)
        waiting = ((case, sorted(modes, key=lambda mode: mode == "retrieval")) for case, modes in missing)
        running: dict[Future[dict[Mode, Record]], tuple[PackCase, list[Any]]] = {}
        with ThreadPoolExecutor(self.batch_size, thread_name_prefix="refactx-translations") as pool:

            def begin(case: PackCase, modes: list[Any]) -> None:
                mode, *left = modes
                running[pool.submit(self._records, case, mode, of_mode(mode), left)] = case, left

            try:
                for one in islice(waiting, self.batch_size):
                    begin(*one)
                while running:
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        case, left = running.pop(future)
                        found = future.result()
                        for mode, record in found.items():
                            yield mode, case.key, record
                        left = [mode for mode in left if mode not in found]
                        following = (case, left) if left else next(waiting, None)
                        if following is not None:
                            begin(*following)
            except BaseException:
                self.stop()
                raise

    def _records(
        self, case: PackCase, mode: Mode, translator: Translator, others: Sequence[Mode]
    ) -> dict[Mode, Record]:
        """Return the line of a case in a mode, and in `retrieval`, if it is lacking, where its query is the first of this
        mode."""
        try:
            found = translator.translate(case.question, without=case.without)
        except (InputError, ModelError) as error:
            return {mode: {"error": str(error)}}
        records: dict[Mode, Record] = {mode: self._line(case, found)}
        if mode == "repair" and "retrieval" in others:
            first = found.attempts[:1]
            sparql = first[0].sparql if first else None
            alone = replace(found, sparql=sparql, valid=False, rows=None, attempts=first, confidence=None, reason="")
            records["retrieval"] = self._line(case, alone)
        return records

    def _line(self, case: PackCase, found: Translation) -> Record:
        """Return the line of a translation: what was written, and its scores."""
        fault, rows = self._run(found.sparql)
        _, gold = self._run(case.sparql)
        if isinstance(gold, Rows):
            f1 = rows_f1(gold, case.primary, rows)
        else:
            f1 = float(gold is not None and gold == rows)
        return {
            "sparql": found.sparql,
            "syntax": found.sparql is not None and fault != "syntax",
            "executed": rows is not None,
            "fault": fault,
            "rows": len(rows.rows) if isinstance(rows, Rows) else None,
            "f1": round(f1, 6),
            "components": components_found(found.sparql, case.components),
            "patterns": round(set_f1(set(case.patterns), set(found.patterns)), 6) if case.patterns else None,
            "detected": set(case.patterns) <= found.patterns.keys() if case.patterns else None,
            "valid": found.valid,
            "attempts": len(found.attempts),
            "confidence": found.confidence,
            "features": list(features_of(found)),
            "reason": found.reason,
        }

    def _run(self, sparql: str | None) -> tuple[str, Rows | bool | None]:
        """Return why a query has no result, and its result."""
        if sparql is None:
            return "no query", None
        try:
            return "", self.runs.run(sparql, limit=MOST_ROWS, seconds=SECONDS)
        except SparqlSyntaxError:
            return "syntax", None
        except (EngineError, QueryRefusedError) as error:
            return str(error), None

    def score(self, records: Mapping[str, Sequence[Record]]) -> Scored:
        """Return the scores of each mode, which its lines have. A case that could not be asked is wrong."""
        return Scored({mode: list(map(_score, self.asked, lines)) for mode, lines in records.items()})

    @staticmethod
    def layout(report: Mapping[str, Any]) -> Layout:
        settings, results = report["settings"], report["results"]
        return Layout(
            report=report,
            title=f"{settings['model']} by the pack {settings['pack']}",
            lead=[lead_of(report)],
            labels={mode: mode for mode in report["runs"]},
            figures=FIGURES,
            tiles=("f1",),
            groups={"by_category": ("By category", _OF_GROUPS), "by_pattern": ("By pattern", _OF_GROUPS)},
            brief=("by_category",),
            cases={mode: [_shown(one) for one in results if one["run"] == mode] for mode in report["runs"]},
            plots=_plots,
        )


def _score(case: PackCase, line: Record) -> ScoredQuestion:
    f1 = float(line.get("f1") or 0.0)
    return ScoredQuestion(
        values={
            "syntax": bool(line.get("syntax")),
            "executed": bool(line.get("executed")),
            "f1": f1,
            "exact": f1 == 1.0,
            **{name: line.get(name) for name in ("components", "patterns", "detected", "attempts")},
        },
        groups={"by_category": [case.category or "other"], "by_pattern": case.patterns},
        line={"question": case.question, "gold": case.sparql}
        | {name: value for name, value in line.items() if name != "features"},
    )


def cases_of(
    pack: Pack,
    source: Source = "cases",
    language: str | None = None,
    category: str | None = None,
    limit: int | None = None,
    *,
    pattern: str | None = None,
) -> list[PackCase]:
    """Return the cases that have a gold query, in an order that has nothing to do with them, so that a limit is fair.

    `language`: of the questions, if they are in several; `category`, `pattern`: those that have it alone. Raises InputError if
    there are none.
    """
    found = list(_from_file(pack, language) if source == "cases" else _from_examples(pack, language))
    chosen = [one for one in found if category in (None, one.category) and (pattern is None or pattern in one.patterns)]
    if not chosen:
        known = sorted({case.category for case in found if case.category})
        asked = f" of category {category} (there are {', '.join(known) or 'none'})" if category else ""
        patterns = sorted({name for case in found for name in case.patterns})
        asked += f" with the pattern {pattern} (there are {', '.join(patterns) or 'none'})" if pattern else ""
        where = CASES if source == "cases" else "examples.jsonl"
        raise InputError(f"pack {pack.name} has no cases with gold queries{asked} in {where}: give --source or a file")
    return sorted(chosen, key=lambda case: sha256(case.key.encode()).hexdigest())[:limit]


def cases_of_questions(questions: Sequence[Question]) -> list[PackCase]:
    """Return questions with a gold query as cases, in their order. Their kind is the category; all variables are primary.

    >>> one = Question(id="1", source="s", text="Who?", answers=(), kind="single", sparql="SELECT ?x { ?x ?p 1 }", key="s/1")
    >>> [(case.key, case.question, case.category) for case in cases_of_questions([one])]
    [('s/1', 'Who?', 'single')]
    """
    return [PackCase(key=one.key, question=one.text, sparql=one.sparql, category=one.kind) for one in questions]


def _from_file(pack: Pack, language: str | None) -> Iterator[PackCase]:
    path = None if pack.folder is None else pack.folder / CASES
    if path is None or not path.is_file():
        return
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            yield from _case(json.loads(line), language)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{path}: line {number} is no case ({error!r}): expected id, questions, sparql, primary, category, patterns"
            ) from None


def _case(document: dict[str, Any], language: str | None) -> Iterator[PackCase]:
    questions = document["questions"]
    question = questions.get(language) if language else next(iter(questions.values()))
    if question and document.get("sparql"):
        yield PackCase(
            key=str(document["id"]),
            question=question,
            sparql=document["sparql"],
            primary=tuple(document.get("primary", ())),
            category=document.get("category", ""),
            patterns=tuple(document.get("patterns", ())),
            components=tuple(document.get("components", ())),
        )


def _from_examples(pack: Pack, language: str | None) -> Iterator[PackCase]:
    for one in pack.examples:
        questions = (one.question,) if language is None else one.variants.get(language, ())
        if questions:
            yield PackCase(
                key=one.id, question=questions[0], sparql=one.sparql, patterns=tuple(one.patterns), without=(one.id,)
            )


def components_found(sparql: str | None, components: Iterable[str]) -> float | None:
    """Return the share of expected parts that a query has, as texts; None if none are expected.

    >>> components_found("SELECT ?x { GRAPH  <http://e.org/g> { ?x a ex:Dog } }", ["GRAPH <http://e.org/g>", "ex:Cat"])
    0.5
    """
    wanted, text = [_folded(one) for one in components], _folded(sparql or "")
    return sum(one in text for one in wanted) / len(wanted) if wanted else None


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _shown(one: Mapping[str, Any]) -> ReportCase:
    fields = {
        "F1": f"{one.get('f1') or 0.0:.2f}",
        "Attempts": str(one.get("attempts") or ""),
        "Reason": one.get("error") or one.get("reason") or one.get("fault"),
        "Gold query": one["gold"],
    }
    return ReportCase(title=one["question"], fields=fields, text=one.get("sparql") or "(no query)")


def _plots(layout: Layout) -> dict[str, str]:
    from refactx.eval.plots import figure_dots, group_dots

    return {
        "Scores": figure_dots(layout, _OF_GROUPS),
        "F1 of rows by category": group_dots(layout, "by_category", "f1"),
    }
