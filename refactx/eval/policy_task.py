"""Queries that policies write: each question is asked by each policy, and its query is compared with the gold query.

`gold.jsonl` has a line for each gold query with its rows, and `POLICY.jsonl` one for each question: what the model wrote,
the query, what its names were resolved to, its rows, and the seconds of each part. All policies are asked a question
before the next one, so that other processes on the machine slow all of them equally.
"""

import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from refactx.errors import InputError
from refactx.eval.execution import has_answer, is_same, row_f1, run_query
from refactx.eval.questions import Question, read_queries
from refactx.eval.report import Figure, Layout, ReportCase, lead_of
from refactx.eval.run import Answers, IndexTask, Record, Scored, ScoredQuestion, default_folder, fingerprint
from refactx.eval.sparql import bleu
from refactx.eval.statistics import mean, ratio_of_pairs
from refactx.lazy import require
from refactx.ranking.ranker import open_ranker
from refactx.sparql.engines import QueryRefusedError, SparqlEngine, SparqlSyntaxError
from refactx.sparql.engines.checking import check_query
from refactx.sparql.labels import ids_of, unknown_ids
from refactx.sparql.packs.prompt import AS_PGMR, STEERED, WRITERS, WriterName, load_sparql_prompt, pgmr_in, query_in
from refactx.sparql.packs.shots import ShotChoice, shots_of, training_examples
from refactx.sparql.packs.translation import Attempt
from refactx.sparql.packs.translator import Translator
from refactx.sparql.packs.writers import open_writers, resolved
from refactx.sparql.placeholders.entry import Memory, Thresholds
from refactx.sparql.placeholders.opening import open_memory
from refactx.sparql.placeholders.resolver import FactFeasibility, MemoryResolver
from refactx.sparql.placeholders.text import read_pgmr
from refactx.walks.language import QueryError

GOLD = "gold"
"""The log of gold queries."""
RESOLVED_AT = "placeholders@"
"""What `placeholders` writes, resolved with another threshold, which follows."""
SECONDS = 60.0
"""The most time of a query by default."""
FIGURES = (
    Figure("f1", "Execution F1", "rows of the query against those of the gold query, if that has rows", of=mean),
    Figure("exact", "Exact", "the same rows, of the same questions"),
    Figure("sqm_paper", "SQM, paper", "the gold query, up to names and the order of triples and of their terms"),
    Figure("sqm_strict", "SQM, strict", "the gold query, up to names and the order of triples"),
    Figure("qid_em", "Qid-EM", "the entities of the gold query, and no others"),
    Figure("pid_em", "Pid-EM", "the properties of the gold query, and no others"),
    Figure("hallucinated", "URI hallucination", "the query has an id that the index does not have"),
    Figure("refused", "Refused", "no query was written, for another reason than its syntax"),
    Figure("refusal_accuracy", "Refusal accuracy", "refused, of questions with a name that the index does not have"),
    Figure("sqm_answerable", "SQM, answerable", "SQM (strict) of questions whose names the index has"),
    Figure("syntax_errors", "Syntax errors", "what was written is not SPARQL"),
    Figure("fails", "Fails", "the engine could not run the query"),
    Figure(
        "bleu", "BLEU", "of the query against the gold query", 1, lambda pairs: bleu(*zip(*pairs, strict=True)).score
    ),
    Figure("writing", "Writing (T_dg)", "seconds of the model, a question", 3, mean),
    Figure("resolving", "Resolving (k x T_ret)", "seconds of all else but running, a question", 3, mean),
    Figure("a_name", "A name (T_ret)", "seconds of resolving, a name", 3, ratio_of_pairs),
    Figure("names", "Names (k)", "that are resolved, a question", 3, mean),
    Figure("running", "Running", "seconds of the engine, a query", 3, mean),
    Figure("with_rows", "", of=sum),
    Figure("unanswerable", "", of=sum),
    Figure("unasked", "", of=sum),
)
_OF_GROUPS = ("f1", "exact", "sqm_strict", "hallucinated", "refused")
_OF_PLOT = ("f1", "sqm_strict", "hallucinated", "refused")
_OF_CURVES = ("f1", "sqm_answerable", "refused", "refusal_accuracy")


