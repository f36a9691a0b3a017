"""CSV, TSV and Parquet tables → ready-made facts, and an account of every row."""

import csv
import datetime
import gzip
import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refactx.errors import InputError
from refactx.fact import MAX_PART_CHARACTERS, written_part
from refactx.ingest.parsers.parsed import NOT_UTF8, Parsed
from refactx.ingest.parsers.tables.table import parse_table, table_form
from refactx.ingest.sources.source import Source

HEADER = "subject,predicate,object\n"


def parse(path: Path) -> Parsed:
    """Return the outcome of a table's rows; check the account."""
    whole = Parsed(lines=0)
    tables = []
    for parsed in parse_table(Source(path), table_form(Source(path))):
        whole.lines += parsed.lines
        whole.statements += parsed.statements
        whole.cut += parsed.cut
        whole.dropped += parsed.dropped
        whole.faults += parsed.faults
        tables += [parsed.tables["ready"]] if "ready" in parsed.tables else []
    whole.tables["ready"] = pa.concat_tables(tables)
    assert whole.lines == len(whole.tables["ready"]) + sum(whole.dropped.values()) + len(whole.faults)
    assert whole.statements == whole.lines - len(whole.faults)
    return whole


def facts_of(parsed: Parsed) -> list[tuple[str, ...]]:
    return [tuple(row.values()) for row in parsed.tables["ready"].to_pylist()]


def text_file(folder: Path, content: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def parquet_file(folder: Path, **columns: Any) -> Path:
    path = folder / "table.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=2)
    return path


@pytest.mark.parametrize(
    ("content", "delimiter", "ignored"),
    [
        ("subject,predicate,object\nAnn,likes,Bob\n", ",", ()),
        ("\ufeffObject;SUBJECT; predicate;since\r\nBob;Ann;likes;1990\r\n", ";", ("since",)),
        ("id\tsubject\tpredicate\tobject\n1\tAnn\tlikes\tBob", "\t", ("id",)),
        ('\n\n"object"|"predicate"|"subject"\n"Bob"|likes|Ann\n', "|", ()),
        ('subject,predicate,object,"a;b;c"\nAnn,likes,Bob,"x\ny"\n', ",", ("a;b;c",)),
    ],
)
def test_columns_are_found_by_their_names(
    tmp_path: Path, content: str, delimiter: str, ignored: tuple[str, ...]
) -> None:
    path = text_file(tmp_path, content)
    assert (table_form(Source(path)).delimiter, table_form(Source(path)).ignored) == (delimiter, ignored)
    assert facts_of(parse(path)) == [("Ann", "likes", "Bob")]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(*[st.text(st.characters(codec="utf-8") | st.sampled_from('",;\n\r\t <'), max_size=8)] * 3)))
def test_what_a_spreadsheet_writes_is_read_unchanged(tmp_path: Path, rows: list[tuple[str, str, str]]) -> None:
    file = io.StringIO()
    writer = csv.writer(file, quoting=csv.QUOTE_ALL)
    writer.writerows([("subject", "predicate", "object"), *rows, ("the", "last", "one")])
    expected = [tuple(map(written_part, row)) for row in [*rows, ("the", "last", "one")]]
    assert facts_of(parse(text_file(tmp_path, file.getvalue()))) == [row for row in expected if all(row)]


def test_every_row_that_gives_no_fact_is_counted_with_its_reason(tmp_path: Path) -> None:
    last = b"Ann,\xff\n"
    rows = (
        b'\nAnn,likes\n"Bob ""B""\nBuilder",is a,"man, builder"\n,likes,Bob\nAnn,\xff,Bob\nNULL,NA,nan\nAnn,likes,Bob,Cy\n'
        + last
    )
    parsed = parse(text_file(tmp_path, HEADER.encode() + rows))
    assert facts_of(parsed) == [('Bob "B" Builder', "is a", "man, builder"), ("NULL", "NA", "nan")]
    assert parsed.dropped == {"blank": 1, "empty part": 1}
    assert sorted(parsed.faults) == [
        (3, "2 cells instead of 3: Ann,likes"),
        (6, f"{NOT_UTF8}: Ann ÿ Bob"),
        (8, "4 cells instead of 3: Ann,likes,Bob,Cy"),
        (9, "2 cells instead of 3: Ann,ÿ"),
    ]


def test_parts_are_clean_and_cut(tmp_path: Path) -> None:
    parsed = parse(text_file(tmp_path, HEADER + f'"  a <b>\n c",p,{"x" * 2000}\ne\u0301,p,o\n'))
    assert facts_of(parsed) == [("a ‹b› c", "p", "x" * (MAX_PART_CHARACTERS - 1) + "…"), ("é", "p", "o")]
    assert parsed.cut == 1


