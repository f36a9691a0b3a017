"""Results in the formats of the W3C, read by pyoxigraph, and the same as it writes."""

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode, QueryResultsFormat, Store, parse_query_results

from refactx.sparql.engines import Rows, Term
from refactx.sparql.results import Format, written

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
TERMS: st.SearchStrategy[Term | None] = st.one_of(
    st.none(),
    st.sampled_from(["http://a", "http://www.wikidata.org/entity/Q1", "urn:refactx:Danny%20Boyle"]).map(NamedNode),
    st.sampled_from(["b0", "x1"]).map(BlankNode),
    TEXTS.map(Literal),
    st.builds(lambda text, tag: Literal(text, language=tag), TEXTS, st.sampled_from(["en", "de-at"])),
    st.sampled_from(["1.50", "-7", "x"]).map(
        lambda text: Literal(text, datatype=NamedNode("http://www.w3.org/2001/XMLSchema#decimal"))
    ),
)
ROWS = st.integers(1, 3).flatmap(lambda size: st.lists(st.tuples(*[TERMS] * size), max_size=6))


def rows_of(rows: list[tuple[Term | None, ...]]) -> Rows:
    return Rows(("x", "y", "z")[: len(rows[0]) if rows else 1], rows)


@given(ROWS)
@pytest.mark.parametrize(
    ("form", "native"), [("json", QueryResultsFormat.JSON), ("tsv", QueryResultsFormat.TSV)], ids=["json", "tsv"]
)
def test_pyoxigraph_reads_the_rows(
    form: Format, native: QueryResultsFormat, rows: list[tuple[Term | None, ...]]
) -> None:
    result = rows_of(rows)
    text = "".join(written(result, form))
    if form == "json":
        assert json.loads(text)["head"]["vars"] == list(result.variables)
    read = parse_query_results(text.encode(), format=native)
    assert [variable.value for variable in read.variables] == list(result.variables)  # type: ignore[union-attr]
    assert [tuple(row) for row in read] == rows  # type: ignore[union-attr, arg-type]


@given(ROWS)
def test_csv_has_the_values(rows: list[tuple[Term | None, ...]]) -> None:
    result = rows_of(rows)
    read = list(csv.reader(io.StringIO("".join(written(result, "csv")), newline="")))
    assert read[0] == list(result.variables)
    values = [["" if t is None else str(t) if isinstance(t, BlankNode) else t.value for t in row] for row in rows]  # type: ignore[union-attr]
    assert [[unguarded(cell) for cell in row] or [""] for row in read[1:]] == values


def unguarded(cell: str) -> str:
    """The text of a cell that no spreadsheet takes for a formula."""
    begins = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
    if cell.startswith(begins):
        assert cell.removeprefix("-").removeprefix("+") == "INF" or isinstance(float(cell), float)
    return cell[1:] if cell[:1] == "'" and cell[1:].startswith(begins) else cell


def test_the_text_is_that_of_pyoxigraph() -> None:
    query = 'SELECT * { VALUES (?x ?y) { (<http://a> "b, c"@en) (1.5 UNDEF) ("a\\nb\\t" true) } }'
    found = Store().query(query)
    rows = Rows(("x", "y"), [tuple(row) for row in found])  # type: ignore[union-attr, arg-type]
    for form, native in (("csv", QueryResultsFormat.CSV), ("tsv", QueryResultsFormat.TSV)):
        text = Store().query(query).serialize(format=native)  # type: ignore[union-attr]
        if form == "csv":
            assert "".join(written(rows, "csv")).encode() == text
    text = Store().query(query).serialize(format=QueryResultsFormat.JSON)  # type: ignore[union-attr]
    assert json.loads("".join(written(rows, "json"))) == json.loads(text or b"")


@pytest.mark.parametrize(
    ("form", "text"), [("csv", "true\r\n"), ("tsv", "true\n"), ("json", '{"head": {}, "boolean": true}\n')]
)
def test_a_truth(form: Format, text: str) -> None:
    assert "".join(written(True, form)) == text
