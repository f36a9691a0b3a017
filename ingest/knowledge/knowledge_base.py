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

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyarrow import parquet

from refactx.errors import InputError

from ..knowledge.account import Joined
from ..knowledge.few_ready_made import are_ready, join_ready
from ..knowledge.joins import STEPS, join_facts
from ..knowledge.known_names import KnownNames
from ..knowledge.naming import Naming, name_entities
from ..parsers.reading import Lines, open_sources, progress_bar, read_sources
from ..report import Report
from ..selection import Selection
from ..sources.inputs import inputs_of
from ..work_database import Work, open_staged, open_work_database, staged_are_few

_ALL = Selection()
_FILES = {
    "units.parquet": "SELECT unit, text FROM units ORDER BY unit",
    "facts.parquet": "SELECT * FROM facts ORDER BY ALL",
    # Of names that were there before, only predicates that have got objects of another kind.
    "names.parquet": """
        SELECT name, entity_id(abs(entity)) AS id, object_kind FROM (
            SELECT u.entity, u.name, k.entity AS known, k.object_kind AS before, CASE
                WHEN k.object_kind IS NULL OR p.object_kind = k.object_kind THEN p.object_kind
                WHEN p.object_kind IS NULL THEN k.object_kind
                ELSE 'mixed' END AS object_kind
            FROM used u LEFT JOIN predicates p USING (entity) LEFT JOIN known k USING (entity)
        ) WHERE known IS NULL OR object_kind IS DISTINCT FROM before
        ORDER BY name""",
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
    wikipedia: tuple[Path, Path] | None = None,
    selection: Selection = _ALL,
    strict: bool = False,
    memory: str = "1GB",
    workers: int = 2,
    progress: bool = True,
) -> KnowledgeBase:
    """Read the sources, of one kind or mixed, and write their facts and names into `folder`, made if need be.

    Args:
        wikipedia: English Wikipedia's dumps of the tables `page` and `page_props`, for titles and short descriptions.
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
    inputs = inputs_of(sources, wikipedia, workers)
    opened = open_sources(inputs, selection, workers)
    _make(folder)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".staged-") as staged:
        limits: dict[str, Any] = {"memory": memory, "workers": workers, "progress": progress}
        lines = read_sources(opened, inputs, Path(staged), selection, strict=strict, **limits)
        return join(Path(staged), lines, folder, selection, **limits)


def join(
    staged: Path,
    lines: Lines,
    folder: Path,
    selection: Selection,
    *,
    memory: str = "1GB",
    workers: int = 2,
    progress: bool = True,
    known: KnownNames | None = None,
) -> KnowledgeBase:
    """The second half of `build_knowledge_base`: staged rows, and the account of their lines → the three files.

    `known`: names that entities have already; then `names.parquet` has only what is to be added to them, and no fact at all
    is no error: a change for which there is nothing to do.
    """
    _make(folder)
    if are_ready(staged, selection):
        tables, joined = join_ready(staged)
        report = _report(lines, joined, Naming(0, ()), selection, needs_facts=known is None)
        _write(
            folder, lambda name, path: parquet.write_table(tables[name], path, compression="zstd", use_dictionary=False)
        )
        return KnowledgeBase(folder, report)
    return join_any(staged, lines, folder, selection, memory=memory, workers=workers, progress=progress, known=known)


def join_any(
    staged: Path,
    lines: Lines,
    folder: Path,
    selection: Selection,
    *,
    memory: str,
    workers: int,
    progress: bool,
    known: KnownNames | None = None,
) -> KnowledgeBase:
    """`join` for whatever is staged; `folder` is there."""
    few = staged_are_few(staged)
    with (
        open_work_database(folder, memory, 1 if few else workers) as connection,
        progress_bar("joining names and facts", STEPS + len(_FILES) + 1, progress) as bar,
    ):
        open_staged(connection, staged, once=few)
        naming = name_entities(connection, selection, known)
        bar.update()
        joined = join_facts(connection, selection, bar.update)
        report = _report(lines, joined, naming, selection, needs_facts=known is None)
        _write(folder, partial(_copy, connection, bar.update))
    return KnowledgeBase(folder, report)


def _make(folder: Path) -> None:
    """The folder, made if need be. Raises InputError if it can't be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made: {error.strerror}: choose another folder") from None


def _report(lines: Lines, joined: Joined, naming: Naming, selection: Selection, *, needs_facts: bool) -> Report:
    dropped = lines.dropped + joined.dropped
    facts = joined.claims + joined.descriptions + joined.derived
    report = Report(
        facts=facts,
        claims=joined.claims,
        descriptions=joined.descriptions,
        aliases=joined.aliases,
        derived=joined.derived,
        lines_read=lines.read,
        kept=joined.kept,
        dropped={reason: dropped[reason] for reason in sorted(dropped) if dropped[reason]},
        cut=lines.cut + joined.cut,
        malformed=tuple(lines.faults),
        notes=(*lines.notes, *naming.notes),
        entities=joined.entities,
        names=joined.names,
        collisions=naming.collisions,
        not_inverted=joined.not_inverted,
        inverse_properties=joined.inverse_properties,
        selection=selection.to_json(),
    )
    if needs_facts and not facts:
        reasons = ", ".join(f"{count} {reason}" for reason, count in report.dropped.items())
        raise InputError(
            f"no fact in {lines.read} lines, dropped: {reasons}; expected Wikidata claims with labels "
            f"in {','.join(selection.languages)} for their subjects, predicates and objects, or ready-made facts"
        )
    return report


def _write(folder: Path, write: Callable[[str, Path], object]) -> None:
    """The three files, first under other names, so that a run cut short leaves no file that looks whole."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".new-") as new:
        for name in _FILES:
            write(name, Path(new, name))
        for name in _FILES:
            Path(new, name).replace(folder / name)


def _copy(connection: Work, step: Callable[[], object], name: str, path: Path) -> None:
    target = str(path).replace("'", "''")
    connection.execute(f"COPY ({_FILES[name]}) TO '{target}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)")
    step()
