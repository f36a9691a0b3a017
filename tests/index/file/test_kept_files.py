"""Index files of earlier versions of the format are read. `tests/support/files/kept_index.py` makes one of today's."""

from pathlib import Path

import pytest
from support.files.kept_index import unpacked

from refactx.index.file import FILE_VERSION
from refactx.index.open import open_index

FACTS = {
    "<Springfield> <mayor> <Ann Lee> .",
    "<Springfield> <mayor> <Ann Lee> <start time> <1990-01-01> .",
    "<Springfield> <mayor> <Bo Bérg> .",
    "<Springfield> <population> <8000> .",
    "<Ann Lee> <mayor of> <Springfield> .",
    "<Ann Lee> <instance of> <human> .",
    "<Bo Bérg> <mayor of> <Springfield> .",
    "<Bo Bérg> <instance of> <human> .",
    "<human> <has instance> <Ann Lee> .",
    "<human> <has instance> <Bo Bérg> .",
    "<the town (alias)> <alias of> <Springfield> .",
}


@pytest.mark.parametrize("version", range(4, FILE_VERSION + 1))
def test_a_file_of_each_version_of_the_format_is_read(version: int, tmp_path: Path) -> None:
    with open_index(unpacked(tmp_path, version)) as index:
        facts = {fact.text: fact for fact in index.all_facts()}
        assert (set(facts), index.facts, list(index.faults())) == (FACTS, len(FACTS), [])
        assert index.count("<Springfield> <mayor> <") == 3
        assert (index.has_hubs, index.has_statements) == (True, True)
        ids = index.ids_of(["Springfield", "Bo Bérg", "mayor"])
        assert {name: named.id for name, named in ids.items()} == {"Springfield": "Q1", "Bo Bérg": "Q3", "mayor": "P6"}
        linked = index.links(facts["<Springfield> <mayor> <Ann Lee> ."])
        assert (linked.subject.id, linked.predicate.id, linked.object.id) == ("Q1", "P6", "Q2")
