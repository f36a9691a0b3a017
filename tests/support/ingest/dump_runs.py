"""Dumps of a made-up world and tables, and the facts and the account of their ingest."""

import csv
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from refactx.ingest.knowledge.knowledge_base import KnowledgeBase

LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
DUMPS = ["latest-truthy.nt.gz", "enwiki-page.sql.gz", "enwiki-page_props.sql.gz"]
ROWS = [("Ann", "likes", "Bob"), ("Bob", "age", "7"), ("Ann", "likes", "Bob"), ("", "likes", "Bob")]


def facts_of(built: KnowledgeBase) -> Counter[tuple[str, str, str]]:
    """Return the facts of a knowledge base as texts."""
    texts = pq.read_table(built.folder / "units.parquet")["text"].to_pylist()
    triples = zip(*pq.read_table(built.folder / "facts.parquet").to_pydict().values(), strict=True)
    return Counter((texts[s], texts[p], texts[o]) for s, p, o in triples)


def check_account(built: KnowledgeBase) -> KnowledgeBase:
    """Check that the account of a knowledge base adds up, and return the knowledge base."""
    report = built.report
    assert report.lines_read == report.kept + sum(report.dropped.values())
    assert report.facts == report.claims + report.descriptions + report.derived == facts_of(built).total()
    return built


def write_table(path: Path) -> None:
    """Write `ROWS`, with a further column, in the format that the name of the file says."""
    columns = {name: [row[at] for row in ROWS] for at, name in enumerate(("subject", "predicate", "object"))}
    columns["year"] = ["1990"] * len(ROWS)
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
        return
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writerows([columns, *zip(*columns.values(), strict=True)])