@dataclass(kw_only=True)
class PolicyTask(IndexTask):
    """The evaluation of `refactx eval --sparql`.

    `run_on`: the engine, as of `refactx query --run-on`; `timeout`: the most seconds of a query. The others are
    those of `refactx query`. `shots`: how many examples of `train`, a file of questions with gold queries, are shown in
    place of the prompt's, and which. `thresholds`: least similarities of names with which what `placeholders` writes is
    resolved again, each a run beside it; they may be added to a run.
    """

    policies: tuple[WriterName, ...]
    sparql_prompt: str = "sparql"
    model_url: str | None = None
    tau: Thresholds | None = None
    run_on: str | None = None
    timeout: float = SECONDS
    shots: tuple[int, ShotChoice] | None = None
    train: Path | None = None
    thresholds: tuple[float, ...] = ()

    name = "queries"
    figures = FIGURES

    def read(self) -> list[Question]:
        """Return the questions of the file that have a gold query."""
        return read_queries(self.questions, self.language)

    def check(self) -> None:
        """Raise InputError for policies that do not exist, for options that exclude each other, and missing packages."""
        unknown = [name for name in self.policies if name not in WRITERS]
        if unknown or not self.policies:
            raise InputError(f"--sparql {','.join(unknown)} is no policy: give some of {','.join(WRITERS)}")
        steered = [name for name in self.policies if name in STEERED]
        if self.model_url is not None and steered:
            raise InputError(
                f"--sparql {steered[0]} needs a model whose choices can be steered, which no server offers: give placeholders, "
                "rag or ids, or leave out --model-url"
            )
        if self.thresholds and "placeholders" not in self.policies:
            raise InputError("--thresholds are of the names that placeholders writes: give --sparql placeholders")
        if self.tau is not None and not {"placeholders", "rag-placeholders"} & {*self.policies}:
            raise InputError("--tau is of names that a memory resolves: give --sparql placeholders")
        if (self.shots is not None and self.shots[0] > 0) != (self.train is not None):
            raise InputError("--shots N and --train FILE go together: the examples are those of the file")
        for package, extra in (("pyoxigraph", "sparql"), ("sacrebleu", "eval")):
            require(package, extra)

    @property
    def folder(self) -> Path:
        """The folder of the run, by default `refactx-eval/QUESTIONS-sparql-MODEL`."""
        return self.out or default_folder(f"{self.questions.stem}-sparql", self.model)

    @property
    def ways(self) -> tuple[str, ...]:
        """The gold queries, the policies, and the thresholds of what `placeholders` writes."""
        return (GOLD, *self.policies, *(f"{RESOLVED_AT}{tau:g}" for tau in self.thresholds))

    @cached_property
    def engine_of_queries(self) -> SparqlEngine:
        """What runs queries, which is opened when it is first needed."""
        from refactx.sparql.engines import engine_at

        engine = engine_at(self.run_on or "auto", lambda _: self.opened_index)
        self.stack.callback(engine.close)
        return engine

    @property
    def settings(self) -> dict[str, Any]:
        from refactx.ask.prompt import load_prompt

        prompts = [asdict(load_sparql_prompt(self.sparql_prompt)), asdict(load_prompt(self.prompt or "wikidata"))]
        return {
            **super().settings,
            "questions_fingerprint": fingerprint([[q.key, q.text, q.sparql] for q in self.asked]),
            "model_url": None if self.model_url is None else self.model_url.rpartition("@")[2],
            "policies": list(self.policies),
            "sparql_prompt": self.sparql_prompt,
            "prompt_fingerprint": fingerprint(prompts),
            "tau": self.tau,
            "run_on": None if self.run_on is None else self.run_on.rpartition("@")[2],
            "timeout": self.timeout,
            "shots": None if self.shots is None else [*self.shots, fingerprint(self._training_pairs)],
        }

    def ask(
        self, missing: Sequence[tuple[Question, Sequence[str]]], records: Mapping[str, Mapping[str, Record]]
    ) -> Answers:
        """Yield the lines of gold queries and of policies that are missing.

        A question that cannot be asked has a line with the error. Raises InputError if the gold queries of the run were
        run on another engine.
        """
        engine = self.engine_of_queries.name
        others = {record["engine"] for record in records[GOLD].values()} - {engine}
        if others:
            raise InputError(
                f"{self.folder} has results of the {min(others)}, now queries would be run on the {engine}: give another --out"
            )
        if engine == "tree":
            print(
                "refactx: the tree answers only some gold queries; with a store (refactx store build) all are answered",
                file=sys.stderr,
            )
        lacking = {way for _, ways in missing for way in ways}
        translators = self._translators([name for name in self.policies if name in lacking])
        for question, ways in missing:
            texts: Record = dict(records.get("placeholders", {}).get(question.key, {}))
            for way in ways:
                if way.startswith(RESOLVED_AT):
                    record = self._resolved(texts, float(way.removeprefix(RESOLVED_AT)))
                else:
                    record = self._gold(question) if way == GOLD else self._written(question, way, translators)
                texts = record if way == "placeholders" else texts
                yield way, question.key, record

    def _translators(self, names: Collection[WriterName]) -> dict[str, Translator]:
        """Return the translators of some policies over the model, which is loaded once."""
        if not names:
            return {}
        from refactx.ask.examples import prompt_for

        prompt = load_sparql_prompt(self.sparql_prompt)  # before the model, which takes longer
        if self.train is None and self.shots is not None:
            prompt = replace(prompt, examples=())
        elif self.shots is not None:
            examples = training_examples(self._training_pairs, self.opened_index.names_of)
            prompt = replace(prompt, shots=shots_of(examples, *self.shots, open_ranker().encoder))
        writers = open_writers(
            names,
            self.opened_index,
            self.model,
            url=self.model_url,
            machine=self.engine,
            answers=prompt_for(self.prompt, self.opened_index),
            prompt=prompt,
            tau=self.tau,
        )
        return {name: Translator(writer=writer) for name, writer in writers.items()}

    @cached_property
    def _training_pairs(self) -> list[tuple[str, str]]:
        return [] if self.train is None else [(one.text, one.sparql) for one in read_queries(self.train, self.language)]

    def _gold(self, question: Question) -> Record:
        """Return the line of a gold query: whether it is SPARQL, its rows, and ids that do not exist."""
        sparql, engine = question.sparql, self.engine_of_queries
        line: Record = {"sparql": sparql, "fault": None, "unknown": [], "engine": engine.name, "result": None}
        try:
            check_query(sparql)
        except (SparqlSyntaxError, QueryRefusedError) as error:
            return line | {"fault": str(error)}
        return line | {"unknown": self._unknown(sparql), "result": run_query(engine, sparql, self.timeout)}

    def _written(self, question: Question, name: str, translators: Mapping[str, Translator]) -> Record:
        """Return the line of a question that a policy is asked."""
        started = time.perf_counter()
        try:
            found = translators[name].translate(question.text)
        except InputError as error:
            return {"error": str(error)}
        resolving = time.perf_counter() - started - found.writing
        line = _line(found.attempts[0], is_pgmr=name in AS_PGMR, is_text=name != "from-walk")
        return line | self._ran(line["sparql"], found.writing, resolving)

    @cached_property
    def _names(self) -> tuple[Memory, FactFeasibility]:
        return open_memory(self.opened_index), FactFeasibility(self.opened_index)

    def _resolved(self, texts: Record, tau: float) -> Record:
        """Return the line of a question whose text, of the line of `placeholders`, is resolved again with a threshold."""
        if "error" in texts:
            return texts
        memory, feasible = self._names
        started, resolver = time.perf_counter(), MemoryResolver(memory, tau=tau, feasible=feasible, must_match=True)
        line = _line(resolved(Attempt(text=texts["text"]), resolver), is_pgmr=True, is_text=True)
        return line | self._ran(line["sparql"], texts["seconds"]["writing"], time.perf_counter() - started)

    def _ran(self, sparql: str | None, writing: float, resolving: float) -> Record:
        """Return the rest of a line: what its query gives, and the seconds of each part."""
        started = time.perf_counter()
        result = None if sparql is None else run_query(self.engine_of_queries, sparql, self.timeout)
        running = 0.0 if sparql is None else time.perf_counter() - started
        seconds = {"writing": writing, "resolving": max(0.0, resolving), "running": running}
        return {
            "unknown": [] if sparql is None else self._unknown(sparql),
            "seconds": {part: round(value, 6) for part, value in seconds.items()},
            "result": result,
        }

    def _unknown(self, sparql: str) -> list[str]:
        return sorted(*unknown_ids([sparql], self.opened_index.names_of))

    def score(self, records: Mapping[str, Sequence[Record]]) -> Scored:
        """Return the scores of the questions whose gold query is SPARQL."""
        golds = records[GOLD]
        chosen = [at for at, gold in enumerate(golds) if not gold["fault"]]
        if not chosen:
            raise InputError(f"no gold query of {self.questions} is SPARQL: see {self.folder / GOLD}.jsonl")
        asked = [self.asked[at] for at in chosen]
        lines = {way: [some[at] for at in chosen] for way, some in records.items()}
        runs: dict[str, list[ScoredQuestion]] = {
            name: [score_record(*one) for one in zip(asked, lines[name], lines[GOLD], strict=True)]
            for name in self.ways[1:]
        }
        own = [question.sparql for question in asked]
        more: dict[str, Any] = {
            "engine": golds[0]["engine"],
            "gold": _gold_figures(golds),
            "bleu_signature": bleu(own, own).signature,
        }
        return Scored(runs, more)

    @staticmethod
    def layout(report: Mapping[str, Any]) -> Layout:
        settings, gold = report["settings"], report["gold"]
        return Layout(
            report=report,
            title=f"SPARQL of {settings['model']} on {settings['questions']}",
            lead=[
                lead_of(report, f"Index {settings['index']}; queries run on the {report['engine']}."),
                f"Gold queries: {gold['queries']}, of which {gold['left_out']} are no SPARQL and left out, {gold['fail']} "
                f"cannot be run, {gold['without_rows']} have no rows, and {gold['lack_names']} need a name that the index "
                f"does not have. BLEU: {report['bleu_signature']}.",
            ],
            labels={name: name for name in report["runs"]},
            figures=FIGURES,
            tiles=("f1",),
            groups={"by_kind": ("By kind of question", _OF_GROUPS)},
            cases={name: [_case(x) for x in report["results"] if x["run"] == name] for name in report["runs"]},
            plots=_plots,
        )


