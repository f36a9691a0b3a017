"""An index that a cluster builds is that of one machine: rows, names, hubs and account."""

import bz2
import gzip
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.channel_runs import joining_tokenizer
from support.ingest.quiet import QUIET
from support.ingest.statement_world import Amount, Moment, Snak, Statement, json_lines, rdf_lines
from support.ingest.whole_index import whole_index
from support.tiny_model import tiny_fact_tokenizer

from refactx.entity_ids import entity_id, entity_number, is_property
from refactx.errors import IndexExistsError, InputError, RefactxError
from refactx.fact import cut_part
from refactx.ingest import Selection, ingest
from refactx.ingest.cluster import build_index, new_index, reading
from refactx.ingest.cluster.session import expand, versions_here
from refactx.ingest.segment.cutting import Shape
from refactx.postgres.catalogue import list_indexes
from refactx.postgres.database import Database
from refactx.tokenizer import FactTokenizer

pytestmark = pytest.mark.slow

SMALL = Shape(facts=16, inner=64, root=128)
BYTE_LEVEL = FactTokenizer.from_transformers(joining_tokenizer("byte level"))
READY = "".join(f"<Ann> <knows> <Bob {n % 40}> .\n<Bob {n}> <age> <{n}> .\n" for n in range(300))
Build = Callable[..., dict[str, Any]]


@pytest.fixture
def twins(spark: Any, db_url: str, tmp_path: Path, cluster_work: Path) -> Build:
    """Build an index on one machine and another on the cluster, and return both as `whole_index`."""

    def build(*sources: Path, tokenizer: FactTokenizer | None = None, **options: Any) -> list[dict[str, Any]]:
        shared = {
            "tokenizer": tokenizer or tiny_fact_tokenizer(),
            "tokenizer_name": "tiny",
            "work": tmp_path / "work",
            "resources": QUIET,
            **options,
        }
        database = Database(db_url)
        try:
            ingest(sources, database, index="one", **shared)
            names = [str(source) for source in sources]
            build_index(spark, names, database, index="many", cluster_work=str(cluster_work), **shared)
        finally:
            database.close()
        return [whole_index(db_url, name) for name in ("one", "many")]

    return build


def _statement(chance: random.Random, number: int) -> Statement:
    def value() -> Snak:
        day = Moment(
            chance.randint(1500, 2000), chance.randint(1, 12), chance.randint(1, 28), chance.randint(7, 11), False
        )
        return chance.choice((day, Amount(f"+{number}", "Q9"), Amount("+1", "Q8"), "Q3", "somevalue", "novalue"))

    pairs = {name: value() for name in chance.sample(("P580", "P582", "P642", "P99", "P459"), chance.randint(0, 4))}
    property_, rank = (
        chance.choice(("P10", "P11", "P50")),
        chance.choice(("deprecated", "normal", "normal", "preferred")),
    )
    sources = (("P854", f"https://e.example/{number % 50}"), ("P248", "Q3"), ("P143", "Q4"), ("P813", "Q2"))
    own = random.Random(number)
    references = tuple((own.choice(sources),) for _ in range(own.randint(0, 3)))
    return Statement(
        chance.choice(("Q1", "Q2", "Q5")), property_, value(), rank, tuple(pairs.items()), number, references
    )


def in_bzip2(source: Path, folder: Path) -> Path:
    """Write a file as bzip2 of several blocks, so that there is more than one split."""
    path = folder / "sample.nt.bz2"
    text = gzip.decompress(source.read_bytes())
    path.write_bytes(b"".join(bz2.compress(text[at : at + 300_000], 1) for at in range(0, len(text), 300_000)))
    return path


def test_the_sample_with_inverse_facts_from_bzip2_in_splits(twins: Build, sample: Path, tmp_path: Path) -> None:
    one, many = twins(in_bzip2(sample, tmp_path), selection=Selection(inverse=True, inverse_limit=20), shape=SMALL)
    assert many == one
    assert one["report"]["hubs"] > 0
    assert one["segments"][0][1] > 2


def test_a_selection_with_a_limit_and_names_of_inverses(twins: Build, sample: Path) -> None:
    selection = Selection(
        inverse=True,
        limit=60,
        properties=frozenset({"P31", "P22", "P57", "P569", "P106"}),
        inverse_names=(("P22", "child"), ("director", "has directed")),
        keep_external_ids=True,
        aliases=False,
    )
    one, many = twins(sample, selection=selection)
    assert many == one
    assert one["report"]["dropped"]["other property"] > 0
    assert one["report"]["dropped"]["beyond the limit"] > 0


def test_ready_made_facts_with_inverse_names_and_malformed_lines(twins: Build, tmp_path: Path) -> None:
    facts, more = tmp_path / "facts.txt", tmp_path / "more.txt"
    facts.write_text(READY + "nonsense\n")
    more.write_text("\n<Bob 1> <age> <1> .\n<Bob 1 <x> .\n<Zoe> <knows> <Ann> .\n")
    selection = Selection(inverse=True, inverse_names=(("knows", "known by"),), inverse_limit=7, limit=200)
    one, many = twins(facts, more, selection=selection, shape=SMALL)
    assert many == one
    assert len(one["report"]["malformed"]) == 2


def test_a_tokenizer_that_looks_across_spaces(twins: Build, tmp_path: Path) -> None:
    facts = tmp_path / "facts.txt"
    facts.write_text(READY)
    tokenizer = FactTokenizer.from_transformers(joining_tokenizer("sentence piece"))
    one, many = twins(facts, tokenizer=tokenizer, shape=SMALL)
    assert many == one


