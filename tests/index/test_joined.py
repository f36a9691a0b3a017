"""Two indexes read as one have what one ingest of both has: the tree, names, links, hubs and walks."""

import random
from collections import Counter
from contextlib import suppress
from copy import copy
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.ingest.graph_twin import Line, written
from support.ingest.tiny import ingest_tiny
from support.shared_index import opened
from support.tiny_model import tiny_fact_tokenizer

from refactx.errors import IndexNotFoundError, InputError, TokenizerMismatchError
from refactx.fact import Link
from refactx.index.index import Index
from refactx.index.joined import JoinedIndex
from refactx.index.open import open_index
from refactx.ingest import FactWriter
from refactx.ingest.source_options import Selection
from refactx.walks import QueryError, TreeFacts, answer_query, read_line

ITEMS = [f"Q{n}" for n in range(1, 10)]
NAMED: list[Line] = [
    *(("label", id_, f"thing {id_[1:]}", "en") for id_ in ITEMS),
    *(("label", f"P{n}", f"property {n}", "en") for n in range(1, 4)),
]
CLAIMS = st.frozensets(
    st.tuples(st.just("claim"), st.sampled_from(ITEMS), st.sampled_from(["P1", "P2"]), st.sampled_from(ITEMS))
)
TIMES = st.frozensets(
    st.tuples(st.just("claim"), st.sampled_from(ITEMS), st.just("P3"), st.sampled_from(["1990", "2001"]))
)
EXAMPLES = count()


def made(url: str, folder: Path, name: str, claims: frozenset[Line], **options: int) -> None:
    path = folder / f"{name}.nt"
    path.write_text("".join(f"{written(line)}\n" for line in [*NAMED, *sorted(claims)]))
    ingest_tiny(url, path, name, replace=True, selection=Selection(inverse=True, **options))


def state(index: Index) -> list[object]:
    """What an index shows: its facts with their links, the children of all prefixes, hubs and names."""
    facts = [fact.text for fact in index.all_facts()]
    seen: list[object] = [
        facts,
        len(index),
        index.tokens,
        [replace(one, indexes=()) for one in index.links_of(index.all_facts())],
    ]
    names = [line[2] for line in NAMED]
    seen += [index.hubs(names), index.ids_of(names), index.names_of([line[1] for line in NAMED])]
    tokens = [tuple(index.tokenizer.encode_after(index.trigger, f" {fact.removesuffix(' .')}")) for fact in facts]
    for prefix in sorted({one[:depth] for one in tokens for depth in range(len(one) + 1)}):
        below = index.children(prefix)
        seen.append((prefix, below.tokens.tolist(), below.leaves.tolist(), below.terminal))
    return seen


def walks(facts: TreeFacts, texts: list[str], number: int) -> list[object]:
    """Answers of queries that begin with things and predicates of some facts, drawn by chance."""
    chance, found = random.Random(5), list[object]()
    parts = [text[1:].removesuffix("> .").split("> <") for text in texts]
    for _ in range(number if parts else 0):
        subject, predicate, object_ = chance.choice(parts)
        _, then, other = chance.choice(parts)
        line = chance.choice(
            [
                f"count <{subject}> <{predicate}>",
                f"list <{subject}> <{predicate}> <{then}>",
                f"ask <{subject}> <{predicate}> <{other}>",
                f"list <{object_}> <{then}> which <{predicate}> <{other}>",
            ]
        )
        try:
            answer = answer_query(read_line(line), facts)
        except QueryError as error:
            found.append((line, str(error)))
        else:
            proof = sorted(str(replace(one, indexes=())) for one in answer.facts)
            rows = sorted(map(str, answer.rows))
            found.append((line, answer.answer, rows, proof, answer.sparql))
    return found