def _line(written: Attempt, *, is_pgmr: bool, is_text: bool) -> Record:
    """Return what a policy wrote, as JSON. `is_pgmr`: as text with names to resolve; `is_text`: as text at all."""
    return {
        "text": written.text,
        "sparql": written.sparql,
        "reason": written.reason or None,
        "broken": written.sparql is None and is_text and is_broken(written.text, is_pgmr=is_pgmr),
        "mentions": count_mentions(written.text) if is_pgmr else 0,
        "names": {
            placeholder: {
                "id": one.entry.id,
                "label": one.entry.text,
                "similarity": round(one.similarity, 4),
                "how": one.how,
            }
            for placeholder, one in written.choices.items()
        },
        "confidence": written.confidence,
    }


def is_broken(text: str, *, is_pgmr: bool) -> bool:
    """Return whether the query in a text is not SPARQL, or PGMR text that cannot be read.

    A text without a query is not broken.

    >>> is_broken("SELECT ?x { ?x wdt:P31", is_pgmr=False), is_broken("I don't know.", is_pgmr=False)
    (True, False)
    """
    query = pgmr_in(text) if is_pgmr else query_in(text)
    if query is None:
        return False
    try:
        check_query(read_pgmr(query).sparql if is_pgmr else query)
    except (QueryError, SparqlSyntaxError):
        return True
    except QueryRefusedError:  # it is SPARQL, but neither SELECT nor ASK
        return False
    return False


