"""The first stage of an ingest: source files → a knowledge base on disk, which knows no tokenizer.

A knowledge base is a folder of three files:

| file | columns |
|---|---|
| `units.parquet` | `unit INTEGER` (0 to n - 1, in the order of the texts), `text VARCHAR` (a part, unique) |
| `facts.parquet` | `subject, predicate, object INTEGER` (units), distinct triples, ascending |
| `names.parquet` | `name VARCHAR` (a unit's text), `id VARCHAR` (`Q42`, `P569`), `object_kind VARCHAR` |

`names.parquet` has a row for each entity whose name occurs in a fact; ready-made facts have no ids. `object_kind` says
of a property whether the objects of its facts are entities (`entity`), literals (`literal`) or both (`mixed`), and so
tells the entity Berlin from the text "Berlin"; `inverse` is the name of the property read backwards. It is NULL for an
item, and for a property that is no fact's predicate.

The files depend on the set of lines in the sources, not on their order, and appear only when all three are complete.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import duckdb
from tqdm import tqdm

from refactx.errors import InputError

from . import ready_made, wikidata
from .account import Joined
from .facts import STEPS, join_facts
from .names import name_entities
from .parsed import Parsed
from .report import REPORTED_FAULTS, Report
from .selection import Selection
from .sources import Format, blocks, format_of
from .work_database import insert, open_work_database

_ALL = Selection()
_PARSERS: dict[Format, Callable[[bytes, int, Selection], Parsed]] = {
    "N-Triples": wikidata.parse_block,
    "ready-made facts": lambda block, first_line, _: ready_made.parse_block(block, first_line),
}
_EXAMPLES: dict[Format, str] = {
    "N-Triples": "<http://www.wikidata.org/entity/Q42> <http://www.wikidata.org/prop/direct/P31> ... .",
    "ready-made facts": "<Danny Boyle> <date of birth> <1956-10-20> .",
}
_FILES = {
    "units.parquet": "SELECT unit, text FROM units ORDER BY unit",
    "facts.parquet": "SELECT * FROM facts ORDER BY ALL",
    "names.parquet": """
        SELECT name, entity_id(abs(entity)) AS id, object_kind FROM used LEFT JOIN predicates USING (entity) ORDER BY name""",
}


@dataclass(frozen=True)
class KnowledgeBase:
    """A finished knowledge base: the folder of its three files, and the account of how they came to be."""

    folder: Path
    report: Report


def build_knowledge_base(
    sources: Sequence[Path],
    folder: Path,
    *,
    selection: Selection = _ALL,
    strict: bool = False,
    memory: str = "1GB",
    workers: int = 2,
    progress: bool = True,
) -> KnowledgeBase:
    """Read the sources, of one kind or mixed, and write their facts and names into `folder`, made if need be.

    Args:
        selection: what goes into the facts.
        strict: the first malformed line is an error, not only counted.
        memory: the limit on DuckDB's memory, the larger part of what this takes; the rest spills into `folder`.
        workers: threads for joins and sorts.
        progress: show progress bars on standard error, if that is a terminal.

    Raises:
        InputError: a source can't be read or isn't what its name says, or no fact came out of all of them; with
            `strict`, a malformed line.
        RefactxError: the disk is full, or `memory` too small.
    """
    if not sources:
        raise InputError("no source was given: expected at least one file of N-Triples or ready-made facts")
    formats = [(path, format_of(path)) for path in sources]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made: {error.strerror}: choose another folder") from None
    with open_work_database(folder, memory, workers) as connection:
        lines = _read(connection, formats, selection, strict, progress)
        with _bar("joining names and facts", STEPS + len(_FILES) + 1, progress) as bar:
            collisions = name_entities(connection, selection)
            bar.update()
            joined = join_facts(connection, selection, bar.update)
            report = _report(lines, joined, collisions, selection)
            _write(connection, folder, bar.update)
    return KnowledgeBase(folder, report)


class _Lines:
    """The running account of lines while the sources are read."""

    def __init__(self) -> None:
        self.read = 0
        self.cut = 0
        self.dropped: Counter[str] = Counter()
        self.faults: list[str] = []

    def add(self, path: Path, parsed: Parsed) -> None:
        self.read += parsed.lines
        self.cut += parsed.cut
        self.dropped += parsed.dropped
        self.dropped["malformed"] += len(parsed.faults)
        free = REPORTED_FAULTS - len(self.faults)
        self.faults += (f"{path}:{line}: {what}" for line, what in parsed.faults[:free])


def _read(
    connection: duckdb.DuckDBPyConnection,
    formats: Sequence[tuple[Path, Format]],
    selection: Selection,
    strict: bool,
    progress: bool,
) -> _Lines:
    """Parse every source into the tables of the work database; the next block is parsed while one is written."""
    account = _Lines()
    size = sum(path.stat().st_size for path, _ in formats)
    with (
        _bar("reading", size, progress, unit="B", unit_scale=True) as bar,
        ThreadPoolExecutor(1, thread_name_prefix="insert") as writer,
    ):
        written: Future[None] | None = None
        for path, kind in formats:
            for parsed in _parse(path, kind, selection, strict, bar.update):
                account.add(path, parsed)
                if written is not None:
                    written.result()
                written = writer.submit(insert, connection, parsed.tables)
        if written is not None:
            written.result()
    return account


def _parse(
    path: Path, kind: Format, selection: Selection, strict: bool, advance: Callable[[int], object]
) -> Iterator[Parsed]:
    """The blocks of one source, parsed; an error if the file does not hold what it should."""
    line, statements, first_fault = 1, 0, ""
    for block in blocks(path, advance):
        parsed = _PARSERS[kind](block, line, selection)
        if parsed.faults and not first_fault:
            at, what = parsed.faults[0]
            first_fault = f"line {at}: {what}"
            if strict:
                raise InputError(f"{path}:{at}: {what}: correct the line, or leave out --strict to read on past it")
        yield parsed
        line += parsed.lines
        statements += parsed.statements
    if not statements:
        what = first_fault or "it has only blank lines and comments"
        raise InputError(f"{path} is not {kind}: {what}; expected lines such as {_EXAMPLES[kind]}")


def _report(lines: _Lines, joined: Joined, collisions: int, selection: Selection) -> Report:
    dropped = lines.dropped + joined.dropped
    facts = joined.claims + joined.descriptions + joined.derived
    report = Report(
        facts=facts,
        claims=joined.claims,
        descriptions=joined.descriptions,
        derived=joined.derived,
        lines_read=lines.read,
        kept=joined.kept,
        dropped={reason: dropped[reason] for reason in sorted(dropped) if dropped[reason]},
        cut=lines.cut + joined.cut,
        malformed=tuple(lines.faults),
        entities=joined.entities,
        names=joined.names,
        collisions=collisions,
        not_inverted=joined.not_inverted,
        selection=selection.to_json(),
    )
    if not facts:
        reasons = ", ".join(f"{count} {reason}" for reason, count in report.dropped.items())
        raise InputError(
            f"no fact in {lines.read} lines, dropped: {reasons}; expected Wikidata claims with labels "
            f"in {','.join(selection.languages)} for their subjects, predicates and objects, or ready-made facts"
        )
    return report


def _write(connection: duckdb.DuckDBPyConnection, folder: Path, step: Callable[[], object]) -> None:
    """The three files, first under other names, so that a run cut short leaves no file that looks whole."""
    work = folder / ".work"
    for name, query in _FILES.items():
        target = str(work / name).replace("'", "''")
        connection.execute(f"COPY ({query}) TO '{target}' (FORMAT parquet, COMPRESSION zstd)")
        step()
    for name in _FILES:
        (work / name).replace(folder / name)


def _bar(description: str, total: int, progress: bool, **options: object) -> "tqdm[object]":
    return tqdm(desc=description, total=total, disable=None if progress else True, file=sys.stderr, **options)
