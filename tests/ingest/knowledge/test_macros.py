"""The macros of the work database: they compute what the functions in Python compute."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refactx.entity_ids import entity_id, entity_number, is_property
from refactx.fact import MAX_PART_CHARACTERS, clean_part, cut_part
from refactx.ingest.work import DEFAULT_RESOURCES, WorkDatabase, open_work_database

IDS = st.builds("{}{}".format, st.sampled_from("QP"), st.integers(1, 10**18 - 1))
LONG = MAX_PART_CHARACTERS
TEXTS = st.builds(lambda text, times, tail: text * times + tail, st.text(max_size=9), st.integers(0, LONG), st.text())
SHARED = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkDatabase]:
    folder: Path = tmp_path_factory.mktemp("work")
    with open_work_database(folder, DEFAULT_RESOURCES) as database:
        yield database


@SHARED
@given(IDS)
def test_numbers_and_ids_of_entities_are_those_of_python(work: WorkDatabase, id_: str) -> None:
    number = entity_number(id_)
    row = work.rows("SELECT entity_number(?), entity_id(?), is_property(?), is_property(-?)", [id_, *[number] * 3])
    assert row == [(number, id_, is_property(number), is_property(-number))]
    assert entity_id(number) == id_


@SHARED
@given(TEXTS.map(clean_part))
def test_a_part_is_cut_as_in_python(work: WorkDatabase, part: str) -> None:
    assert work.rows("SELECT cut(?, ?)", [part, LONG]) == [(cut_part(part),)]