def count_mentions(text: str) -> int:
    """Return the names in a PGMR text that are to be resolved."""
    query = pgmr_in(text)
    try:
        return 0 if query is None else len(read_pgmr(query).mentions)
    except QueryError:
        return 0


def score_record(question: Question, record: Mapping[str, Any], gold: Mapping[str, Any]) -> ScoredQuestion:
    """Return the score of a policy's line for a question, against the line of its gold query."""
    sparql, result, is_asked = record.get("sparql"), record.get("result"), "error" not in record
    found, wanted = ids_of(sparql or ""), ids_of(question.sparql)
    seconds, names = record.get("seconds") or {}, record.get("mentions", 0)
    f1 = row_f1(gold["result"], result) if gold["result"] is not None and has_answer(gold["result"]) else None
    is_broken, is_answerable = bool(record.get("broken")), not gold["unknown"]
    refused = sparql is None and not is_broken and is_asked
    strict = is_same(sparql, question.sparql, "strict")
    values = {
        "f1": f1,
        "exact": None if f1 is None else f1 == 1,
        "sqm_paper": is_same(sparql, question.sparql, "paper"),
        "sqm_strict": strict,
        "qid_em": sparql is not None and found.entities == wanted.entities,
        "pid_em": sparql is not None and found.properties == wanted.properties,
        "hallucinated": bool(record.get("unknown")),
        "refused": refused,
        "refusal_accuracy": None if is_answerable else refused,
        "sqm_answerable": strict if is_answerable else None,
        "syntax_errors": is_broken,
        "fails": result is not None and "error" in result,
        "bleu": (sparql or "", question.sparql),
        "writing": seconds.get("writing", 0.0) if is_asked else None,
        "resolving": seconds.get("resolving", 0.0) if is_asked else None,
        "a_name": (seconds.get("resolving", 0.0), names) if is_asked and names else None,
        "names": names if is_asked else None,
        "running": seconds.get("running", 0.0) if is_asked and sparql is not None else None,
        "with_rows": f1 is not None,
        "unanswerable": not is_answerable,
        "unasked": not is_asked,
    }
    shown = ("sqm_strict", "sqm_paper", "hallucinated", "refused", "syntax_errors")
    line = {
        "key": question.key,
        "kind": question.kind,
        "question": question.text,
        "gold": question.sparql,
        "sparql": sparql,
        "reason": record.get("reason") or record.get("error") or (result or {}).get("error") or None,
        "f1": None if f1 is None else round(f1, 4),
        **{name: values[name] for name in shown},
    }
    return ScoredQuestion(values=values, groups={"by_kind": [question.kind]}, line=line)


