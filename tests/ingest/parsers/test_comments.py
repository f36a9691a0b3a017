"""Lines of a table that begin with what `--comment` says are left out and counted, those within a cell are not."""

import csv
import io
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refactx.errors import InputError
from refactx.ingest.parsers.columns import parse_table, table_form
from refactx.ingest.parsers.tables import Comments
from refactx.ingest.source_options import Selection, TableOptions
from refactx.ingest.sources import Source

CELLS = st.text('ab#,;"\n ', max_size=6)
ROWS = st.lists(st.tuples(st.sampled_from("xy"), CELLS, CELLS), max_size=8)


def read(path: Path, **options: str) -> tuple[list[tuple[str, ...]], dict[str, int]]:
    """The facts of a table, and what was dropped."""
    selection = Selection(tables=TableOptions(**options))
    found, dropped = [], dict[str, int]()
    for parsed in parse_table(Source(path), table_form(Source(path), selection)):
        found += [tuple(row.values()) for table in parsed.tables.values() for row in table.to_pylist()]
        for reason, count in parsed.dropped.items():
            dropped[reason] = dropped.get(reason, 0) + count
    return found, dropped


def test_they_may_be_before_the_header_and_between_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        '# made on Monday, "by hand\n\n#\nsubject,predicate,object\nAnn,likes,"tea\n# no comment"\n# end\nBo,likes,#1\n'
    )
    assert read(path, comment="#") == ([("Ann", "likes", "tea # no comment"), ("Bo", "likes", "#1")], {"comment": 3})
    path.write_text("//x\nsubject;predicate;object\n//y\na;b;c\n")
    assert read(path, comment="//") == ([("a", "b", "c")], {"comment": 2})


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=ROWS, cuts=st.lists(st.integers(0, 200), max_size=3), data=st.data())
def test_what_is_left_is_the_table_without_them(
    rows: list[tuple[str, str, str]], cuts: list[int], data: st.DataObject
) -> None:
    text, plain = "", ""
    count = 0
    for row in rows:
        for _ in range(data.draw(st.integers(0, 2))):
            text += data.draw(st.sampled_from(["#\n", "# a\n", '#"\n', '#,"x\n']))
            count += 1
        line = io.StringIO()
        csv.writer(
            line, lineterminator="\n", quoting=data.draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
        ).writerow(row)
        text, plain = text + line.getvalue(), plain + line.getvalue()
    lines = text.encode().splitlines(keepends=True)
    places = sorted({0, *(cut for cut in cuts if cut < len(lines)), len(lines)})
    comments = Comments("#", ",")
    left = b"".join(comments.remove(b"".join(lines[low:high])) for low, high in pairwise(places))
    assert (left.decode(), comments.count) == (plain, count)


@pytest.mark.parametrize("comment", ["", " ", '"', "#\n"])
def test_a_text_that_begins_no_line_is_refused(comment: str) -> None:
    with pytest.raises(InputError, match="cannot begin a line"):
        TableOptions(comment=comment)