def test_an_archive_is_read_in_blocks_and_quotes_in_a_cell_are_text(tmp_path: Path) -> None:
    count = 700_000  # over two blocks
    rows = "".join(f'Entity {number},part of,"Thing, {number % 9}"\n' for number in range(count))
    path = text_file(tmp_path, gzip.compress((HEADER + rows + 'Pipe,width,5" wide').encode(), 1), "table.csv.gz")
    blocks = list(parse_table(Source(path), table_form(Source(path))))
    assert len([block for block in blocks if block.lines]) > 1
    assert sum(len(block.tables["ready"]) for block in blocks) == sum(block.lines for block in blocks) == count + 1
    facts = pa.concat_tables([block.tables["ready"] for block in blocks]).slice(count - 1).to_pylist()
    assert facts == [
        {"subject": f"Entity {count - 1}", "predicate": "part of", "object": f"Thing, {(count - 1) % 9}"},
        {"subject": "Pipe", "predicate": "width", "object": '5" wide'},
    ]


@pytest.mark.parametrize(
    ("column", "written"),
    [
        (pa.array([12, None, -5]), ["12", "", "-5"]),
        (pa.array([1e6, 0.1, float("nan")]), ["1000000", "0.1", ""]),
        (
            pa.array([Decimal("1.50"), Decimal("12.00"), Decimal("1E-9")], pa.decimal128(20, 9)),
            ["1.5", "12", "0.000000001"],
        ),
        (pa.array([datetime.date(1956, 10, 20), None, datetime.date(800, 1, 2)]), ["1956-10-20", "", "0800-01-02"]),
        (
            pa.array(
                [datetime.datetime(1956, 10, 20), datetime.datetime(2001, 2, 3, 4, 5, 6), None], pa.timestamp("ns")
            ),
            ["1956-10-20", "2001-02-03T04:05:06", ""],
        ),
        (pa.array([datetime.time(12, 30), None, None]), ["12:30:00", "", ""]),
        (pa.array([True, False, None]), ["true", "false", ""]),
        (pa.array(["a", None, " "]), ["a", "", ""]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        (pa.array([b"caf\xc3\xa9", b"a", b"b"]), ["café", "a", "b"]),
    ],
)
def test_values_of_parquet_are_written_as_people_do(tmp_path: Path, column: pa.Array, written: list[str]) -> None:
    path = parquet_file(tmp_path, extra=[1, 2, 3], object=column, predicate=["p", "p", "p"], subject=["a", "b", "c"])
    assert table_form(Source(path)).ignored == ("extra",)
    parsed = parse(path)
    assert facts_of(parsed) == [(subject, "p", text) for subject, text in zip("abc", written, strict=True) if text]
    assert parsed.dropped.total() == written.count("")


def test_bytes_that_are_no_text_are_malformed(tmp_path: Path) -> None:
    parsed = parse(parquet_file(tmp_path, subject=["a", "b", "c"], predicate=["p"] * 3, object=[b"x", b"\xff", b"z"]))
    assert facts_of(parsed) == [("a", "p", "x"), ("c", "p", "z")]
    assert parsed.faults == [(2, "not UTF-8, perhaps Latin-1: write the column as text in UTF-8: b p ÿ")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "Ann,likes,Bob\n",
            "has no column subject, predicate, object: its columns are Ann, likes, Bob: name the columns",
        ),
        ("subject,object\nAnn,Bob\n", "has no column predicate: its columns are subject, object"),
        ("subject,subject,predicate,object\n", "has column subject twice"),
        (HEADER, "has no complete row after its header"),
        (HEADER + "Ann,likes\n", "has no complete row after its header"),
        (HEADER + 'Ann,likes,Bob\nAnn,likes,"Cy\n' + "Bob,likes,Ann\n" * 9, "row 3 of"),
        ("", "is empty"),
        (HEADER.encode("utf-16"), "is UTF-16: expected UTF-8"),
        (gzip.compress((HEADER + "Ann,likes,Bob\n" * 999).encode(), mtime=0)[:-9], "is a truncated gzip file"),
        (b"PAR1 and no more", "is a truncated or corrupt Parquet file"),
        (
            "<http://x/s> <http://x/p> <http://x/o> .\n",
            "has no column subject, predicate, object: its columns are <http",
        ),
    ],
)
def test_a_table_that_cannot_be_used_is_an_error_that_says_why(
    tmp_path: Path, content: str | bytes, message: str
) -> None:
    path = text_file(tmp_path, content)
    with pytest.raises(InputError) as error:
        parse(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_a_column_of_lists_is_refused(tmp_path: Path) -> None:
    path = parquet_file(tmp_path, subject=["a"], predicate=["p"], object=[["x", "y"]])
    with pytest.raises(InputError, match=r"column object of .*table.parquet has values of type list<"):
        parse(path)


def test_a_truncated_parquet_file_is_an_error(tmp_path: Path) -> None:
    path = parquet_file(tmp_path, subject=["a"] * 9, predicate=["p"] * 9, object=["o"] * 9)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="truncated or corrupt Parquet"):
        parse(path)
