"""English Wikipedia's dumps: MySQL statements → titles and short descriptions, and an account of every row."""

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.ingest.dump_generator import write_dumps
from support.ingest.dump_world import World, truth
from support.ingest.enwiki_dump import page_props_sql, page_sql, quote
from support.ingest.truthy_dump import truthy_lines

from refactx.entity_ids import entity_id
from refactx.errors import InputError
from refactx.fact import clean_part
from refactx.ingest.parsers.parsed import SHORT_DESCRIPTION, TITLE, Parsed
from refactx.ingest.parsers.wikipedia import parse_page, parse_page_props, read_rows
from refactx.ingest.source_options import Selection
from refactx.ingest.sources import Source
from refactx.ingest.work import Resources, WorkDatabase, open_work_database

PROPS = {"pp_page": pa.int64(), "pp_propname": pa.large_string(), "pp_value": pa.large_string()}
CREATE = b"""CREATE TABLE `page_props` (
  `pp_page` int,
  `pp_propname` varbinary(60),
  `pp_value` blob,
  PRIMARY KEY (`pp_page`)
);
"""
ENGLISH = Selection()
INSERT = b"INSERT INTO `page_props` VALUES "


def parse_enwiki(page: Path, page_props: Path, work: WorkDatabase, selection: Selection) -> Iterator[Parsed]:
    yield from parse_page(Source(page), work)
    yield from parse_page_props(Source(page_props), work, selection)


def parse(page: Path, page_props: Path, selection: Selection = ENGLISH) -> Parsed:
    """Return the outcome of the two files as one; check the account."""
    whole = Parsed(lines=0, tables={"terms": pa.table({"entity": [], "kind": [], "text": []})})
    terms = []
    with TemporaryDirectory() as folder, open_work_database(Path(folder), Resources()) as work:
        for parsed in parse_enwiki(page, page_props, work, selection):
            whole.lines += parsed.lines
            whole.statements += parsed.statements
            whole.dropped += parsed.dropped
            whole.faults += parsed.faults
            terms += [parsed.tables["terms"]] if "terms" in parsed.tables else []
    if terms:
        whole.tables["terms"] = pa.concat_tables(terms)
    assert whole.lines == sum(whole.dropped.values()) + len(whole.faults) + len(whole.tables["terms"])
    assert whole.statements == whole.lines - len(whole.faults)
    return whole


def terms_of(parsed: Parsed, kind: int) -> dict[str, str]:
    rows = parsed.tables["terms"].to_pylist()
    found = [(entity_id(row["entity"]), row["text"]) for row in rows if row["kind"] == kind]
    assert len(found) == len(dict(found))
    return dict(found)


def clean_all(texts: dict[str, str]) -> dict[str, str]:
    return {entity: clean_part(text) for entity, text in texts.items()}


def write(path: Path, pieces: Iterable[bytes]) -> Path:
    path.write_bytes(b"".join(pieces))
    return path


def number_of(entity: str) -> int:
    return int(entity[1:])


def props(path: Path, content: bytes) -> tuple[list[tuple[object, ...]], list[tuple[int, str]], int]:
    """Return the rows of a page_props dump as tuples, the faults, and the number of rows."""
    blocks = list(read_rows(Source(write(path, [content])), "page_props", PROPS))
    rows = [tuple(row.values()) for block in blocks for row in block.table.to_pylist()]
    return rows, [fault for block in blocks for fault in block.faults], sum(block.count for block in blocks)


