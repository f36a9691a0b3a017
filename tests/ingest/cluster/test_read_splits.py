"""Lines that are read in splits give the staged rows and the account of the whole file."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from support.ingest.knowledge_runs import SAMPLE
from support.ingest.quiet import QUIET

from refactx.errors import InputError, RefactxError
from refactx.ingest.cluster.reading import ClusterFile, parse_splits, whole_account
from refactx.ingest.cluster.session import versions_here
from refactx.ingest.parsers.formats import LineAccount, open_sources, read_sources
from refactx.ingest.parsers.parsed import SCHEMAS
from refactx.ingest.source_options import Selection
from refactx.ingest.sources import Source, inputs_of

Rows = list[tuple[object, ...]]
SELECTION = Selection(inverse=True, languages=("en", "de"))
ODD = [
    "",
    "# a comment",
    "nonsense",
    "<x> <y>",
    '<http://www.wikidata.org/entity/Q1> <http://schema.org/name> "a\\u00e9"@en .',
]


def lines_of(path: Path) -> list[str]:
    return [line.decode() for block in Source(path).blocks() for line in block.split(b"\n")[:-1]]


def on_one_machine(lines: Sequence[str], folder: Path, strict: bool = False) -> tuple[dict[str, Rows], LineAccount]:
    path = folder / "lines.nt"
    path.write_text("".join(f"{line}\n" for line in lines))
    staged = folder / "staged"
    staged.mkdir()
    inputs = inputs_of([path], None, 2)
    opened = open_sources(inputs, SELECTION, 2)
    account = read_sources(opened, inputs, staged, SELECTION, strict=strict, resources=QUIET)
    tables = {name: parquet.read_table(staged / f"{name}.parquet").to_pylist() for name in SCHEMAS}
    return {name: sorted(map(repr, (tuple(row.values()) for row in rows))) for name, rows in tables.items()}, account


def in_splits(
    lines: Sequence[str], ends: Sequence[int], size: int, path: str, strict: bool = False
) -> tuple[dict[str, Rows], LineAccount]:
    """Return the rows of lines in splits that end at `ends`, `size` lines a batch, by two tasks."""
    tasks = [list[pa.RecordBatch]() for _ in range(2)]
    for number, (low, high) in enumerate(pairwise([0, *ends, len(lines)])):
        for first in range(low, high, size):
            some = lines[first : min(high, first + size)]
            columns = [pa.array([7] * len(some)), pa.array([low] * len(some)), pa.array(some, pa.string())]
            tasks[number % 2].append(pa.RecordBatch.from_arrays(columns, ["file", "start", "value"]))
    places = {
        "claims": "abcxk",
        "terms": "akrlx",
        "redirects": "ab",
        "left_out": "ax",
        "ready": "xyz",
    }
    rows: dict[str, Rows] = {name: [] for name in SCHEMAS}
    accounts = []
    for task in reversed(tasks):
        for batch in parse_splits(versions_here(), "N-Triples", SELECTION, iter(task)):
            for row in batch.to_pylist():
                if row["part"] == "account":
                    accounts.append(row["x"])
                else:
                    rows[row["part"]].append(tuple(row[place] for place in places[row["part"]]))
    file = ClusterFile(name=path, path=path, key=7, format="N-Triples", bytes=1, changed="")
    return {name: sorted(map(repr, some)) for name, some in rows.items()}, whole_account(
        [file], accounts, strict=strict
    )


@pytest.fixture(scope="module")
def sample_lines() -> list[str]:
    return lines_of(SAMPLE)[:3000]


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_splits_give_the_rows_and_the_account_of_the_file(
    data: st.DataObject, sample_lines: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("splits")
    lines = sample_lines[: data.draw(st.integers(1, 300))]
    for _ in range(data.draw(st.integers(0, 20))):
        lines = [*lines]
        lines.insert(data.draw(st.integers(0, len(lines))), data.draw(st.sampled_from(ODD)))
    ends = sorted(data.draw(st.lists(st.integers(0, len(lines)), max_size=4)))
    rows, account = in_splits(lines, ends, data.draw(st.integers(1, 100)), str(folder / "lines.nt"))
    assert (rows, account) == on_one_machine(lines, folder)


def malformed_file(tmp_path: Path, sample_lines: list[str]) -> tuple[list[str], str]:
    lines = [*sample_lines[:50], "nonsense", *sample_lines[50:100], "worse"]
    return lines, str(tmp_path / "lines.nt")


def test_a_malformed_line_has_its_number_in_the_file(tmp_path: Path, sample_lines: list[str]) -> None:
    lines, path = malformed_file(tmp_path, sample_lines)
    _, account = in_splits(lines, [20, 70], 9, path)
    assert [fault.split(": ")[0] for fault in account.faults] == [f"{path}:51", f"{path}:102"]
    with pytest.raises(InputError, match=r"lines.nt:51: .* leave out --strict"):
        in_splits(lines, [20, 70], 9, path, strict=True)


def test_a_file_without_a_statement_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is not N-Triples: line 2: .*expected lines such as"):
        in_splits(["", "nonsense", "more"], [1], 2, "x.nt")


def test_other_versions_on_an_executor_stop_the_ingest() -> None:
    other: Iterator[pa.RecordBatch] = iter(())
    driver = tuple((package, "0.0") for package, _ in versions_here())
    with pytest.raises(RefactxError, match=r"an executor has refactx .* and the driver 0\.0: install the same"):
        next(parse_splits(driver, "N-Triples", SELECTION, other))
