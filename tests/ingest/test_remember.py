"""Single facts that are remembered, corrected, forgotten, and things that get another name."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from support.ingest.graph_twin import Line, written
from support.ingest.quiet import QUIET
from support.ingest.tiny import ingest_tiny
from support.shared_index import opened

from refactx.cli.index import index as index_commands
from refactx.cli.ingest import forget
from refactx.errors import InputError
from refactx.index.index import Index
from refactx.index.open import open_index
from refactx.index.verify import verify
from refactx.ingest import FactWriter, rename
from refactx.ingest.source_options import Selection

LABELS = {
    "Q1": "Norway", "Q2": "Oslo", "Q3": "Bergen", "Q4": "Sweden", "Q5": "Stockholm", "Q6": "city", "Q7": "Ann Lee",
    "P1": "capital", "P2": "instance of", "P3": "founded", "P4": "language", "Q8": "Norwegian", "Q9": "Sami",
}  # fmt: skip
GRAPH: list[Line] = [
    *(("label", id_, name, "en") for id_, name in LABELS.items()),
    ("claim", "Q1", "P1", "Q2"),
    ("claim", "Q4", "P1", "Q5"),
    *(("claim", f"Q{n}", "P2", "Q6") for n in (2, 3, 5)),
    ("claim", "Q1", "P4", "Q8"),
    ("claim", "Q4", "P4", "Q8"),
    ("claim", "Q4", "P4", "Q9"),
    ("claim", "Q7", "P4", "Q8"),
]


@pytest.fixture
def kb(db_url: str, tmp_path: Path) -> str:
    """The address of a database with the index `kb`, in which `city` is a hub, and `mine`, which has one fact."""
    (tmp_path / "kb.nt").write_text("".join(f"{written(one)}\n" for one in GRAPH))
    ingest_tiny(db_url, tmp_path / "kb.nt", "kb", selection=Selection(inverse=True, inverse_limit=2))
    (tmp_path / "mine.txt").write_text("<my notes> <begun> <2026-11-29> .\n")
    ingest_tiny(db_url, tmp_path / "mine.txt", "mine")
    return db_url


@contextmanager
def writing(url: str, folder: Path, index: str = "kb", writable: str = "") -> Iterator[tuple[FactWriter, Index]]:
    with open_index(index, url) as reader, opened(url) as database:
        yield FactWriter(reader, database, writable or index, folder / "work"), reader


def facts(index: Index) -> set[str]:
    return {fact.text for fact in index.all_facts()}


def check(url: str, name: str) -> None:
    """Check that an index opened now is whole."""
    with open_index(name, url) as index:
        assert verify(index).sound


def test_a_fact_is_in_the_next_answer_with_its_inverse_and_by_the_names_of_the_index(kb: str, tmp_path: Path) -> None:
    with writing(kb, tmp_path) as (writer, index):
        before = facts(index)
        done = writer.remember("<ann lee> <Language> <Sami>", also=True)
        assert done.added == ("<Ann Lee> <language> <Sami> .", "<Sami> <language of> <Ann Lee> .")
        assert facts(index) == before | set(done.added)
        assert index.links_of(index.all_facts())
        again = writer.remember("<Ann Lee> <language> <Sami> .")
        assert not again.is_written and again.notes == ("the index has it already",)
        gone = writer.forget("<Sami> <language of> <Ann Lee> .")
        assert sorted(gone.removed) == sorted(done.added)
        assert facts(index) == before
    check(kb, "kb")


def test_a_name_that_is_not_there_is_made_only_if_it_is_said(kb: str, tmp_path: Path) -> None:
    with writing(kb, tmp_path) as (writer, index):
        before = facts(index)
        for fact, said in (
            ("<Trondheim> <instance of> <city> .", "there is no thing 'Trondheim'"),
            ("<Oslo> <mayor> <Ann Lee> .", "there is no predicate 'mayor'"),
            ("<Norway> <language> <Kven> .", "there is no thing 'Kven'"),
            ("<Norway> <founded> <long ago> .", "is no fact|there is no|are time"),
            ("<Norway> <capital>", "is no fact"),
        ):
            with pytest.raises(InputError, match=said):
                writer.remember(fact)
        with pytest.raises(InputError, match="<Kven> is said to be new"):
            writer.remember("<Norway> <language> <Sami> .", new=["Kven"])
        assert facts(index) == before
        assert writer.remember("<Oslo> <mayor> <Bo> .", new=["mayor", "Bo"]).added == ("<Oslo> <mayor> <Bo> .",)
        assert "<Oslo> <mayor> <Bo> ." in index
    check(kb, "kb")


def test_a_fact_that_contradicts_another_is_shown_first(kb: str, tmp_path: Path) -> None:
    with writing(kb, tmp_path) as (writer, _):
        shown = writer.remember("<Norway> <capital> <Bergen> .")
        assert shown.contradicts == ("<Norway> <capital> <Oslo> .",) and not shown.is_written
        assert writer.remember("<Bergen> <capital of> <Norway> .").contradicts == shown.contradicts
        assert writer.remember("<Norway> <language> <Sami> .").is_written, "others have several"
        done = writer.correct("<Norway> <capital> <Oslo> .", "<Norway> <capital> <Bergen> .")
        assert sorted(done.added) == ["<Bergen> <capital of> <Norway> .", "<Norway> <capital> <Bergen> ."]
        assert sorted(done.removed) == ["<Norway> <capital> <Oslo> .", "<Oslo> <capital of> <Norway> ."]
        assert writer.remember("<Norway> <capital> <Oslo> .", also=True).is_written
        with pytest.raises(InputError, match="there is no fact <Norway> <capital> <Stockholm>"):
            writer.forget("<Norway> <capital> <Stockholm> .")
    check(kb, "kb")


def test_hubs_are_counted(kb: str, tmp_path: Path) -> None:
    with writing(kb, tmp_path) as (writer, index):
        assert index.hubs(["city"]) == {"city": {"has instance": 3}}
        assert writer.remember("<Trondheim> <instance of> <city> .", new=["Trondheim"]).added == (
            "<Trondheim> <instance of> <city> .",
        )
        assert index.hubs(["city"]) == {"city": {"has instance": 4}}
        writer.forget("<Oslo> <instance of> <city> .")
        writer.forget("<Trondheim> <instance of> <city> .")
        assert index.hubs(["city"]) == {"city": {"has instance": 2}}


def test_what_is_remembered_in_one_of_two_indexes_has_the_ids_of_the_other(kb: str, tmp_path: Path) -> None:
    with writing(kb, tmp_path, "kb,mine", "mine") as (writer, index):
        done = writer.remember("<Norway> <language> <Sami> .")
        assert index.origins(done.fact) == ["mine"] and index.origins("<Norway> <capital> <Oslo> .") == ["kb"]
        with pytest.raises(InputError, match="is a fact of index kb, and this writes 'mine' alone"):
            writer.forget("<Norway> <capital> <Oslo> .")
        assert writer.remember("<Norway> <language> <Norwegian> .").is_written, "mine did not have it"
        assert index.origins("<Norway> <language> <Norwegian> .") == ["kb", "mine"]
        assert len([fact for fact in index.all_facts() if fact.text == "<Norway> <language> <Norwegian> ."]) == 1
        with open_index("mine", kb) as mine:
            names = ["Norway", "language", "language of"]
            assert mine.ids_of(names) == index.ids_of(names)
            assert facts(mine) == {
                "<my notes> <begun> <2026-11-29> .",
                "<Norway> <language> <Sami> .",
                "<Sami> <language of> <Norway> .",
                "<Norway> <language> <Norwegian> .",
                "<Norwegian> <language of> <Norway> .",
            }
    check(kb, "mine")


def test_many_changes_leave_few_segments_and_name_tables(kb: str, tmp_path: Path) -> None:
    with writing(kb, tmp_path, "kb,mine", "mine") as (writer, _):
        names = [f"note {number}" for number in range(40)]
        for number, name in enumerate(names):
            writer.remember(f"<{name}> <language> <{'Sami' if number % 2 else 'Norwegian'}> .", new=[name], also=True)
        writer.forget("<note 3> <language> <Sami> .")
        with open_index("mine", kb) as mine:
            assert len(mine.segments) < 12 and len(mine.name_tables) < 9
            assert sum("<note " in fact for fact in facts(mine)) == 78
    check(kb, "mine")


def test_a_new_name_goes_through_all_facts_and_keeps_its_id(kb: str, tmp_path: Path) -> None:
    with open_index("kb", kb) as index, opened(kb) as database:
        before = {fact.replace("<Oslo>", "<Christiania>") for fact in facts(index)}
        given = {"index": "kb", "work": tmp_path / "work", "resources": QUIET}
        done = rename("Q2", "Christiania", database, **given)
        index.refresh()
        assert facts(index) == before and done.facts == 3
        assert index.ids_of(["Christiania", "Oslo"]) == {"Christiania": index.ids_of(["Christiania"])["Christiania"]}
        assert index.names_of(["Q2"]) == {"Q2": "Christiania"}
        with pytest.raises(InputError, match="has a thing called 'Bergen' already"):
            rename("Christiania", "Bergen", database, **given)
        with pytest.raises(InputError, match="has no thing with the name or id 'Oslo'"):
            rename("Oslo", "Bergen", database, **given)
    check(kb, "kb")


def test_a_hub_keeps_its_count_under_its_new_name(kb: str, tmp_path: Path) -> None:
    with writing(kb, tmp_path) as (writer, index), opened(kb) as database:
        rename("city", "town", database, index="kb", work=tmp_path / "work", resources=QUIET)
        index.refresh()
        assert index.hubs(["city", "town"]) == {"town": {"has instance": 3}}
        writer.remember("<Trondheim> <instance of> <town> .", new=["Trondheim"])
        assert index.hubs(["town"]) == {"town": {"has instance": 4}}


def test_an_amount_is_remembered_in_a_unit_of_the_index(db_url: str, tmp_path: Path) -> None:
    labels = {"Q1": "square kilometre", "Q2": "Oslo", "P1": "area"}
    values: list[dict[str, Any]] = [
        {"type": "property" if id_ == "P1" else "item", "id": id_, "labels": {"en": {"language": "en", "value": name}}}
        for id_, name in labels.items()
    ]
    amount = {"amount": "+454", "unit": "http://www.wikidata.org/entity/Q1"}
    snak = {"snaktype": "value", "property": "P1", "datavalue": {"type": "quantity", "value": amount}}
    values[1]["claims"] = {"P1": [{"id": "Q2$1", "type": "statement", "rank": "normal", "mainsnak": snak}]}
    (tmp_path / "kb.json").write_text("".join(f"{json.dumps(one)}\n" for one in values))
    ingest_tiny(db_url, tmp_path / "kb.json", "kb")
    with writing(db_url, tmp_path) as (writer, index):
        writer.correct("<Oslo> <area> <454 square kilometre> .", "<Oslo> <area> <480.5 square kilometre> .")
        assert facts(index) == {"<Oslo> <area> <480.5 square kilometre> ."}
        for value in ("480 furlongs", "large"):
            with pytest.raises(InputError, match=r"are quantity, .* is none: give a number"):
                writer.remember(f"<Oslo> <area> <{value}> .", also=True)


def test_a_command_changes_one_of_several_indexes(kb: str, tmp_path: Path) -> None:
    def run(command: click.Command, *arguments: str) -> Result:
        return CliRunner().invoke(command, [*arguments, "--db", kb])

    given = ("--fact", "<my notes> <begun> <2026-11-29>", "--index", "kb,mine")
    assert "give --writable with the one of these" in str(run(forget, *given).exception)
    gone = run(forget, *given, "--writable", "mine")
    assert gone.output == "- <my notes> <begun> <2026-11-29> .\n"
    with open_index("mine", kb) as index:
        assert not len(index)
    assert "--writable was given without --fact" in str(
        run(forget, "--subject", "Oslo", "--writable", "mine").exception
    )
    assert "show them one by one" in str(run(index_commands, "show", "kb,mine").exception)
