"""Every example of docs/reference/names-and-values.md and graphs.md is true."""

import re
import shlex
from collections import Counter
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.ingest.knowledge_runs import build_knowledge_base
from support.ingest.quiet import QUIET

from refactx.english import inverse_of
from refactx.fact import qualifiers_of, split_fact
from refactx.ingest.knowledge.knowledge_base import KnowledgeBase
from refactx.ingest.profile import local_name
from refactx.ingest.source_options import Selection, languages_of

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "names-and-values.md").read_text()
PREFIXES = dict(re.findall(r"\b(\w+):\s+(http://\S+)", PAGE.partition("## Entities")[0]))
EXAMPLE = r"```facts(.*)\n((?:.*\n)*?)```"
BLOCKS = re.findall(EXAMPLE, PAGE)
GRAPHS = (Path(__file__).parents[2] / "docs" / "reference" / "graphs.md").read_text()
GRAPH_PREFIXES = re.findall(r"(\w*:)\s+(http://\S+)", GRAPHS.partition("## Formats")[0])
BASE = [
    'wd:Q1 rdfs:label "Ann"@en .',
    'wd:Q2 rdfs:label "Bob"@en .',
    'wd:P26 rdfs:label "spouse"@en .',
    "wd:Q1 wdt:P26 wd:Q2 .",
]


def table_of(heading: str, page: str = PAGE) -> list[list[str]]:
    """The rows of the table under a heading, without backticks around a cell."""
    rows = page.partition(f"| {heading} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip().strip("`") for cell in row.strip().strip("|").split(" |")] for row in rows]


def n_triples(line: str) -> str:
    """A line with the page's prefixes expanded, except in literals."""
    parts = re.split(r'("(?:[^"\\]|\\.)*"|<[^>]*>)', line)
    for at in range(0, len(parts), 2):
        parts[at] = re.sub(
            r"\b(\w+):([\w-]*)", lambda m: f"<{PREFIXES[m[1]]}{m[2]}>" if m[1] in PREFIXES else m[0], parts[at]
        )
    return "".join(parts)


def built(folder: Path, lines: list[str], selection: Selection) -> KnowledgeBase:
    (folder / "page.nt").write_text("".join(n_triples(line) + "\n" for line in lines))
    return build_knowledge_base([folder / "page.nt"], folder / "kb", selection=selection, strict=True, resources=QUIET)


def built_graph(folder: Path, lines: list[str], selection: Selection) -> KnowledgeBase:
    """A knowledge base of a graph that is not Wikidata's."""
    header = [f"PREFIX {prefix} <{iri}>" for prefix, iri in GRAPH_PREFIXES]
    (folder / "page.ttl").write_text("\n".join([*header, *lines]))
    return build_knowledge_base([folder / "page.ttl"], folder / "kb", selection=selection, strict=True, resources=QUIET)


def facts_of(base: KnowledgeBase) -> set[tuple[str, ...]]:
    """The facts: three parts each, and those of qualifiers."""
    texts = pq.read_table(base.folder / "units.parquet")["text"].to_pylist()
    rows = zip(*pq.read_table(base.folder / "facts.parquet").to_pydict().values(), strict=True)
    return {tuple(part for unit in row if unit >= 0 for part in texts[unit].split("> <")) for row in rows}


def test_the_page_has_examples() -> None:
    assert len(BLOCKS) >= 5
    assert len(table_of("line | reason")) >= 15
    assert len(table_of("in the dump | in a fact")) >= 15
    assert len(table_of("label | inverse | why")) >= 10


@pytest.mark.parametrize(("options", "block"), BLOCKS)
def test_the_facts_of_an_example(tmp_path: Path, options: str, block: str) -> None:
    check_example(tmp_path, options, block, built)


@pytest.mark.parametrize(("options", "block"), re.findall(EXAMPLE, GRAPHS))
def test_the_facts_of_an_example_of_a_graph(tmp_path: Path, options: str, block: str) -> None:
    check_example(tmp_path, options, block, built_graph)


def test_the_last_part_of_an_iri() -> None:
    rows = table_of("last part | name", GRAPHS)
    assert len(rows) >= 5
    assert [local_name(f"http://example.org/{part}") for part, _ in rows] == [name for _, name in rows]


def check_example(
    tmp_path: Path, options: str, block: str, build: Callable[[Path, list[str], Selection], KnowledgeBase]
) -> None:
    given = shlex.split(options)
    languages = given[given.index("--languages") + 1] if "--languages" in given else "en,mul"
    lines = [line for line in block.splitlines() if not line.startswith("→")]
    results = [line.removeprefix("→ ") for line in block.splitlines() if line.startswith("→")]
    dropped = [line.removeprefix("dropped: ") for line in results if line.startswith("dropped: ")]
    aliases = True if "--aliases" in given else None
    selection = Selection(languages=languages_of(languages), inverse="--inverse" in given, aliases=aliases)
    base = build(tmp_path, lines, selection)
    stated = (line for line in results if line.startswith("<"))
    assert facts_of(base) == {(*(split_fact(line) or ()), *chain(*qualifiers_of(line))) for line in stated}
    for counts in dropped:
        assert base.report.dropped == {
            reason: int(count) for reason, _, count in (entry.rpartition(" ") for entry in counts.split(", "))
        }


def test_the_reason_why_a_line_is_dropped(tmp_path: Path) -> None:
    lines, reasons = zip(*table_of("line | reason"), strict=True)
    assert built(tmp_path, [*BASE, *lines], Selection()).report.dropped == Counter(reasons)


def test_a_literal_in_a_fact(tmp_path: Path) -> None:
    rows = table_of("in the dump | in a fact")
    facts = facts_of(built(tmp_path, [*BASE, *(f"wd:Q1 wdt:P26 {literal} ." for literal, _ in rows)], Selection()))
    assert facts == {("Ann", "spouse", "Bob"), *(("Ann", "spouse", written) for _, written in rows)}


@pytest.mark.parametrize(("label", "inverse"), [row[:2] for row in table_of("label | inverse | why")])
def test_the_name_of_an_inverse(label: str, inverse: str) -> None:
    assert inverse_of(label) == inverse
