"""The evaluation of `refactx eval --sparql`: questions, run, experiments and report."""

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from refactx.errors import InputError
from refactx.eval.logs import write_atomically
from refactx.eval.policies.execution import run_query
from refactx.eval.policies.making import make_policies
from refactx.eval.policies.options import PolicyEvaluationOptions
from refactx.eval.policies.render import html, markdown
from refactx.eval.policies.report import report
from refactx.eval.policies.run import GOLD, PolicyRun, Record, check_engine, count_missing, read_records
from refactx.eval.policies.scores import QueryScore, score_record
from refactx.eval.question import Question
from refactx.eval.questions import choose_questions, read_queries
from refactx.eval.run import open_run
from refactx.index import Index
from refactx.lazy import require
from refactx.sparql.engines import SparqlEngine

_ENGINES = ("auto", "tree", "store")


def evaluate_policies(options: PolicyEvaluationOptions) -> dict[str, Any]:
    """Ask what has no line yet, and write report.json, report.md and report.html. Return the report, or for a shard the
    number of its questions.

    Raises InputError for options or files that cannot be used, and whatever asking raises. After an error or
    KeyboardInterrupt, the lines so far are in the run's folder, and the same call continues.
    """
    options.check()
    for package, extra in (("rdflib", "sparql"), ("pyoxigraph", "sparql"), ("sacrebleu", "eval")):
        require(package, extra)
    questions = choose_questions(read_queries(options.questions), options.split, options.kinds, options.limit)
    folder, settings = options.folder, _settings(options, questions)
    open_run(folder, settings)
    with ExitStack() as stack:
        place, shard = _Place(options, stack), options.shard
        _ask(options, folder, shard.of(questions), place)
        if shard.count > 1:
            return shard.document(questions)
        records = {name: read_records(folder, questions, name) for name in (GOLD, *options.policies)}
        readable = [not gold["fault"] for gold in records[GOLD]]
        asked = _chosen(questions, readable)
        if not asked:
            raise InputError(f"no gold query of {options.questions} is SPARQL: see {folder / GOLD}.jsonl")
        lines = {name: _chosen(some, readable) for name, some in records.items()}
        experiments = _experiments(options, asked, lines, place)
    scored: dict[str, list[QueryScore]] = {
        name: [score_record(*some) for some in zip(asked, lines[name], lines[GOLD], strict=True)]
        for name in options.policies
    }
    document = report(settings, scored, records[GOLD], experiments)
    write_atomically(folder / "report.json", document)
    (folder / "report.md").write_text(markdown(document), encoding="utf-8")
    (folder / "report.html").write_text(html(document), encoding="utf-8")
    return document


def _chosen(some: Sequence[Any], chosen: Sequence[bool]) -> list[Any]:
    return [one for one, is_chosen in zip(some, chosen, strict=True) if is_chosen]


class _Place:
    """The index and the engine of an evaluation, which are opened when they are first needed."""

    def __init__(self, options: PolicyEvaluationOptions, stack: ExitStack) -> None:
        self._options, self._stack = options, stack
        self._index: Index | None = None
        self._engine: SparqlEngine | None = None

    @property
    def index(self) -> Index:
        if self._index is None:
            from refactx.index.open import open_index

            self._index = self._stack.enter_context(open_index(self._options.index, self._options.db))
        return self._index

    @property
    def engine(self) -> SparqlEngine:
        if self._engine is None:
            from refactx.sparql.engines import EndpointEngine, EngineName, open_engine

            where = self._options.run_on or "auto"
            names: dict[str, EngineName] = {"auto": "auto", "tree": "tree", "store": "store"}
            self._engine = open_engine(self.index, names[where]) if where in names else EndpointEngine(where)
            self._stack.callback(self._engine.close)
        return self._engine


def _ask(options: PolicyEvaluationOptions, folder: Path, questions: Sequence[Question], place: _Place) -> None:
    """Ask the questions that have no line. The index and the model are opened only if they are needed."""
    missing = count_missing(folder, questions, (GOLD, *options.policies), options.shard)
    if not any(missing.values()):
        return
    engine = place.engine
    check_engine(folder, engine.name, options.shard)
    if engine.name == "tree":
        print(
            "refactx: the tree answers only some gold queries; with a store (refactx store build) all are answered",
            file=sys.stderr,
        )
    run = PolicyRun(engine, place.index.names_of, seconds=options.timeout, held=options.is_held)
    names = [name for name in options.policies if missing[name]]
    policies = make_policies(options, place.index, names) if names else {}
    run.ask_all(folder, questions, policies, options.shard)


def _experiments(
    options: PolicyEvaluationOptions,
    questions: Sequence[Question],
    lines: Mapping[str, Sequence[Record]],
    place: _Place,
) -> dict[str, Any]:
    if not options.ablate and not options.distractors:
        return {}
    from refactx.eval.policies.experiments import Resolving, ablate_names, add_distractors, read_texts
    from refactx.eval.policies.experiments.remembered import RememberedMemory
    from refactx.sparql.memory import FactFeasibility, open_memory

    memory = RememberedMemory(open_memory(place.index))
    resolving = Resolving(
        lambda sparql: run_query(place.engine, sparql, options.timeout), FactFeasibility(place.index), options.tau
    )
    texts = read_texts(questions, lines["open"], lines[GOLD])
    found: dict[str, Any] = {"thresholds": memory.thresholds.to_json() if options.tau is None else options.tau}
    if options.ablate:
        found["ablation"] = ablate_names(texts, memory, resolving, options.ablate)
    if options.distractors:
        found["distractors"] = add_distractors(texts, memory, resolving, options.distractors)
    return found


def _settings(options: PolicyEvaluationOptions, questions: Sequence[Question]) -> dict[str, Any]:
    from refactx.ask.prompt import load_prompt
    from refactx.sparql.policies import load_sparql_prompt

    prompts = [asdict(load_sparql_prompt(options.sparql_prompt)), asdict(load_prompt(options.prompt))]
    return {
        "questions": options.questions.name,
        "questions_fingerprint": _fingerprint([[q.key, q.text, q.sparql] for q in questions]),
        "model": options.model,
        "model_url": None if options.model_url is None else options.model_url.rpartition("@")[2],
        "policies": list(options.policies),
        "index": options.index,
        "split": options.split,
        "kinds": sorted(options.kinds),
        "limit": options.limit,
        "prompt": options.prompt,
        "sparql_prompt": options.sparql_prompt,
        "prompt_fingerprint": _fingerprint(prompts),
        "tau": options.tau,
        "grammar": options.is_held,
        "run_on": None if options.run_on is None else options.run_on.rpartition("@")[2],
        "timeout": options.timeout,
        "dtype": options.engine.dtype,
        "refactx": version("refactx"),
    }


def _fingerprint(document: Any) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of a document, the same in every process."""
    return sha256(json.dumps(document, sort_keys=True, default=sorted).encode()).hexdigest()[:16]
