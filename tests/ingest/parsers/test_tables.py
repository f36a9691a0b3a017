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
from refactx.ingest.parsers.columns import parse_table, table_form
from refactx.ingest.parsers.parsed import NOT_UTF8, Parsed
from refactx.ingest.source_options import DEFAULT_SELECTION
from refactx.ingest.sources import Source

HEADER = "subject,predicate,object\n"


def parse(path: Path) -> Parsed:
    """Return the outcome of a table's rows; check the account."""
    whole = Parsed(lines=0)
    tables = []
    for parsed in parse_table(Source(path), table_form(Source(path), DEFAULT_SELECTION)):
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
        ("\ufeffsep=;\r\nsubject;predicate;object\r\nAnn;likes;Bob\r\n", ";", ()),
        ('"sep=\t"\n\nsubject\tpredicate\tobject\nAnn\tlikes\tBob\n', "\t", ()),
        ("SEP=^\nsubject^predicate^object\nAnn^likes^Bob\n", "^", ()),
        ("sep=;\nsubject,predicate,object\nAnn,likes,Bob\n", ",", ()),
        ('subject,predicate,object,"a;b;c"\nAnn,likes,Bob,"x\ny"\n', ",", ("a;b;c",)),
    ],
)
def test_columns_are_found_by_their_names(
    tmp_path: Path, content: str, delimiter: str, ignored: tuple[str, ...]
) -> None:
    path = text_file(tmp_path, content)
    form = table_form(Source(path), DEFAULT_SELECTION)
    assert form.header.delimiter == delimiter
    assert all(name in form.notes[0] for name in ignored) if ignored else not form.notes
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
    rows = b'\nAnn,likes\n"Bob ""B""\nBuilder",is a,"man, builder"\n,likes,Bob\nNULL,NA,nan\nAnn,likes,Bob,Cy\n'
    parsed = parse(text_file(tmp_path, HEADER.encode() + rows))
    assert facts_of(parsed) == [('Bob "B" Builder', "is a", "man, builder"), ("NULL", "NA", "nan")]
    assert parsed.dropped == {"blank": 1, "empty part": 1}
    assert sorted(parsed.faults) == [
        (3, "2 cells instead of 3: Ann,likes"),
        (7, "4 cells instead of 3: Ann,likes,Bob,Cy"),
    ]


def test_a_file_that_is_not_utf8_throughout_is_refused_with_its_line(tmp_path: Path) -> None:
    path = text_file(tmp_path, HEADER.encode() + b"Ann,likes,Bob\nJos\xe9,likes,Ann\n")
    with pytest.raises(InputError, match=rf"table.csv:3: {NOT_UTF8}: José,likes,Ann"):
        parse(path)


@pytest.mark.parametrize(
    ("cells", "fact"),
    [
        (r'Ann,says,"a \"quote\""', ("Ann", "says", 'a "quote"')),
        (r'"12\"",size of,"7\" or \"x, y\""', ('12"', "size of", '7" or "x, y"')),
        (r'"a \\ \"b\"",p,"C:\new \"c\""', ('a \\ "b"', "p", r'C:\new "c"')),
        ('"two\nlines \\"x\\"\nmore",p,o', ('two lines "x" more', "p", "o")),
        (r'"C:\","D:\",5\" wide', ("C:\\", "D:\\", r"5\" wide")),
        (r'"a ""b\""c"" \n",p,"\\server"', (r'a "b\"c" \n', "p", r"\\server")),
    ],
)
@pytest.mark.parametrize("delimiter", [",", "\t", "|"])
def test_backslashes_before_quotes_are_escapes_where_nothing_else_can_be_meant(
    tmp_path: Path, cells: str, fact: tuple[str, ...], delimiter: str
) -> None:
    content = (HEADER + cells + "\nCy,p,o\n").replace(",", delimiter)
    fact = tuple(written_part(part.replace(",", delimiter)) for part in fact)
    assert facts_of(parse(text_file(tmp_path, content))) == [fact, ("Cy", "p", "o")]


def test_parts_are_clean_and_cut(tmp_path: Path) -> None:
    parsed = parse(text_file(tmp_path, HEADER + f'"  a <b>\n c",p,{"x" * 2000}\ne\u0301,p,o\n'))
    assert facts_of(parsed) == [("a ‹b› c", "p", "x" * (MAX_PART_CHARACTERS - 1) + "…"), ("é", "p", "o")]
    assert parsed.cut == 1


