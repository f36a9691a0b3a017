"""Small sources in N-Triples, and the facts of knowledge bases built from them."""

import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

import refactx
from refactx.entity_ids import entity_number
from refactx.fact import MAX_PART_CHARACTERS, clean_part
from refactx.ingest.knowledge.knowledge_base import KnowledgeBase, join
from refactx.ingest.parsers.formats import open_sources, read_sources, recognised
from refactx.ingest.source_options import DEFAULT_SELECTION, Selection
from refactx.ingest.sources import Source, inputs_of
from refactx.ingest.work import DEFAULT_RESOURCES, Resources
from support.ingest.quiet import QUIET

SAMPLE = Path(refactx.__path__[0]) / "data" / "wikidata-sample.nt.gz"
ENTITY = "http://www.wikidata.org/entity/"
DIRECT = "http://www.wikidata.org/prop/direct/"
CLAIM = f"<{ENTITY}Q1> <{DIRECT}P1> <{ENTITY}Q2> ."
Fact = tuple[str, str, str]
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
NAMED = [
    f'<{ENTITY}P1> <{LABEL}> "likes"@en .',
    f'<{ENTITY}Q1> <{LABEL}> "Ann"@en .',
    f'<{ENTITY}Q2> <{LABEL}> "Bob"@en .',
]


def build_knowledge_base(
    sources: Sequence[Path | Source],
    folder: Path,
    *,
    wikipedia: tuple[Path, Path] | None = None,
    selection: Selection = DEFAULT_SELECTION,
    strict: bool = False,
    resources: Resources = DEFAULT_RESOURCES,
) -> KnowledgeBase:
    """Read sources and write their facts and names into `folder`, as the first steps of an ingest do."""
    inputs = inputs_of(
        sources, wikipedia, resources.workers, encoding=selection.tables.encoding, labels=selection.tables.labels
    )
    selection = recognised(inputs, selection, "facts")
    opened = open_sources(inputs, selection, resources.workers)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".staged-") as staged:
        lines = read_sources(opened, inputs, Path(staged), selection, strict=strict, resources=resources)
        return join(Path(staged), lines, folder, selection, resources=resources)


def build(folder: Path, content: str | bytes, name: str = "source.nt", *, strict: bool = False) -> KnowledgeBase:
    """Write a source and build a knowledge base of it."""
    source = folder / name
    source.write_bytes(content.encode() if isinstance(content, str) else content)
    return build_knowledge_base([source], folder / "kb", strict=strict, resources=QUIET)


def facts_of(built: KnowledgeBase) -> set[Fact]:
    """Return the facts as texts; check everything that is documented of the files and the account."""
    units = pq.read_table(built.folder / "units.parquet")
    texts = units["text"].to_pylist()
    assert units["unit"].to_pylist() == list(range(len(texts)))
    assert len(set(texts)) == len(texts)
    assert all(text and clean_part(text) == text and len(text) <= MAX_PART_CHARACTERS for text in texts)
    columns = pq.read_table(built.folder / "facts.parquet").to_pydict()
    assert list(columns) == ["subject", "predicate", "object"]
    triples = list(zip(*columns.values(), strict=True))
    assert set(itertools.chain(*triples)) == set(range(len(texts)))
    facts = {(texts[s], texts[p], texts[o]) for s, p, o in triples}
    report = built.report
    assert len(facts) == len(triples) == report.facts == report.claims + report.descriptions + report.derived
    assert report.lines_read == report.kept + sum(report.dropped.values())
    assert list(report.dropped) == sorted(report.dropped)
    assert all(report.dropped.values())
    files = ["facts.parquet", "hubs.parquet", "ids.parquet", "labels.parquet", "names.parquet", "units.parquet"]
    assert sorted(p.name for p in built.folder.iterdir()) == files
    names = pq.read_table(built.folder / "names.parquet").to_pylist()
    assert {row["name"] for row in names} <= set(texts)
    ids = pq.read_table(built.folder / "ids.parquet").to_pylist()
    assert ids == sorted(
        ({"entity": _number(row), "name": row["name"]} for row in names), key=lambda row: row["entity"]
    )
    return facts


def _number(row: dict[str, str | None]) -> int:
    number = entity_number(str(row["id"]))
    return -number if row["object_kind"] == "inverse" else number


def nt(*lines: str) -> str:
    """Return a source with the labels `NAMED` and further lines."""
    return "\n".join([*NAMED, *lines]) + "\n"