@pytest.mark.parametrize("name", ["entities.json.bz2", "all.nt.bz2"])
def test_statements_of_many_splits(twins: Build, tmp_path: Path, name: str) -> None:
    """Those of a file in several splits, with times, units, ranks and malformed lines."""
    chance = random.Random(6)
    statements = [_statement(chance, number) for number in range(300)]
    lines = json_lines(statements)[1:-1] if "json" in name else rdf_lines(statements)
    chance.shuffle(lines)
    lines.insert(3, '{"id": "Q1", "claims": {"P10": [{}' if "json" in name else "nonsense")
    texts = ["\n".join(lines[at : at + 40]) + "\n" for at in range(0, len(lines), 40)]
    (tmp_path / name).write_bytes(b"".join(bz2.compress(text.encode(), 1) for text in texts))
    one, many = twins(tmp_path / name, shape=SMALL, selection=Selection(inverse=True, references=True))
    assert many == one
    assert one["report"]["statements"] > 20
    assert one["report"]["notes"][-1] != "references are kept of 0 facts"
    assert len(one["report"]["malformed"]) == 1


def test_few_facts_in_one_piece(twins: Build, tmp_path: Path) -> None:
    facts = tmp_path / "facts.txt"
    facts.write_text("<Ann> <knows> <Bob> .\n<Ann> <age> <7> .\n")
    one, many = twins(facts)
    assert many == one


@pytest.fixture
def on_cluster(spark: Any, db_url: str, tmp_path: Path, cluster_work: Path) -> Callable[..., Any]:
    def run(*sources: object, **options: Any) -> Any:
        database = Database(db_url)
        shared = {"index": "many", "tokenizer": tiny_fact_tokenizer(), "tokenizer_name": "tiny", **options}
        try:
            return build_index(
                spark,
                [str(source) for source in sources],
                database,
                work=tmp_path / "work",
                cluster_work=str(cluster_work),
                resources=QUIET,
                **shared,
            )
        finally:
            database.close()

    return run


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    path = tmp_path / "facts.txt"
    path.write_text(READY)
    return path


def names_in(url: str) -> list[str]:
    database = Database(url)
    try:
        with database.connection() as connection:
            return [entry.name for entry in list_indexes(connection)]
    finally:
        database.close()


def test_an_ingest_continues_after_the_last_finished_stage(
    on_cluster: Callable[..., Any], facts: Path, db_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the driver stops here")

    with monkeypatch.context() as patched:
        patched.setattr(new_index, "cut_runs", fail)
        with pytest.raises(RuntimeError, match="stops here"):
            on_cluster(facts)
    assert names_in(db_url) == []
    with monkeypatch.context() as patched:  # what is finished is not done again
        patched.setattr(new_index, "read_lines", fail)
        patched.setattr(new_index, "join_tables", fail)
        patched.setattr(new_index, "encode_facts", fail)
        assert on_cluster(facts).report.facts == 340
    assert names_in(db_url) == ["many"]
    with pytest.raises(IndexExistsError):
        on_cluster(facts)
    facts.write_text(READY + "<Zoe> <knows> <Ann> .\n")  # other files are read anew
    assert on_cluster(facts, replace=True).report.facts == 341


def test_executors_with_other_versions_are_refused(
    on_cluster: Callable[..., Any], facts: Path, db_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tuple((package, "0.0") for package, _ in versions_here())
    monkeypatch.setattr(reading, "versions_here", lambda: old)
    with pytest.raises(RefactxError, match=r"^an executor has refactx \S+ and the driver 0\.0: install the same"):
        on_cluster(facts)
    assert names_in(db_url) == []


def test_sources_that_a_cluster_cannot_read_are_refused(on_cluster: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing.nt cannot be read by the cluster: .*give a path or URI"):
        on_cluster(tmp_path / "missing.nt")
    turtle = tmp_path / "facts.ttl"
    turtle.write_text("@prefix a: <http://a/> .\n")
    with pytest.raises(InputError, match=r"facts.ttl is Turtle, which a cluster does not read: give N-Triples"):
        on_cluster(turtle)
    twice = tmp_path / "facts.txt"
    twice.write_text(READY)
    with pytest.raises(InputError, match="is given more than once: name it once"):
        on_cluster(twice, twice)
    wrong = tmp_path / "wrong.nt"
    wrong.write_text("nonsense\n")
    with pytest.raises(InputError, match=r"wrong.nt is not N-Triples: line 1: .*expected lines such as"):
        on_cluster(wrong)


@pytest.mark.parametrize("id_", ["Q42", "P569"])
def test_macros_are_the_functions_of_python(spark: Any, id_: str) -> None:
    number = entity_number(id_)
    query = f"SELECT entity_number('{id_}'), entity_id(entity_number('{id_}')), is_property({number})"
    assert tuple(spark.sql(expand(query)).first()) == (number, entity_id(number), is_property(number))
    part = "long (text, with ' and a bracket"
    query = (
        "SELECT cut(part, 1000), cut(repeat(part, 40), 1000), starts_with(part, 'long ('), ends_with(part, '(') FROM p"
    )
    spark.createDataFrame([(part,)], "part STRING").createOrReplaceTempView("p")
    assert tuple(spark.sql(expand(query)).first()) == (part, cut_part(part * 40), True, False)
