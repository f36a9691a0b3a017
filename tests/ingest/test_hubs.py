"""The counts of hubs, of claims and of ready-made facts, through changes, copies, and in damaged files."""

from pathlib import Path

import psycopg
import pytest
from support.ingest.graph_twin import Line
from support.ingest.living_graph import graph
from support.ingest.living_index import LivingIndex
from support.share.forged_files import contents, forge, rows_of
from support.shared_index import opened

from refactx.errors import IndexNotFoundError, InputError
from refactx.ingest.source_options import Selection
from refactx.postgres.writing import drop
from refactx.share.export import export_index
from refactx.share.importing import import_index

EMPLOYS = Selection(inverse=True, inverse_limit=2, inverse_names=(("works_for", "employs"),))
LONG = "é" * 990
"""A B-tree of PostgreSQL does not take a name as long as this if it cannot be compressed."""


def hired(*names: str, company: str = "Acme") -> list[str]:
    return [f"{name} works_for {company}" for name in names]


@pytest.fixture
def living(db_url: str, tmp_path: Path) -> LivingIndex:
    """An index in which Acme is a hub and Bell is none."""
    made = LivingIndex(db_url, tmp_path)
    made.ingest(*hired("Ann", "Bob", "Cid"), *hired("Dan", company="Bell"), selection=EMPLOYS)
    return made


def hubs_of(living: LivingIndex, *objects: str) -> dict[str, dict[str, int]]:
    with living.open() as index:
        return index.hubs(objects or ("Acme", "Bell", "Acme", "Ann", "\0"))


@pytest.mark.long
def test_a_change_takes_the_hubs_as_they_are_and_counts_what_it_really_adds_and_forgets(living: LivingIndex) -> None:
    assert hubs_of(living) == {"Acme": {"employs": 3}}
    added = living.source([*hired("Ann", "Eve"), *hired("Fay", "Gus", "Hal", company="Bell")])
    assert living.append_from(added, selection=EMPLOYS).facts == 1 + 3 * 2
    assert hubs_of(living) == {"Acme": {"employs": 4}}
    with living.open() as index:
        assert dict(index.complete("<Acme> <")) == {}
        assert index.complete("<Bell> <") == [("<Bell> <employs>", 4)]
    living.append(*hired("Ivy"))
    assert hubs_of(living) == {"Acme": {"employs": 5}}, "without inverse facts too"
    living.forget(*hired("Ann", "Bob", "Cid", "Eve", "nobody"))
    living.compact()
    assert hubs_of(living) == {"Acme": {"employs": 1}}, "below the limit it is still a hub"
    living.forget(*hired("Ivy"))
    assert hubs_of(living) == {}
    living.append_from(living.source(hired("Ann", "Bob", "Cid")), selection=EMPLOYS)
    with living.open() as index:
        assert index.complete("<Acme> <") == [("<Acme> <employs>", 3)]


@pytest.mark.long
def test_a_copy_has_the_hubs_and_changes_its_own(living: LivingIndex) -> None:
    other, third = (LivingIndex(living.url, living.folder, name) for name in ("other", "third"))
    other.retokenise("default")
    with opened(living.url) as database:
        export_index(database, "other", living.folder / "file")
        import_index(database, living.folder / "file", "third")
    for number, copy in enumerate((living, other, third), 1):
        copy.append(*hired(*(f"new{n}" for n in range(number))))
        assert hubs_of(copy) == {"Acme": {"employs": 3 + number}}
    living.ingest(*hired("Ann"), selection=EMPLOYS, replace=True)
    assert hubs_of(living) == {}
    assert hubs_of(other) == {"Acme": {"employs": 5}}
    with psycopg.connect(living.url, autocommit=True) as connection:
        drop(connection, "third")
        assert connection.execute("SELECT count(*) FROM refactx.hubs").fetchone() == (1,)


def test_an_index_that_is_gone_has_no_hubs_to_show(living: LivingIndex) -> None:
    with living.open() as index:
        with psycopg.connect(living.url, autocommit=True) as connection:
            drop(connection, "default")
        with pytest.raises(IndexNotFoundError, match="open it again"):
            index.hubs(["Acme"])


def test_a_hub_may_have_a_name_of_any_length(living: LivingIndex) -> None:
    people: list[Line] = [("label", f"Q{n}", f"n{n}", "en") for n in range(1, 4)]
    hub: list[Line] = [("label", "Q9", LONG, "en"), ("label", "P40", "p" * 990, "en")]
    claims: list[Line] = [("claim", f"Q{n}", "P40", "Q9") for n in range(1, 4)]
    living.ingest_from(graph(living, "all.nt", [*people, *hub, *claims]), selection=EMPLOYS, replace=True)
    ((_, count),) = hubs_of(living, LONG)[LONG].items()
    assert count == 3


def test_a_file_with_impossible_hubs_is_refused(living: LivingIndex, tmp_path: Path) -> None:
    with opened(living.url) as database:
        export_index(database, "default", tmp_path / "file")
        made = contents(tmp_path / "file")
        ((key, value),) = rows_of(made, "hubs")
        for row in (
            (key, value[1:]),
            (key, bytes(8)),
            (key, b"\xff" * 8),
            (key.replace(b"\n", b" "), value),
            (key + b"\n", value),
            (key.replace(b"Acme", b""), value),
            (key.replace(b"Acme", b"A\0me"), value),
            (key.replace(b"Acme", b"A\xffme"), value),
            (key.replace(b"Acme", b"A" * 1001), value),
        ):
            forged = forge(tmp_path / "forged", {**made, ("hubs", 0): [row]})
            with pytest.raises(InputError, match="forged is damaged or was made by hand: hubs 0: "):
                import_index(database, forged, "other")
        for missing in ({**made, ("hubs", 0): []}, {one: value for one, value in made.items() if one[0] != "hubs"}):
            with pytest.raises(InputError, match="forged is damaged"):
                import_index(database, forge(tmp_path / "forged", missing), "other")
