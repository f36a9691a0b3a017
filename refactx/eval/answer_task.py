"""Answers to questions whose answers are known: asked with facts and maybe without, scored, and with the reason if an
answer is not exact.

The reason is the first of these that holds:

| reason | condition |
|---|---|
| not asked | the question could not be asked, for example since it is too long |
| cut off | the limit of tokens came before the end of the final answer |
| I don't know | the answer says so |
| no final answer | the text ended without one |
| list incomplete | it is right, but gold answers are missing |
| more than asked | it is right, with other items or words |
| fact not used | a gold answer is part of a fact, but under no known name in the final answer |
| no fact | the answer has no fact, although facts could be written |
| wrong query | the answer is that of a query, which has no facts as proof |
| wrong subject | no fact is about an entity of the gold query |
| wrong predicate | facts are about such an entity, but none has a property of the gold query |
| wrong object | both are right, the answer is not |
| wrong answer | there are no ids to compare: no gold query, no ids in the knowledge base, or free text |
"""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from refactx.ask.answer import Answer
from refactx.ask.examples import prompt_for
from refactx.ask.prompt import GREEDY, Generation, Prompt, load_prompt, prompt_of
from refactx.documents import answer_document, to_json
from refactx.engines.language_models import engine_for
from refactx.errors import InputError
from refactx.eval import judge
from refactx.eval.answers import NOTHING, Outcome, is_equal, outcome, same, score
from refactx.eval.answers import AnswerScore as Metrics
from refactx.eval.judge import PROMPT as JUDGE_PROMPT
from refactx.eval.names import CheckedNames, check_line, find_holders, gold_names, possible_aliases, with_aliases
from refactx.eval.questions import Question, read_questions, with_names
from refactx.eval.report import Figure, Layout, ReportCase, ReportRow, ReportTable, is_chosen, lead_of, ranged, signed
from refactx.eval.run import Answers, IndexTask, Record, Scored, ScoredQuestion, default_folder, fingerprint, look_up
from refactx.eval.statistics import Estimate, confidence_of, mean, ratio, ratio_of_pairs, separation, share
from refactx.lazy import require

LABELS = {"grounded": "with facts", "free": "free"}
"""The ways of asking, with their names in reports and plots."""
REASONS = (
    "not asked", "cut off", "I don't know", "no final answer", "list incomplete", "more than asked", "fact not used",
    "no fact", "wrong query", "wrong subject", "wrong predicate", "wrong object", "wrong answer",
)  # fmt: skip
AT_LEAST = "at least "
"""The words before the answer of a query that has reached a limit."""
TRANSCRIPTS = 5
"""The number of transcripts for each reason; the logs have all."""
HALF = 0.5
"""An answer is also compared as right if its F1 is at least this."""
GROUP = 8
_GROUPS = {"by_kind": "By kind of question", "by_answer_kind": "By kind of answer", "by_source": "By source"}
_OF_GROUPS = ("accuracy", "precision", "f1", "exact_accuracy", "auc", "facts", "seconds")
_OF_OUTCOME: dict[Outcome, str] = {
    "failed": "not asked",
    "cut off": "cut off",
    "unknown": "I don't know",
    "none": "no final answer",
}
_ENTITY = re.compile(r"\bwd:(Q\d+)|/entity/(Q\d+)>")
_PROPERTY = re.compile(r"\b(?:wdt|p|ps|wdtn|psv):(P\d+)|/prop/(?:\w+/)*(P\d+)>")
Ask = Callable[[Sequence[str]], Iterable[Answer | InputError]]
"""A function that answers questions in order, with an error for one that cannot be asked: `Asker.ask_all`."""


def _area(pairs: Sequence[tuple[float, bool]]) -> Estimate | None:
    """Return the area under the ROC curve of confidences and whether answers are right; None if all or none are."""
    confidence, right = zip(*pairs, strict=True)
    found = separation(confidence, right)
    return None if found.value is None else found