@pytest.mark.parametrize("name", ["table.csv", "table.parquet"])
def test_no_cell_keeps_a_character_that_ends_a_line_or_that_nobody_sees(tmp_path: Path, name: str) -> None:
    steering = [chr(code) for code in (*range(32), *range(0x7F, 0xA0), 0x2028, 0x2029)]
    unseen = list("\u00ad\u180e\u200b\u202e\u2066\u2067\ufeff\ufff9\U0001d173\U000e0049\U000e007f")
    cells = [f"a{letter}b" for letter in (*steering, *unseen)]
    columns = {"subject": cells, "predicate": ["p"] * len(cells), "object": cells}
    if name == "table.csv":
        with (tmp_path / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows([columns, *zip(*columns.values(), strict=True)])
    else:
        parquet_file(tmp_path, **columns)
    expected = [("a b", "p", "a b")] * len(steering) + [("ab", "p", "ab")] * len(unseen)
    assert facts_of(parse(tmp_path / name)) == expected


def test_an_archive_is_read_in_blocks_and_quotes_in_a_cell_are_text(tmp_path: Path) -> None:
    count = 700_000  # over two blocks
    rows = "".join(f'Entity {number},part of,"Thing, {number % 9}"\n' for number in range(count))
    path = text_file(tmp_path, gzip.compress((HEADER + rows + 'Pipe,width,5" wide').encode(), 1), "table.csv.gz")
    blocks = list(parse_table(Source(path), table_form(Source(path), DEFAULT_SELECTION)))
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
    (note,) = table_form(Source(path), DEFAULT_SELECTION).notes
    assert note.startswith("column extra is ignored")
    parsed = parse(path)
    assert facts_of(parsed) == [(subject, "p", text) for subject, text in zip("abc", written, strict=True) if text]
    assert parsed.dropped.total() == written.count("")


def test_bytes_that_are_no_text_are_malformed(tmp_path: Path) -> None:
    parsed = parse(parquet_file(tmp_path, subject=["a", "b", "c"], predicate=["p"] * 3, object=[b"x", b"\xff", b"z"]))
    assert facts_of(parsed) == [("a", "p", "x"), ("c", "p", "z")]
    assert parsed.faults == [(2, "not UTF-8, perhaps Latin-1: write the column as text in UTF-8: b p ÿ")]


def invalid(type_: pa.DataType) -> pa.Array:
    """Return a column of text whose second cell is not UTF-8, as Parquet files may have it."""
    cells = pa.array([b"x", b"caf\xe9", b"z"], pa.large_binary() if type_ == pa.large_string() else pa.binary())
    return pa.Array.from_buffers(type_, 3, cells.buffers())


@pytest.mark.parametrize(
    "column",
    [
        invalid(pa.string()),
        invalid(pa.large_string()),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int32()), invalid(pa.string())),
        pa.array([b"x", b"caf\xe9", b"z"]).dictionary_encode(),
        pa.array([b"x", b"caf\xe9", b"z"], pa.binary_view()),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["subject", "object"])
def test_text_of_parquet_that_is_not_utf8_is_malformed(tmp_path: Path, name: str, column: pa.Array) -> None:
    parsed = parse(
        parquet_file(
            tmp_path, **{"subject": ["a", "b", "c"], "predicate": ["p"] * 3, "object": ["d"] * 3} | {name: column}
        )
    )
    assert [fact[0 if name == "subject" else 2] for fact in facts_of(parsed)] == ["x", "z"]
    assert [(row, what.partition(",")[0]) for row, what in parsed.faults] == [(2, "not UTF-8")]


@pytest.mark.parametrize(
    ("column", "written"),
    [
        (pa.array(["a"], pa.string_view()), "a"),
        (pa.array([Decimal("-1.50")], pa.decimal256(60, 5)), "-1.5"),
        (pa.array([datetime.date(2020, 1, 2)], pa.date64()), "2020-01-02"),
        (pa.array([1]).dictionary_encode(), "1"),
        (
            pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)], pa.binary(16))),
            "-".join("0" * n for n in (8, 4, 4, 4, 12)),
        ),
        (pa.ExtensionArray.from_storage(pa.json_(), pa.array(["[1]"])), "[1]"),
    ],
)
def test_rare_types_of_parquet_are_read(tmp_path: Path, column: pa.Array, written: str) -> None:
    assert facts_of(parse(parquet_file(tmp_path, subject=["a"], predicate=["p"], object=column))) == [
        ("a", "p", written)
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "head\trelation\ttail\na\tb\tc\n",
            "give --no-header if this line is a fact, else --columns 1,2,3, or --subject head",
        ),
        (HEADER.encode() + b"M\xfcller,lives in,K\xf6ln\n", "table.csv:2: not UTF-8, perhaps Latin-1"),
        (
            "Ann,likes,Bob\n",
            "has no column subject, predicate, object: its columns are Ann, likes, Bob: give --no-header",
        ),
        ("subject,object\nAnn,Bob\n", "has no column predicate: its columns are subject, object"),
        ("subject,subject,predicate,object\n", "has column subject twice"),
        (HEADER, "has no complete row after its header"),
        (HEADER + "Ann,likes\n", "has no complete row after its header"),
        (HEADER + 'Ann,likes,Bob\nAnn,likes,"Cy\n' + "Bob,likes,Ann\n" * 9, "row 3 of"),
        ("", "is empty"),
        (HEADER.encode("utf-16"), "is UTF-16: give --encoding utf-16"),
        (gzip.compress((HEADER + "Ann,likes,Bob\n" * 999).encode(), mtime=0)[:-9], "is a truncated gzip file"),
        (b"PAR1 and no more", "is a truncated or corrupt Parquet file"),
        (
            "<http://x/s> <http://x/p> <http://x/o> .\n",
            "has no column subject, predicate, object: its columns are ‹http",
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