def _gold_figures(golds: Sequence[Record]) -> dict[str, int]:
    """Return how many gold queries there are, are no SPARQL (and are left out), fail, have no rows, and lack names."""
    results = [gold["result"] for gold in golds if gold["result"] is not None]
    return {
        "queries": len(golds),
        "left_out": sum(gold["result"] is None for gold in golds),
        "fail": sum("error" in result for result in results),
        "without_rows": sum("error" not in result and not has_answer(result) for result in results),
        "lack_names": sum(bool(gold["unknown"]) for gold in golds),
    }


def _case(one: Mapping[str, Any]) -> ReportCase:
    fields = {
        "F1": "–" if one["f1"] is None else f"{one['f1']:.2f}",
        "Reason": one["reason"],
        "Gold query": one["gold"],
    }
    return ReportCase(title=one["question"], fields=fields, text=one["sparql"] or "(no query)")


def _plots(layout: Layout) -> dict[str, str]:
    from refactx.eval.plots import curves, figure_dots, group_dots

    drawn = {"Policies": figure_dots(layout, _OF_PLOT), "Execution F1 by kind": group_dots(layout, "by_kind", "f1")}
    at = {name: float(name.removeprefix(RESOLVED_AT)) for name in layout.runs if name.startswith(RESOLVED_AT)}
    if len(at) > 1:
        points = {
            one.label: sorted(
                (tau, value) for name, tau in at.items() if (value := _value(layout, name, one)) is not None
            )
            for one in FIGURES
            if one.key in _OF_CURVES
        }
        drawn["Threshold of names"] = curves(
            {label: some for label, some in points.items() if some}, "tau", ("least similarity", "")
        )
    return drawn


def _value(layout: Layout, run: str, figure: Figure) -> float | None:
    found: float | None = layout.runs[run]["overall"][figure.key]["value"]
    return found
