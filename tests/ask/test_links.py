"""From a fact of an index back to the ids of its triple, inverse facts included."""

from collections.abc import Iterator

import pytest
from support.ingest.graph_twin import Line, written
from support.ingest.tiny import ingest_tiny
from support.servers import DatabaseServer, database
from support.tiny_asker import chat_tokenizer
from support.tiny_model import tiny_model

from refactx.ask.asker import Asker
from refactx.ask.prompt import Prompt
from refactx.documents import answer_document, to_json
from refactx.fact import Fact, Link, LinkedFact, split_fact
from refactx.index.index import Index
from refactx.index.names import LITERAL_KINDS, Named, pack_blocks, unpack_block
from refactx.index.open import open_index
from refactx.index.verify import verify
from refactx.ingest import Selection
from refactx.ingest.publish import IngestResult
from refactx.tree.codes import RowCodec

LINES: list[Line] = [
    *(
        ("label", entity, name, "en")
        for entity, name in [("Q1", "Slumdog"), ("Q2", "Boyle"), ("Q3", "Eve"), ("Q4", "Abel")]
    ),
    *(("label", entity, name, "en") for entity, name in [("P57", "director"), ("P25", "mother"), ("P40", "child")]),
    ("claim", "Q1", "P57", "Q2"),
    ("claim", "Q4", "P25", "Q3"),
    ("claim", "P25", "P1696", "P40"),
    ("literal", "Q1", "P57", "somebody", "en"),
]


@pytest.fixture(scope="module")
def ingested(
    database_server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Index, IngestResult]]:
    folder = tmp_path_factory.mktemp("links")
    (folder / "graph.nt").write_text("".join(written(line) + "\n" for line in LINES))
    with database(database_server, f"refactx_links_{folder.name}".replace("-", "_")) as url:
        selection = Selection(inverse=True, properties=frozenset({"P57", "P25"}))
        result = ingest_tiny(url, folder / "graph.nt", selection=selection)
        with open_index("default", url) as index:
            yield index, result


def linked(index: Index, text: str) -> LinkedFact:
    assert text in index
    parts = split_fact(text)
    assert parts is not None
    return index.links(Fact(*parts, text, (0, 0)))


def test_an_inverse_fact_leads_back_to_its_property(ingested: tuple[Index, IngestResult]) -> None:
    index, _ = ingested
    slumdog, boyle = Link("Slumdog", "Q1"), Link("Boyle", "Q2")
    assert linked(index, "<Slumdog> <director> <Boyle> .") == LinkedFact(slumdog, Link("director", "P57"), boyle)
    assert linked(index, "<Slumdog> <director> <somebody> .").object == "somebody"
    assert linked(index, "<Boyle> <director of> <Slumdog> .") == LinkedFact(
        boyle, Link("director of", "P57"), slumdog, inverse=True
    )


def test_an_inverse_fact_of_another_property_is_that_propertys(ingested: tuple[Index, IngestResult]) -> None:
    index, _ = ingested
    eve, abel = Link("Eve", "Q3"), Link("Abel", "Q4")
    assert linked(index, "<Eve> <child> <Abel> .") == LinkedFact(eve, Link("child", "P40"), abel)


def test_the_report_and_the_index_agree_and_the_index_verifies(ingested: tuple[Index, IngestResult]) -> None:
    index, result = ingested
    document = result.to_json()
    assert (document["facts"], document["claims"], document["derived"]) == (5, 3, 2) == (len(index), 3, 2)
    assert document["not_inverted"] == {"hub": 0, "already a fact": 0}
    assert document["names"] == {"label": 7, "inverse": 1}
    assert document["selection"]["properties"] == ["P25", "P57"]
    assert index.entry.report["derived"] == 2
    assert verify(index).faults == []


def test_an_answer_says_that_a_fact_is_inverse(ingested: tuple[Index, IngestResult]) -> None:
    tokenizer = chat_tokenizer("{% for m in messages %}{{ m['content'] }}{% endfor %}")
    asker = Asker(tiny_model(), tokenizer, ingested[0], Prompt(system="Be true."))
    answer = asker.ask("Fact: <Boyle>", max_new_tokens=40)
    fact = to_json(answer_document(answer))["facts"][0]
    assert fact["text"] == "<Boyle> <director of> <Slumdog> ."
    assert fact["inverse"] is True
    assert fact["predicate"]["id"] == "P57"


def test_names_of_every_kind_are_packed_and_read_back() -> None:
    kinds = [None, "entity", *LITERAL_KINDS, "mixed", "inverse"]
    rows = [(f"name {at}", Named(f"P{at + 1}", kind)) for at, kind in enumerate(kinds)]
    ((key, block),) = pack_blocks(rows, RowCodec(level=1))
    assert unpack_block(key, block, RowCodec(), "here") == dict(rows)