@settings(max_examples=6, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(left=CLAIMS, right=CLAIMS, times=TIMES, limit=st.sampled_from([1, 3, 100]))
def test_two_indexes_have_what_one_ingest_of_both_has(
    left: frozenset[Line], right: frozenset[Line], times: frozenset[Line], limit: int, db_url: str, tmp_path: Path
) -> None:
    left |= {("claim", "Q1", "P1", "Q2")}
    right |= {("claim", "Q2", "P1", "Q3")}
    folder = tmp_path / str(next(EXAMPLES))
    folder.mkdir()
    # What is a hub of both together is one of the larger: an index does not list what its hubs count.
    hubs = [f"Q{n}" for n in range(1, 10) if sum(one[3] == f"Q{n}" for one in left | right) > limit]
    left |= {one for one in right if one[3] in hubs} if limit < 100 else set()
    made(db_url, folder, "left", left | times, inverse_limit=limit)
    made(db_url, folder, "right", right, inverse_limit=limit)
    made(db_url, folder, "both", left | right | times, inverse_limit=limit)
    with (
        open_index("left,right", db_url) as joined,
        open_index("right,left", db_url) as turned,
        open_index("both", db_url) as both,
    ):
        expected = state(both)
        assert state(joined) == expected
        assert state(turned) == expected
        texts = [fact.text for fact in both.all_facts()]
        assert walks(TreeFacts(joined), texts, 40) == walks(TreeFacts(both), texts, 40)
        with open_index("left", db_url) as one, open_index("right", db_url) as other:
            for text in texts:
                assert joined.origins(text) == [index.name for index in (one, other) if text in index]


def test_things_are_one_by_their_ids_and_two_by_other_ids(db_url: str, tmp_path: Path) -> None:
    labels = {
        "left": {"Q1": "United States", "Q2": "Oslo", "P1": "capital"},
        "right": {"Q1": "USA", "Q3": "Oslo", "P1": "seat"},
    }
    claims = {
        "left": [("Q2", "P1", "Q1"), ("Q1", "P1", "Q2"), ("Q2", "P1", "Q2")],
        "right": [("Q1", "P1", "Q3"), ("Q3", "P1", "Q1")],
    }
    for name, called in labels.items():
        lines: list[Line] = [("label", id_, label, "en") for id_, label in called.items()]
        lines += [("claim", *one) for one in claims[name]]
        (tmp_path / f"{name}.nt").write_text("".join(f"{written(line)}\n" for line in lines))
        ingest_tiny(db_url, tmp_path / f"{name}.nt", name)
    with open_index("right,left", db_url) as index:
        assert index.name == "right,left" and index.part_names == ("right", "left")
        own = {"<Oslo> <capital> <United States> .", "<United States> <capital> <Oslo> .", "<Oslo> <capital> <Oslo> ."}
        other = {"<United States> <capital> <Oslo (right)> .", "<Oslo (right)> <capital> <United States> ."}
        assert {fact.text for fact in index.all_facts()} == own | other
        assert {index.links(fact).indexes for fact in index.all_facts() if fact.text in other} == {("right",)}
        assert {
            name: one.id for name, one in index.ids_of(["Oslo", "Oslo (right)", "United States", "capital"]).items()
        } == {
            "Oslo": "Q2",
            "Oslo (right)": "Q3",
            "United States": "Q1",
            "capital": "P1",
        }
        assert index.names_of(["Q1", "Q2", "Q3"]) == {"Q1": "United States", "Q2": "Oslo", "Q3": "Oslo (right)"}
        linker = TreeFacts(index).linker
        assert "Oslo (right)" in linker.namesakes("Oslo")
        assert index.text_in("right", "<Oslo (right)> <capital> <United States> .").strip() == "<Oslo> <seat> <USA>"


def built(url: str, folder: Path, name: str, labels: dict[str, str], lines: list[Line], **options: Any) -> None:
    """Build an index of things with labels and lines about them."""
    named: list[Line] = [("label", id_, label, "en") for id_, label in labels.items()]
    (folder / f"{name}.nt").write_text("".join(f"{written(line)}\n" for line in [*named, *lines]))
    ingest_tiny(url, folder / f"{name}.nt", name, selection=Selection(**options))


def claims(*triples: tuple[str, str, str]) -> list[Line]:
    return [("claim", *one) for one in triples]


def all_texts(index: Index) -> set[str]:
    return {fact.text for fact in index.all_facts()}


def test_a_fact_is_of_the_index_whose_things_it_is_about(db_url: str, tmp_path: Path) -> None:
    labels = {"Q1": "Norway", "P1": "capital of"}
    built(db_url, tmp_path, "left", {"Q2": "Oslo"} | labels, claims(("Q2", "P1", "Q1"), ("Q1", "P1", "Q1")))
    built(db_url, tmp_path, "right", {"Q3": "Oslo"} | labels, claims(("Q3", "P1", "Q1")))
    with open_index("left,right", db_url) as index, opened(db_url) as database:
        assert index.origins("<Oslo> <capital of> <Norway> .") == ["left"]
        assert index.origins("<Oslo (right)> <capital of> <Norway> .") == ["right"]
        with pytest.raises(InputError, match="is a fact of index left, and this writes 'right' alone"):
            FactWriter(index, database, "right", tmp_path).forget("<Oslo> <capital of> <Norway> .")


def test_a_literal_is_no_name_although_a_thing_is_called_so(db_url: str, tmp_path: Path) -> None:
    labels = {"Q2": "Berlin", "P1": "capital", "P2": "short name"}
    built(db_url, tmp_path, "left", {"Q1": "Germany (land)"} | labels, claims(("Q1", "P1", "Q2"), ("Q2", "P1", "Q1")))
    lines: list[Line] = [("literal", "Q1", "P2", "Germany", "en"), *claims(("Q2", "P1", "Q1"))]
    built(db_url, tmp_path, "right", {"Q1": "Germany"} | labels, lines)
    with open_index("left,right", db_url) as index:
        said = "<Germany (land)> <short name> <Germany> ."
        assert said in all_texts(index) and len(index) == 3
        assert index.origins(said) == ["right"]
        assert index.text_in("right", said).strip() == "<Germany> <short name> <Germany>"


def test_the_name_that_tells_two_things_apart_is_new(db_url: str, tmp_path: Path) -> None:
    labels = {"Q1": "Norway", "P1": "capital of"}
    left = claims(("Q2", "P1", "Q1"), ("Q7", "P1", "Q1"), ("Q1", "P1", "Q1"))
    built(db_url, tmp_path, "left", {"Q2": "Oslo", "Q7": "Oslo (right)"} | labels, left)
    built(db_url, tmp_path, "right", {"Q3": "Oslo"} | labels, claims(("Q3", "P1", "Q1")))
    with open_index("left,right", db_url) as index:
        assert index.names_of(["Q2", "Q3", "Q7"]) == {"Q2": "Oslo", "Q3": "Oslo (right) (Q3)", "Q7": "Oslo (right)"}
        assert len(index) == len(all_texts(index)) == 4


def test_a_name_that_passes_to_another_thing_takes_no_fact_with_it(db_url: str, tmp_path: Path) -> None:
    labels = {"Q2": "Oslo", "P1": "capital"}
    left = claims(("Q1", "P1", "Q1"), ("Q2", "P1", "Q1"), ("Q2", "P1", "Q2"))
    built(db_url, tmp_path, "left", {"Q1": "United States"} | labels, left)
    right = claims(("Q1", "P1", "Q2"), ("Q5", "P1", "Q2"))
    built(db_url, tmp_path, "right", {"Q1": "USA", "Q5": "United States"} | labels, right)
    with open_index("right,left", db_url) as index:
        assert {"<United States> <capital> <Oslo> .", "<United States (right)> <capital> <Oslo> ."} < all_texts(index)


def test_a_hub_of_the_smaller_index_counts_what_both_have_once(db_url: str, tmp_path: Path) -> None:
    labels = {f"Q{n}": f"thing {n}" for n in range(1, 16)} | {"P1": "kind"}
    left = claims(("Q1", "P1", "Q9"), ("Q2", "P1", "Q9"), *((f"Q{n}", "P1", "Q1") for n in (10, 11, 12)))
    right = claims(*((f"Q{n}", "P1", "Q9") for n in (1, 2, 3, 4)))
    for name, lines in {"left": left, "right": right}.items():
        built(db_url, tmp_path, name, labels, lines, inverse=True, inverse_limit=3)
    with open_index("left,right", db_url) as index:
        assert index.hubs(["thing 9"]) == {"thing 9": {"kind of": 4}}
        assert TreeFacts(index).counts(["thing 9"], "kind of") == [4]


def test_claims_of_a_hub_are_no_inverse_facts(db_url: str, tmp_path: Path) -> None:
    labels = {f"Q{n}": f"thing {n}" for n in range(1, 13)}
    labels |= {"P361": "part of", "P527": "has part", "P1696": "inverse property"}
    pairs = claims(("P361", "P1696", "P527"), ("P527", "P1696", "P361"))
    left = [*pairs, *claims(*((f"Q{n}", "P361", "Q9") for n in range(1, 6)))]
    right = [*pairs, *claims(("Q9", "P527", "Q12"))]
    for name, lines in {"left": left, "right": right, "both": [*left, *right]}.items():
        built(db_url, tmp_path, name, labels, lines, inverse=True, inverse_limit=3)
    with open_index("left,right", db_url) as joined, open_index("both", db_url) as both:
        assert "<thing 9> <has part> <thing 12> ." in joined
        assert all_texts(joined) == all_texts(both)


@pytest.mark.parametrize("seed", [1, 2])
def test_it_follows_changes_of_both_and_hubs_count_each_fact_once(seed: int, db_url: str, tmp_path: Path) -> None:
    chance, items = random.Random(seed), [f"Q{n}" for n in range(1, 9)]
    left = {id_: f"thing {id_[1:]}" for id_ in items} | {"P1": "kind", "P2": "near"}
    right = left | {"Q2": "other 2", "Q9": "thing 3"}  # two things have another name in the other index
    del right["Q3"]
    more = {f"Q{n}": f"more {n}" for n in range(20, 60)}  # so that it stays the larger one
    for name, labels, hub in (("left", left, ("P1", "Q1")), ("right", right, ("P2", "Q2"))):
        own = [id_ for id_ in labels if id_.startswith("Q")]
        said = {(id_, *hub) for id_ in own[:6]}
        said |= {(chance.choice(own), chance.choice(["P1", "P2"]), chance.choice(own[:4])) for _ in range(16)}
        said |= {(id_, "P1", "Q20") for id_ in more} if name == "left" else set()
        built(db_url, tmp_path, name, labels | more, claims(*sorted(said)), inverse=True, inverse_limit=3)
    with open_index("left,right", db_url) as index, opened(db_url) as database:
        writers = [FactWriter(index, database, name, tmp_path / name) for name in ("left", "right")]
        names, written_facts = [*left.values(), "thing 3 (right)"], 0
        for _ in range(16):
            writer, predicate = chance.choice(writers), chance.choice(["kind", "near"])
            things = chance.choices(names[:8] + names[-1:], k=2)
            with suppress(InputError):  # it is of the other index alone
                if chance.random() < 0.5:
                    writer.forget(chance.choice(sorted(all_texts(index))))
                else:
                    writer.remember(f"<{things[0]}> <{predicate}> <{things[1]}> .", also=True)
                written_facts += 1
            subjects = Counter((one.object, one.predicate) for one in index.all_facts())
            for name, inverses in index.hubs(names).items():
                for inverse, count in inverses.items():
                    assert count == subjects[name, inverse.removesuffix(" of").removesuffix(" (inverse)")]
            with open_index("left,right", db_url) as again:
                assert all_texts(index) == all_texts(again) and len(index) == len(again)
        assert written_facts


def test_a_thing_has_its_page_in_the_index_that_names_it(db_url: str, tmp_path: Path) -> None:
    lines = claims(("Q1", "P1", "Q2"), ("Q2", "P1", "Q1"))
    built(db_url, tmp_path, "left", {"Q1": "Norway", "Q2": "Oslo", "P1": "capital"}, lines)
    right = claims(("Q1", "P1", "Q3"))
    built(
        db_url, tmp_path, "right", {"Q1": "Norway", "Q3": "Hamar", "P1": "capital"}, right, link="https://kb.org/{id}"
    )
    with open_index("left,right", db_url) as index:
        (fact,) = (one for one in index.links_of(index.all_facts()) if one.text == "<Norway> <capital> <Hamar>")
        assert isinstance(fact.object, Link)
        assert (fact.subject.url, fact.object.url) == ("https://www.wikidata.org/wiki/Q1", "https://kb.org/Q3")


def test_what_cannot_be_read_as_one_is_said(db_url: str, tmp_path: Path) -> None:
    for name in ("left", "right"):
        (tmp_path / f"{name}.txt").write_text("<a> <b> <c> .\n")
        ingest_tiny(db_url, tmp_path / f"{name}.txt", name, trigger="Fact:" if name == "left" else "Fakt:")
    with pytest.raises(InputError, match="differ in the trigger"):
        open_index("left,right", db_url)
    for names in ("left,", "left,left", ",", "left,,right"):
        with pytest.raises(InputError, match="does not name several indexes"):
            open_index(names, db_url)
    with pytest.raises(IndexNotFoundError, match="there is no index 'wrong'"):
        open_index("left,wrong", db_url)
    other = copy(tiny_fact_tokenizer())  # which is shared
    other.fingerprint_of_facts = "another"
    with open_index("left", db_url) as left, open_index("left", db_url) as again:
        again.fingerprint, again.tokenizer = "another", other
        with pytest.raises(TokenizerMismatchError, match="cannot be read as one"):
            JoinedIndex([left, again])
