"""The evaluation of `refactx eval --pack`: each case is translated in several ways, and its rows are compared with gold's."""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from threading import Event, Lock
from typing import Any, Literal

from tqdm import tqdm

from refactx.errors import InputError, ModelError
from refactx.eval.logs import WHOLE, AnswerLog, RunLog, Shard, write_atomically
from refactx.eval.packs.cases import Case, cases_of
from refactx.eval.packs.report import report_of
from refactx.eval.packs.scoring import components_found, rows_f1, set_f1
from refactx.eval.run import default_folder, open_run
from refactx.nl2sparql import Pack, Translation, Translator
from refactx.nl2sparql.attempt import features_of
from refactx.sparql.engines import EngineError, QueryRefusedError, Rows, SparqlEngine, SparqlSyntaxError

Mode = Literal["prompt", "retrieval", "repair", "agent"]
MODES: tuple[Mode, ...] = ("prompt", "retrieval", "repair", "agent")
ROWS, SECONDS = 10_000, 30.0
"""The most rows that are compared, and the most time of a query."""


@dataclass(frozen=True, kw_only=True)
class PackEvaluationOptions:
    """The options of an evaluation.

    `modes`: `prompt` (the pack's texts alone), `retrieval` (and examples), `repair` (and validation), `agent`; `source`:
    `cases` of the pack, or its `examples`, each without itself among those that the model is shown; `language`: of the
    questions, by default the pack's first; `category`: those of this one alone; `cases`: others in place of all these, in
    the order in which they are translated; `limit`: the most cases;
    `batch_size`: how many are translated at once, in threads; `shard`: translate its cases alone, without a report.
    """

    pack: Pack
    model: str
    modes: tuple[Mode, ...] = MODES
    source: Literal["cases", "examples"] = "cases"
    language: str | None = None
    category: str | None = None
    cases: Sequence[Case] = ()
    limit: int | None = None
    batch_size: int = 1
    out: Path | None = None
    shard: Shard = WHOLE
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.out or default_folder(self.pack.name, self.model)


def evaluate_pack(
    options: PackEvaluationOptions,
    translator: Callable[[Mode], Translator],
    engine: SparqlEngine,
    stop: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """Translate what has no line yet, and write report.json and report.md. Return the report, or for a shard the
    number of its cases.

    `translator`: makes the one of a mode, when it is first needed; `engine`: has rows for all gold queries; `stop`: called
    if the run ends early, lets the translations in other threads fail soon. Raises InputError for options or a folder that
    cannot be used, and whatever translating raises; the same call continues, with another `limit` too.
    """
    chosen = options.cases or cases_of(options.pack, options.source, options.language, options.category)
    cases = chosen[: options.limit]
    settings = {
        "pack": options.pack.name,
        "fingerprint": options.pack.fingerprint,
        "model": options.model,
        "modes": list(options.modes),
        "source": options.source,
        "language": options.language,
        "category": options.category,
        "cases": sha256(json.dumps([[c.id, c.question, c.sparql] for c in chosen]).encode()).hexdigest()[:16],
        "refactx": version("refactx"),
        **options.settings,
    }
    open_run(options.folder, settings)
    with ExitStack() as stack:
        shard = options.shard
        logs = {mode: stack.enter_context(RunLog(options.folder, mode, shard)) for mode in options.modes}
        _translate(shard.of(cases), logs, options.batch_size, translator, engine, stop)
        if shard.count > 1:
            return shard.document(cases)
        records: dict[str, list[dict[str, Any]]] = {
            mode: [log.records[case.id] for case in cases] for mode, log in logs.items()
        }
    document = report_of(settings, cases, records)
    write_atomically(options.folder / "report.json", document)
    return document


def _translate(
    cases: Sequence[Case],
    logs: Mapping[Mode, AnswerLog],
    at_once: int,
    translator: Callable[[Mode], Translator],
    engine: SparqlEngine,
    stop: Callable[[], object],
) -> None:
    """Add the lines that logs do not have, `at_once` cases at a time."""
    order = sorted(logs, key=lambda mode: mode == "retrieval")  # the first attempt of repair is that of retrieval
    done = sum(case.id in log.records for case in cases for log in logs.values())
    of_mode, lock, is_over = cache(translator), Lock(), Event()
    bar = tqdm(total=len(cases) * len(logs), initial=done, desc="translations", disable=None, leave=False)

    def translate(case: Case) -> None:
        for mode in order:
            if is_over.is_set() or case.id in logs[mode].records:
                continue
            with lock:
                way = of_mode(mode)
            for name, record in _records(case, mode, way, engine).items():
                with lock:
                    if name in logs and not is_over.is_set() and case.id not in logs[name].records:
                        logs[name].add(case.id, record)
                        bar.update()

    with bar, ThreadPoolExecutor(at_once, thread_name_prefix="refactx-translations") as pool:
        futures = [pool.submit(translate, case) for case in cases]
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException:
            is_over.set()
            stop()
            pool.shutdown(cancel_futures=True)
            raise


def _records(case: Case, mode: Mode, translator: Translator, engine: SparqlEngine) -> dict[Mode, dict[str, Any]]:
    """Return the line of a case in a mode, and in `retrieval` if its query is the first of this mode."""
    try:
        found = translator.translate(case.question, without=case.without)
    except (InputError, ModelError) as error:
        return {mode: {"error": str(error)}}
    records: dict[Mode, dict[str, Any]] = {mode: _record(case, found, engine)}
    if mode == "repair":
        first = found.attempts[:1]
        sparql = first[0].sparql if first else None
        alone = replace(found, sparql=sparql, valid=False, rows=None, attempts=first, confidence=None, reason="")
        records["retrieval"] = _record(case, alone, engine)
    return records


def _record(case: Case, found: Translation, engine: SparqlEngine) -> dict[str, Any]:
    """Return the line of a translation: what was written, and its scores."""
    fault, rows = _run(found.sparql, engine)
    _, gold = _run(case.sparql, engine)
    if not isinstance(gold, Rows):
        truth = gold is not None and gold == rows
        f1 = float(truth)
    else:
        f1 = rows_f1(gold, case.primary, rows)
    return {
        "sparql": found.sparql,
        "syntax": found.sparql is not None and fault != "syntax",
        "executed": rows is not None,
        "fault": fault,
        "rows": len(rows.rows) if isinstance(rows, Rows) else None,
        "f1": round(f1, 6),
        "components": components_found(found.sparql, case.components),
        "patterns": round(set_f1(case.patterns, found.patterns), 6) if case.patterns else None,
        "valid": found.valid,
        "attempts": len(found.attempts),
        "confidence": found.confidence,
        "features": list(features_of(found)),
        "reason": found.reason,
    }


def _run(sparql: str | None, engine: SparqlEngine) -> tuple[str, Rows | bool | None]:
    """Return why a query has no result, and its result."""
    if sparql is None:
        return "no query", None
    try:
        return "", engine.run(sparql, limit=ROWS, seconds=SECONDS)
    except SparqlSyntaxError:
        return "syntax", None
    except (EngineError, QueryRefusedError) as error:
        return str(error), None