@pytest.mark.parametrize("row_lines", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_titles_and_short_descriptions_are_those_of_the_world(tmp_path: Path, seed: int, row_lines: bool) -> None:
    world = World(seed, 300)
    page = write(tmp_path / "page.sql", page_sql(world, row_lines=row_lines))
    parsed = parse(page, write(tmp_path / "page_props.sql", page_props_sql(world, row_lines=row_lines)))
    expected = truth(world)
    assert terms_of(parsed, TITLE) == clean_all(expected.titles)
    assert terms_of(parsed, SHORT_DESCRIPTION) == clean_all(expected.short_descriptions)
    assert not parsed.faults
    redirects = sum(number_of(item) % 4 == 0 for item in expected.titles)
    assert parsed.dropped == {
        "redirect": redirects,
        "other namespace": len(expected.titles) + 300 // 7,
        "other page property": len(expected.titles) + 300 // 7,
        "Wikidata item": len(expected.titles),
        "not an article": redirects + 300 // 7,
        "no Wikidata item": 300 // 11 * 2,
    }


@pytest.mark.parametrize(
    ("languages", "titles", "short_descriptions"),
    [(("mul", "en-gb"), True, False), (("de", "en"), False, True), (("de",), False, False)],
)
def test_titles_are_for_names_in_english_and_short_descriptions_for_facts_in_it(
    tmp_path: Path, languages: tuple[str, ...], titles: bool, short_descriptions: bool
) -> None:
    world = World(1, 60)
    page, page_props = (
        write(tmp_path / f"{name}.sql", rows(world)) for name, rows in (("page", page_sql), ("props", page_props_sql))
    )
    parsed, expected = parse(page, page_props, Selection(languages=languages)), truth(world)
    assert bool(terms_of(parsed, TITLE)) == titles
    assert bool(terms_of(parsed, SHORT_DESCRIPTION)) == short_descriptions
    assert parsed.dropped["other wiki"] == (0 if titles else len(expected.titles))
    assert parsed.dropped["other language"] == (0 if short_descriptions else len(expected.short_descriptions))


def test_many_statements_of_a_megabyte_are_read(tmp_path: Path) -> None:
    rows = [b"(%d,'defaultsort',%b,NULL)" % (page, quote(f"{page} O'Brien),(\\ " + "x" * 500)) for page in range(8000)]
    text = CREATE.replace(b"  PRIMARY", b"  `pp_sortkey` float,\n  PRIMARY")
    text += b"".join(INSERT + b",".join(rows[at : at + 2000]) + b";\n" for at in range(0, 8000, 2000))
    found, faults, count = props(tmp_path / "props.sql", text)
    assert found == [(page, "defaultsort", f"{page} O'Brien),(\\ " + "x" * 500) for page in range(8000)]
    assert (faults, count) == ([], 8000)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("'\\\"),(\n\r\0\x1a_ N"), max_size=12))
)
def test_any_text_comes_back_as_it_was(tmp_path: Path, texts: list[str]) -> None:
    rows = b",".join(b"(%d,'p',%b)" % (page, quote(text)) for page, text in enumerate(["NULL", *texts]))
    found, faults, _ = props(tmp_path / "props.sql", CREATE + INSERT + rows + b",(-1,'p',NULL);\n")
    assert found == [(page, "p", text) for page, text in enumerate(["NULL", *texts])] + [(-1, "p", None)]
    assert not faults


def test_one_row_that_cannot_be_read_costs_no_other(tmp_path: Path) -> None:
    good = [b"(1,'p','it\\'s),(')", b"(2,'p',_binary 'a\\\\')", b"(3,'p','')"]
    bad = [b"(4,'p')", b"(x,'p','v')", b"(5,'p','caf\xe9')", b"(6,'p','open)", b"(7,'p','v','w')", b"nonsense"]
    rows = [bad[0], good[0], bad[1], bad[2], good[1], bad[3], good[2], bad[4], bad[5]]
    found, faults, count = props(
        tmp_path / "props.sql", CREATE + INSERT + b",".join(rows) + b";\n" + INSERT + b"(9,'p','z');\n"
    )
    assert found == [(1, "p", "it's),("), (2, "p", "a\\"), (3, "p", ""), (9, "p", "z")]
    assert {line for line, _ in faults} == {7}
    assert count == len(found) + len(faults)
    assert [what for _, what in faults][:3] == [
        "2 values instead of 3: (4,'p')",
        "'x' is not a number: (x,'p','v')",
        "not UTF-8: (5,'p','caf\ufffd')",
    ]


def test_the_order_of_columns_is_that_of_the_file(tmp_path: Path) -> None:
    create = b"CREATE TABLE `page_props` (\n  `pp_value` blob,\n  `pp_page` int,\n  `pp_propname` blob\n);\n"
    found, _, _ = props(tmp_path / "a.sql", create + INSERT + b"('v',1,'p');\n")
    insert = b"INSERT INTO `page_props` (`pp_propname`, `pp_page`, `pp_value`) VALUES\n('q',2,'w');\n"
    again, _, _ = props(tmp_path / "b.sql", create + insert)
    assert (found, again) == ([(1, "p", "v")], [(2, "q", "w")])