FIGURES = (
    Figure("accuracy", "Accuracy", "share of all questions with at least one gold answer in the final answer"),
    Figure("precision", "Precision", "the same as a share of the given answers"),
    Figure("f1", "Answer-set F1", "items of the answer compared with the gold answers", of=mean),
    Figure("exact_accuracy", "Accuracy, exact", "share of all questions with all gold answers and nothing else"),
    Figure("exact_precision", "Precision, exact", "the same as a share of the given answers"),
    Figure("em_accuracy", "Accuracy, EM", "share of all questions whose answer is the gold answer, but for case"),
    Figure("em_precision", "Precision, EM", "the same as a share of the given answers"),
    Figure("judge_accuracy", "Accuracy, judge", "share of all questions that the judge found right"),
    Figure("judge_precision", "Precision, judge", "the same as a share of the given answers"),
    Figure(
        "judge_without_verdict",
        "Without verdict",
        "replies of the judge that are none; they count as not right",
        of=sum,
    ),
    Figure("answered", "Answered", "share of all questions with a given answer"),
    Figure(
        "first_accuracy",
        "First",
        "share of the questions whose gold answers have an order with the first one in the answer",
    ),
    Figure(
        "with_query",
        "With a query",
        "share of all questions whose answer is that of a query",
        of=lambda hits: share(hits) if any(hits) else None,
    ),
    Figure(
        "auc",
        "AUC",
        "of pairs of a right and a wrong answer, the share in which the right one has more confidence",
        of=_area,
    ),
    Figure("auc_f1", "AUC, F1", "the same, where answers are right if their F1 is at least 0.5", of=_area),
    Figure("queries_that_fail", "Queries that fail", "queries of answers that do not run on the index", of=sum),
    Figure("unknown_names", "Unknown names", "names in queries of answers that the index does not have", of=sum),
    Figure("tokens", "Tokens", "a question", 1, mean),
    Figure("forward_passes", "Passes of the model", "a question", 1, mean),
    Figure("seconds", "Seconds", "a question", of=mean),
    Figure("seconds_per_token", "Seconds a token", "", 4, ratio_of_pairs),
    Figure("facts", "Facts", "a question", of=mean),
    Figure("queries", "", of=sum),
    Figure("outcomes", "", of=lambda outcomes: dict(Counter(outcomes).most_common())),
)
_PLOTTED = (
    "accuracy",
    "precision",
    "f1",
    *(f"{by}_{of}" for by in ("exact", "em", "judge") for of in ("accuracy", "precision")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionResult:
    """The result of one question, asked in one way.

    `answer`: the final answer; `text`: all that the model wrote; `facts`: as `refactx ask --json` prints them;
    `verdict`: the judge's, None if it gave none or there is none; `reason`: None if the answer is exact. `confidence`: the
    confidence in the answer, in nats; `queries`: as `refactx query --json` prints them; `holds_first`:
    whether the answer has the question's first gold answer; `is_equal`: whether it is the gold answer but for case.
    """

    question: Question
    answer: str = ""
    text: str = ""
    facts: tuple[Mapping[str, Any], ...] = ()
    outcome: Outcome = "failed"
    score: Metrics = NOTHING
    reason: str | None = "not asked"
    verdict: bool | None = None
    tokens: int = 0
    forward_passes: int = 0
    seconds: float = 0.0
    confidence: float | None = None
    queries: tuple[Mapping[str, Any], ...] = ()
    holds_first: bool = False
    is_equal: bool = False

    @property
    def given(self) -> bool:
        """Whether an answer was given, which counts for precision."""
        return self.outcome == "given"


@dataclass(kw_only=True)
class AnswerTask(IndexTask):
    """The evaluation of `refactx eval`.

    `free`: also ask without facts; `judge`, `judge_url`: a language model that judges the answers, and its server;
    `judge_prompt`: what it is told, `judge`, `judge-complete` (the rule of the paper) or a file;
    `generation`, `weights`, `ranker`: how is asked; `batch_size`: how many questions at a time; `asks`: what answers, by way
    of asking, in place of the model.
    """

    free: bool = False
    judge: str | None = None
    judge_url: str | None = None
    judge_prompt: str = JUDGE_PROMPT
    generation: Generation = GREEDY
    weights: Path | None = None
    ranker: str | None = None
    batch_size: int = 1
    asks: Mapping[str, Ask] | None = None

    name = "answers"
    figures = FIGURES

    def __post_init__(self) -> None:
        if self.generation.answer_language is None:  # gold answers have the names of the index
            self.generation = replace(self.generation, answer_language="index")

    def read(self) -> list[Question]:
        """Return the questions of the file that have gold answers."""
        return read_questions(self.questions, self.language)

    def check(self) -> None:
        """Raise InputError for options that exclude each other, or if a package is missing."""
        if self.judge_url and not self.judge:
            raise InputError("--judge-url was given without --judge: give the name of the judge's model with --judge")
        if self.judge_url:
            require("openai", "eval")

    @property
    def folder(self) -> Path:
        """The folder of the run, by default `refactx-eval/QUESTIONS-MODEL`."""
        return self.out or default_folder(self.questions.stem, self.model)

    @property
    def ways(self) -> tuple[str, ...]:
        """The ways in which each question is asked: `grounded`, and maybe `free`."""
        return tuple(LABELS) if self.free else ("grounded",)

    @cached_property
    def asking_prompt(self) -> Prompt:
        return prompt_for(self._prompt, self.opened_index).weighted(self.weights, self.ranker)

    @cached_property
    def _prompt(self) -> str | None:
        """The prompt's name or file: of what `refactx train` has taught, that which it was taught with."""
        return self.prompt or prompt_of(self.engine.adapter, self.model)

    @cached_property
    def _template(self) -> Prompt:
        """The prompt without the examples of an index, so that a finished run needs none."""
        return load_prompt(self._prompt or "wikidata").weighted(self.weights, self.ranker)

    @property
    def settings(self) -> dict[str, Any]:
        golds = [[q.key, q.text, [[g.text, g.id, *g.aliases] for g in q.answers]] for q in self.asked]
        confidence, template = self.generation.min_confidence, asdict(self._template)
        weights, ranker = template.pop("weights"), template.pop("ranker")
        return {
            **super().settings,
            "questions_fingerprint": fingerprint(golds),
            "prompt_fingerprint": fingerprint(template),
            **{name: value for name, value in asdict(self.generation).items() if name != "think" or value},
            "min_confidence": self._template.min_confidence if confidence is None else confidence,
            "batch_size": self.batch_size,
            "engine": engine_for(self.model, self.engine),
            **({} if self.weights is None else {"weights": weights}),
            **({"ranker": ranker} if ranker else {}),
        }

    def ask(
        self, missing: Sequence[tuple[Question, Sequence[str]]], records: Mapping[str, Mapping[str, Record]]
    ) -> Answers:
        """Yield the answers that are missing, `batch_size` questions at a time.

        Each question is asked in one way directly after the other, so that other processes on the machine slow both
        equally; several at a time in groups of `GROUP` times as many, so that few wait for the last of a group. A question
        that cannot be asked, for example since it is too long, gets a record with the error.
        """
        asks = self.asks or self._asks()
        step = 1 if self.batch_size == 1 else GROUP * self.batch_size
        for first in range(0, len(missing), step):
            for way in self.ways:
                batch = [question for question, ways in missing[first : first + step] if way in ways]
                answers = asks[way]([question.text for question in batch])
                for question, answer in zip(batch, answers, strict=True):
                    if isinstance(answer, InputError):
                        yield way, question.key, {"error": str(answer)}
                    else:
                        yield way, question.key, {"answer": to_json(answer_document(answer))}

    def _asks(self) -> dict[str, Ask]:
        from refactx.ask.checked import asker_of
        from refactx.ask.prompt import check_prompt

        prompt, index = self.asking_prompt, self.opened_index
        notes = check_prompt(prompt, index)
        say = partial(print, "refactx:", file=sys.stderr)
        asker, _ = asker_of(self.model, index, self.engine, prompt, say)
        for note in notes if (self.prompt or "").endswith(".toml") else []:  # the built-in prompts go with any index
            say(note)
        ask = partial(asker.ask_all, batch_size=self.batch_size)
        return {
            "grounded": partial(ask, options=self.generation),
            "free": partial(ask, options=self.generation.free, free=True),
        }

    def score(self, records: Mapping[str, Sequence[Record]]) -> Scored:
        """Return the results, which are judged if there is a judge, with the checks of the queries of answers."""
        named = self._named(records)
        unknown = self._template.unknown
        runs = {
            way: [
                make_result(question, record, grounded=way == "grounded", unknown=unknown)
                for question, record in zip(named, lines, strict=True)
            ]
            for way, lines in records.items()
        }
        if self.judge:
            runs = self._judged(self.judge, runs)
        lines = {query["query"] for results in runs.values() for result in results for query in result.queries}

        def check(lacking: Sequence[str]) -> dict[str, Any]:
            from refactx.walks.facts import TreeFacts

            facts = TreeFacts(self.opened_index)
            return {line: asdict(check_line(line, facts)) for line in lacking}

        checks = look_up(self.folder / "queries.json", lines, check, CheckedNames.from_json)
        who = self.judge if self.judge_prompt == JUDGE_PROMPT else f"{self.judge}, prompt {self.judge_prompt}"
        return scored(runs, who if self.judge else None, checks)

    def _named(self, records: Mapping[str, Sequence[Record]]) -> list[Question]:
        """Return all questions with the index's names and aliases of gold answers."""
        ids = {gold.id for q in self.asked for gold in q.answers if gold.id} | {
            number for q in self.asked for number in q.answer_ids
        }
        found = look_up(
            self.folder / "names.json", ids, lambda lacking: gold_names(self.opened_index, lacking), _as_names
        )
        names = {number: some for number, some in found.items() if some}
        said = [
            {text for record in lines if "answer" in record for text in possible_aliases(record["answer"]["answer"])}
            for lines in zip(*records.values(), strict=True)
        ]
        texts = set[str]().union(*said)
        holders = look_up(
            self.folder / "aliases.json", texts, lambda lacking: find_holders(self.opened_index, lacking), _as_names
        )
        # With the aliases in its own answers alone: its score must not depend on the answers to other questions.
        return [
            with_aliases(with_names(question, names), {text: holders[text] for text in own}, names)
            for question, own in zip(self.asked, said, strict=True)
        ]

    def _judged(self, who: str, runs: Mapping[str, Sequence[QuestionResult]]) -> dict[str, list[QuestionResult]]:
        cases = [
            judge.JudgedAnswer(
                key=f"{way}:{result.question.key}",
                question=result.question.text,
                golds=tuple(next(iter(gold.names), "") for gold in result.question.answers if gold.names),
                answer=result.answer,
            )
            for way, results in runs.items()
            for result in results
            if result.given
        ]
        url = self.judge_url
        make = partial(judge.remote_judge, who, url) if url else partial(judge.local_judge, who)
        verdicts = judge.judge_all(self.folder, cases, who, judge.load_judge_prompt(self.judge_prompt), make)
        return {
            way: [replace(result, verdict=verdicts.get(f"{way}:{result.question.key}")) for result in results]
            for way, results in runs.items()
        }

    @staticmethod
    def layout(report: Mapping[str, Any]) -> Layout:
        settings, runs = report["settings"], report["runs"]
        lead = [
            lead_of(
                report,
                f"Index {settings['index']}.",
                f"At most {settings['max_new_tokens']} new tokens, {_sampling(settings)}.",
                f"Judge {report['judge']}." if report["judge"] else "",
            )
        ]
        if not is_chosen(report):
            lead.append("The facts were not chosen by the question, since the model cannot be asked for that.")
        if one := report["comparison"]:
            lead.append(
                f"With facts minus free: accuracy {signed(one['gain']['accuracy'])}, F1 {signed(one['gain']['f1'])}. Right "
                f"only with facts: {one['only_grounded']}, only free: {one['only_free']}. With facts, a question takes "
                f"{ranged(one['seconds'])} times as long as free, a token {ranged(one['seconds_per_token'])} times."
            )
        labels = {way: LABELS[way] for way in runs}
        return Layout(
            report=report,
            title=f"{settings['model']} on {settings['questions']}",
            lead=lead,
            labels=labels,
            figures=FIGURES,
            tiles=("accuracy", "precision", "f1", "seconds"),
            groups={by: (title, _OF_GROUPS) for by, title in _GROUPS.items() if by in next(iter(runs.values()))},
            tables=[
                *(_thresholds(labels[way], run) for way, run in runs.items() if run["confidence"]),
                _reasons(labels, runs),
            ],
            cases_title="Failures",
            cases={
                f"{labels[way]}: {one['reason']}, {one['count']} ({one['share']:.0%})": list(
                    map(_case, one["transcripts"])
                )
                for way, run in runs.items()
                for one in run["failures"]
            },
            plots=_plots,
        )


def _as_names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError("expected a list of names")
    return tuple(value)


def make_result(question: Question, record: Record, *, grounded: bool, unknown: str) -> QuestionResult:
    """Return the result of a record, without a verdict. `grounded`: whether facts could be written."""
    answer = record.get("answer")
    if answer is None:
        return QuestionResult(question=question, text=record.get("error", ""))
    said, text, facts = answer["answer"], answer["text"], tuple(answer["facts"])
    # The limit cut off the answer if the text ends with the answer, or has none.
    at_limit = answer["finish_reason"] != "stop" and (not said or text.endswith(said))
    came = outcome(said, at_limit, unknown, question.answers)
    parts = [name for fact in facts for _, name in _parts(fact)]
    queries = tuple(answer.get("queries", ()))
    rows = [str(row.get("label") or row.get("literal") or "") for query in queries for row in query["rows"]]
    # The words before an incomplete list are not part of its first item.
    items = said.removeprefix(AT_LEAST) if rows else said
    metrics = score(items, question.answers, [*parts, *rows]) if came == "given" else NOTHING
    firsts = [gold for gold in question.answers if any(same(question.first, name) for name in gold.names)]
    return QuestionResult(
        question=question,
        answer=said,
        text=text,
        facts=facts,
        outcome=came,
        score=metrics,
        reason=_reason(question, facts, queries, came, metrics, grounded=grounded),
        tokens=answer["tokens"],
        forward_passes=answer["forward_passes"],
        seconds=answer["seconds"],
        confidence=answer_confidence(answer),
        queries=queries,
        holds_first=came == "given" and score(items, firsts, [*parts, *rows]).hit,
        is_equal=came == "given" and is_equal(said, question.answers),
    )


def answer_confidence(answer: Mapping[str, Any]) -> float | None:
    """Return the confidence in an answer, as `refactx ask --json` prints it; that of its query if it has no other.

    >>> found = {"queries": [{"confidence": 1.0}, {"confidence": 3.0}]}
    >>> answer_confidence({"confidence": 5.0}), answer_confidence(found), answer_confidence({})
    (5.0, 3.0, None)
    """
    confidence = [answer.get("confidence"), *(query.get("confidence") for query in reversed(answer.get("queries", ())))]
    return next((float(value) for value in confidence if value is not None), None)


def _reason(
    question: Question,
    facts: Sequence[Mapping[str, Any]],
    queries: Sequence[Mapping[str, Any]],
    came: Outcome,
    metrics: Metrics,
    *,
    grounded: bool,
) -> str | None:
    if came != "given":
        return _OF_OUTCOME[came]
    if metrics.exact:
        return None
    if metrics.hit:
        return "list incomplete" if 0 < metrics.recall < 1 else "more than asked"
    if not grounded:
        return "wrong answer"
    facts = [*facts, *(fact for query in queries for fact in query["facts"])]
    if not facts:
        return "wrong query" if queries else "no fact"
    ids = {gold.id for gold in question.answers if gold.id} | set(question.answer_ids)
    names = [name for gold in question.answers for name in gold.names]
    parts = [part for fact in facts for part in _parts(fact)]
    if any(number in ids or any(same(name, text) for name in names) for number, text in parts):
        return "fact not used"
    entities, properties = _ids(_ENTITY, question.sparql), _ids(_PROPERTY, question.sparql)
    subjects = [_id(fact.get("subject")) for fact in facts]
    if not entities or not properties or not any(subjects):
        return "wrong answer"
    about = [fact for fact, subject in zip(facts, subjects, strict=True) if subject in entities]
    if not about:
        return "wrong subject"
    return "wrong object" if any(_id(fact.get("predicate")) in properties for fact in about) else "wrong predicate"


def _parts(fact: Mapping[str, Any]) -> list[tuple[str | None, str]]:
    """Return the id and the text of a fact's subject and object."""
    found = []
    for part in (fact.get("subject"), fact.get("object")):
        if isinstance(part, Mapping):
            found.append((_id(part), str(part.get("label") or part.get("literal") or "")))
    return found


def _id(part: Any) -> str | None:
    number = part.get("id") if isinstance(part, Mapping) else None
    return number if isinstance(number, str) else None


def _ids(pattern: re.Pattern[str], sparql: str) -> set[str]:
    return {number for match in pattern.finditer(sparql) for number in match.groups() if number}


def scored(
    runs: Mapping[str, Sequence[QuestionResult]],
    judge: str | None = None,
    checks: Mapping[str, CheckedNames] | None = None,
) -> Scored:
    """Return the scores of results by way of asking: `grounded`, and maybe `free`, of the same questions in the same order.

    `judge`: the judge's name, if there was one; `checks`: those of the queries, by their lines.
    """
    return Scored(
        {way: [_score(one, judge is not None, checks or {}) for one in results] for way, results in runs.items()},
        {"judge": judge, "comparison": compare(runs["grounded"], runs["free"]) if len(runs) == 2 else None},
        {
            way: {
                "confidence": confidence_of(
                    [one.confidence for one in results],
                    [one.given for one in results],
                    [one.score.hit for one in results],
                ),
                "failures": _failures(results),
            }
            for way, results in runs.items()
        },
    )


def _score(result: QuestionResult, judged: bool, checks: Mapping[str, CheckedNames]) -> ScoredQuestion:
    question, one, given = result.question, result.score, result.given
    confidence = result.confidence if given else None
    verdict = result.verdict is True if judged else None
    found = [checks[query["query"]] for query in result.queries if query["query"] in checks]
    return ScoredQuestion(
        values={
            "accuracy": one.hit,
            "precision": one.hit if given else None,
            "exact_accuracy": one.exact,
            "exact_precision": one.exact if given else None,
            "em_accuracy": result.is_equal,
            "em_precision": result.is_equal if given else None,
            "f1": one.f1,
            "judge_accuracy": verdict,
            "judge_precision": verdict if given else None,
            "judge_without_verdict": given and result.verdict is None if judged else None,
            "answered": given,
            "first_accuracy": result.holds_first if question.first else None,
            "auc": None if confidence is None else (confidence, one.hit),
            "auc_f1": None if confidence is None else (confidence, one.f1 >= HALF),
            "with_query": bool(result.queries),
            "queries_that_fail": sum(bool(check.error) for check in found) if found else None,
            "unknown_names": sum(len(check.unknown) for check in found) if found else None,
            "tokens": result.tokens,
            "forward_passes": result.forward_passes,
            "seconds": result.seconds,
            "seconds_per_token": (result.seconds, result.tokens),
            "facts": len(result.facts),
            "queries": len(result.queries),
            "outcomes": result.outcome,
        },
        groups={f"by_{name}": [getattr(question, name)] for name in ("kind", "answer_kind", "source")},
        line={
            "key": question.key,
            "outcome": result.outcome,
            "hit": one.hit,
            "exact": one.exact,
            "em": result.is_equal,
            "f1": round(one.f1, 4),
            "verdict": result.verdict,
            "confidence": result.confidence,
            "reason": result.reason,
            "seconds": result.seconds,
        },
    )


def compare(grounded: Sequence[QuestionResult], free: Sequence[QuestionResult]) -> dict[str, Any]:
    """Return the effect of facts over pairs of answers to a question: grounded - free; for times grounded / free."""
    pairs = list(zip(grounded, free, strict=True))
    differences = {
        "accuracy": [float(g.score.hit) - float(f.score.hit) for g, f in pairs],
        "exact_accuracy": [float(g.score.exact) - float(f.score.exact) for g, f in pairs],
        "f1": [g.score.f1 - f.score.f1 for g, f in pairs],
    }
    asked = [(g, f) for g, f in pairs if g.tokens and f.tokens]
    seconds = ratio([g.seconds for g, _ in asked], [f.seconds for _, f in asked])
    passes = ratio([g.forward_passes for g, _ in asked], [f.forward_passes for _, f in asked])
    a_token = ratio([g.seconds / g.tokens for g, _ in asked], [f.seconds / f.tokens for _, f in asked])
    return {
        "gain": {name: mean(values).to_json() for name, values in differences.items()},
        "only_grounded": sum(g.score.hit and not f.score.hit for g, f in pairs),
        "only_free": sum(f.score.hit and not g.score.hit for g, f in pairs),
        "seconds": seconds.to_json(),
        "seconds_per_token": a_token.to_json(),
        "forward_passes": passes.to_json(),
    }


def _failures(results: Sequence[QuestionResult]) -> list[dict[str, Any]]:
    """Return the reasons that occur, the most frequent first."""
    found: dict[str, list[QuestionResult]] = defaultdict(list)
    for result in results:
        if result.reason is not None:
            found[result.reason].append(result)
    return [
        {
            "reason": reason,
            "count": len(found[reason]),
            "share": round(len(found[reason]) / len(results), 4),
            "transcripts": [_transcript(result) for result in found[reason][:TRANSCRIPTS]],
        }
        for reason in sorted(found, key=lambda reason: (-len(found[reason]), REASONS.index(reason)))
    ]


def _transcript(result: QuestionResult) -> dict[str, Any]:
    question = result.question
    return {
        "key": question.key,
        "source": question.source,
        "kind": question.kind,
        "question": question.text,
        "gold": [next(iter(gold.names), gold.id or "") for gold in question.answers],
        "sparql": question.sparql,
        "answer": result.answer,
        "text": result.text,
        "facts": list(result.facts),
        "query": result.queries[-1]["query"] if result.queries else None,
        "confidence": result.confidence,
        "hit": result.score.hit,
        "f1": round(result.score.f1, 4),
        "verdict": result.verdict,
    }


def _sampling(settings: Mapping[str, Any]) -> str:
    if settings["temperature"]:
        return f"sampled at temperature {settings['temperature']}"
    return "greedy" if settings["num_beams"] == 1 else f"{settings['num_beams']} beams"


def _thresholds(label: str, run: Mapping[str, Any]) -> ReportTable:
    points = ("answered", "accuracy", "precision", "refusal_accuracy")
    return ReportTable(
        title=f"Confidence, {label}",
        columns=["at least", *(name.replace("_", " ") for name in points)],
        rows=[
            ReportRow("none" if row["threshold"] is None else f"{row['threshold']:g}", [row[name] for name in points])
            for row in run["confidence"]["table"]
        ],
        note="An answer below a threshold of the confidence counts as not given. Refusal accuracy: share of questions that are "
        "answered right, or not answered where the answer would be wrong.",
    )


def _reasons(labels: Mapping[str, str], runs: Mapping[str, Any]) -> ReportTable:
    counts = {way: {one["reason"]: one["count"] for one in run["failures"]} for way, run in runs.items()}
    found = [reason for reason in REASONS if any(reason in count for count in counts.values())]
    found.sort(key=lambda reason: -max(count.get(reason, 0) for count in counts.values()))
    rows = [ReportRow(reason, [str(counts[way].get(reason, 0)) for way in labels]) for reason in found]
    return ReportTable(title="Reasons of failures", columns=["", *labels.values()], rows=rows, brief=True)


def _case(one: Mapping[str, Any]) -> ReportCase:
    judged = "" if one["verdict"] is None else f"; judge: {'right' if one['verdict'] else 'wrong'}"
    fields = {
        "Gold": "; ".join(one["gold"]),
        "Answer": one["answer"] or "none",
        "F1": f"{one['f1']:.2f}{', right' if one['hit'] else ''}{judged}",
        "Id": f"{one['key']} ({one['source']}, {one['kind']})",
        "Query": one["query"] or "",
        "Confidence": "" if one["confidence"] is None else f"{one['confidence']:.1f}",
        "Gold query": one["sparql"],
    }
    return ReportCase(title=one["question"], fields=fields, text=one["text"], facts=one["facts"])


def _plots(layout: Layout) -> dict[str, str]:
    from refactx.eval.plots import bars, curves, figure_dots, group_dots, shares

    runs = {label: layout.runs[way] for way, label in layout.labels.items()}
    results = layout.report["results"]
    seconds = {label: [x["seconds"] for x in results if x["run"] == way] for way, label in layout.labels.items()}
    drawn = {
        "Metrics": figure_dots(layout, list(_PLOTTED)),
        "Accuracy by kind of question": group_dots(layout, "by_kind", "accuracy"),
        "Accuracy by source": group_dots(layout, "by_source", "accuracy"),
        "Share of questions answered within a time": shares(seconds, "seconds", "seconds a question"),
    }
    confidence = {
        label: [(one["answered"], one["precision"]) for one in run["confidence"]["points"]]
        for label, run in runs.items()
        if run["confidence"]
    }
    if confidence:
        drawn["Precision of the most confident answers"] = curves(
            confidence, "confidence", ("share of questions answered", "precision"), is_steps=True
        )
    counts = {label: {one["reason"]: one["count"] for one in run["failures"]} for label, run in runs.items()}
    return drawn | {"Reasons of failures": bars(counts, "failures", "questions")}
