"""Tables as files, the knowledge bases of them, and their facts and ids."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from refactx.ingest.knowledge.knowledge_base import KnowledgeBase
from refactx.ingest.source_options import Selection, TableOptions
from support.ingest.knowledge_runs import build_knowledge_base
from support.ingest.quiet import QUIET

Fact = tuple[str, str, str]


def built(
    folder: Path,
    files: Mapping[str, str | bytes],
    *,
    inverse: bool = False,
    kept: tuple[str, ...] | None = None,
    **tables: Any,
) -> KnowledgeBase:
    """Write files and build a knowledge base of them; check the account. `kept`: the groups of qualifiers in facts."""
    for name, content in files.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    options = TableOptions(**{name: tuple(one) if isinstance(one, list) else one for name, one in tables.items()})
    selection = Selection(inverse=inverse, aliases=True, qualifiers=kept, tables=options)
    sources = [folder / name for name in files if str(folder / name) not in options.labels]
    base = build_knowledge_base(sources, folder / "kb", selection=selection, resources=QUIET)
    report = base.report
    assert report.lines_read == report.kept + sum(report.dropped.values())
    assert all(count > 0 for count in report.dropped.values())
    return base


def facts_of(base: KnowledgeBase) -> set[Fact]:
    texts = pq.read_table(base.folder / "units.parquet")["text"].to_pylist()
    columns = pq.read_table(base.folder / "facts.parquet").to_pydict()
    return {(texts[s], texts[p], texts[o]) for s, p, o in zip(*columns.values(), strict=True)}


def ids_of(base: KnowledgeBase) -> dict[str, str]:
    return {row["name"]: row["id"] for row in pq.read_table(base.folder / "names.parquet").to_pylist()}


def as_csv(rows: Sequence[Sequence[str]], delimiter: str = ",") -> str:
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter).writerows(rows)
    return file.getvalue()


def lines_of(base: KnowledgeBase) -> set[str]:
    """The facts with their qualifiers, as lines without their dots."""
    texts = pq.read_table(base.folder / "units.parquet")["text"].to_pylist()
    rows = pq.read_table(base.folder / "facts.parquet").to_pylist()
    parts = (
        [texts[row[name]] for name in ("subject", "predicate", "object", "tail") if row.get(name, -1) >= 0]
        for row in rows
    )
    return {f"<{'> <'.join(some)}>" for some in parts}