def test_rows_of_other_tables_are_passed_over(tmp_path: Path) -> None:
    other = b"CREATE TABLE `page` (\n  `page_id` int\n);\n"
    other += b"LOCK TABLES `page` WRITE;\nINSERT INTO `page` VALUES (1);\nUNLOCK TABLES;\n"
    assert props(tmp_path / "all.sql", other + CREATE + INSERT + b"(1,'p','v');\n" + other) == ([(1, "p", "v")], [], 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            page_sql(World(1, 20)),
            "is not a MySQL dump of table page_props: found a dump of table page: check which file",
        ),
        (
            (line.encode() for line in truthy_lines(World(1, 1))),
            "page_props: it has no CREATE TABLE, and begins with: <http",
        ),
        ([CREATE], "has table page_props, but no rows in it"),
        (
            [INSERT, b"(1,'p','v');\n"],
            "has no column pp_page, pp_propname, pp_value: found no CREATE TABLE before the rows",
        ),
        (
            [CREATE.replace(b"pp_value", b"pp_blob"), INSERT, b"(1,'p','v');\n"],
            "has no column pp_value: found pp_page, pp_pr",
        ),
        ([CREATE, INSERT, b"(1,'p','v'),(2,'p',"], "is truncated: it ends at line 7 within table page_props"),
        ([CREATE, b"LOCK TABLES `page_props` WRITE;\n", INSERT, b"(1,'p','v');\n"], "is truncated: it ends at line 8"),
    ],
)
def test_a_wrong_or_broken_dump_is_an_error_that_says_so(
    tmp_path: Path, content: Iterator[bytes], message: str
) -> None:
    path = write(tmp_path / "props.sql", content)
    with pytest.raises(InputError) as error:
        list(read_rows(Source(path), "page_props", PROPS))
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_a_truncated_archive_is_an_error(tmp_path: Path) -> None:
    world = World(1, 200)
    _, page, page_props = write_dumps(world, tmp_path)
    page_props.write_bytes(page_props.read_bytes()[:-500])
    with pytest.raises(InputError, match=r"page_props.*truncated gzip"):
        parse(page, page_props)


def test_swapped_options_are_an_error(tmp_path: Path) -> None:
    _, page, page_props = write_dumps(World(1, 20), tmp_path)
    with pytest.raises(InputError, match="dump of table page: found a dump of table page_props"):
        parse(page_props, page)


def test_a_page_whose_item_is_no_item_is_counted_as_malformed(tmp_path: Path) -> None:
    world = World(1, 30)
    page = write(tmp_path / "page.sql", page_sql(world))
    text = b"".join(page_props_sql(world)).replace(b"'wikibase_item','Q", b"'wikibase_item','X", 1)
    parsed = parse(page, write(tmp_path / "page_props.sql", [text]))
    first = min(map(number_of, truth(world).titles))
    assert parsed.faults == [(35, f"no Wikidata item, on this line or after it: page {first * 10}: X{first}")]
    assert len(terms_of(parsed, TITLE)) == len(truth(world).titles) - 1


def test_values_that_are_not_text_are_no_fault_of_other_properties(tmp_path: Path) -> None:
    world = World(1, 30)
    page = write(tmp_path / "page.sql", page_sql(world))
    blob = bytes(byte for byte in range(256) if byte not in b"\0\n\r\x1a\\'\"") + b"\\0\\n\\r\\Z\\\\\\'\\\""
    start = b"VALUES (999,'templatedata','%b',NULL),(998,'wikibase-shortdesc','caf\xe9',NULL)," % blob
    text = b"".join(page_props_sql(world)).replace(b"VALUES ", start, 1)
    parsed = parse(page, write(tmp_path / "page_props.sql", [text]))
    assert [what for _, what in parsed.faults] == [
        "no UTF-8 in a short description, on this line or after it: page 998: caf\ufffd"
    ]
    assert terms_of(parsed, SHORT_DESCRIPTION) == clean_all(truth(world).short_descriptions)
    types = {**PROPS, "pp_value": pa.large_binary()}
    value = next(read_rows(Source(tmp_path / "page_props.sql"), "page_props", types)).table["pp_value"][0].as_py()
    assert sorted(value) == list(range(256))


def test_generated_files_depend_on_the_seed_alone(tmp_path: Path) -> None:
    def contents(seed: int) -> list[bytes]:
        return [gzip.decompress(path.read_bytes()) for path in write_dumps(World(seed, 40), tmp_path)]

    assert contents(3) == contents(3)
    assert contents(3) != contents(4)
