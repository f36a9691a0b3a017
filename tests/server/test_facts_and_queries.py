"""Facts and queries over HTTP, on an index in PostgreSQL, with walks in both directions."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
from support.ingest.tiny import ingest_tiny
from support.server.running import Running, running

import refactx
from refactx.english import Relation
from refactx.sparql.engines.processes import POOL
from refactx.sparql.store import build_store

FACTS = [f"<Ann> <p> <b{n}>" for n in range(12)] + ["<Ann> <q> <Bo>", "<Bo> <q of> <Ann>", "<Bé> <p> <in>"]


@pytest.fixture(scope="module")
def served(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    file = tmp_path_factory.mktemp("facts") / "facts.txt"
    file.write_text("".join(f"{fact} .\n" for fact in FACTS))
    ingest_tiny(module_url, file)
    with refactx.open_index(db=module_url) as index, running(index=index) as server:
        yield server


def facts(server: Running, **given: Any) -> dict[str, Any]:
    reply = server.get(f"/v1/facts?{urlencode(given)}")
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def test_a_walk_over_subjects_properties_and_values_finds_each_fact(served: Running) -> None:
    found = []
    for subject in facts(served, prefix="<")["completions"]:
        below = facts(served, subject=subject["text"][1:-1])
        assert subject["facts"] == sum(one["facts"] for one in below["properties"])
        for one in below["properties"]:
            of_one = facts(served, subject=below["subject"]["label"], predicate=one["label"])
            assert len(of_one["facts"]) == one["facts"]
            found += [fact["text"] for fact in of_one["facts"]]
    assert sorted(found) == sorted(f"{fact} ." for fact in FACTS)


@pytest.mark.parametrize("limit", [1, 3, 13, 20])
def test_no_more_are_listed_than_asked_for_and_more_is_said_to_be_there(served: Running, limit: int) -> None:
    found = facts(served, subject="Ann", limit=limit)
    assert (len(found["facts"]), found["truncated"]) == (min(limit, 13), limit < 13)
    found = facts(served, prefix="<Ann> <p> <", limit=limit)
    assert (len(found["completions"]), found["truncated"]) == (min(limit, 12), limit < 12)


def test_names_that_are_not_there_have_near_ones(served: Running) -> None:
    found = facts(served, subject="Anne")
    assert (found["facts"], found["properties"], found["near"]) == ([], [], ["Ann"])
    assert facts(served, prefix="<Zoe")["completions"] == []


@pytest.mark.parametrize("query", ["predicate=p", "prefix=a&subject=b", "limit=0", "limit=x", "limit=5000"])
def test_wrong_requests_for_facts_are_refused(served: Running, query: str) -> None:
    reply = served.get(f"/v1/facts?{query}")
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error")


@pytest.mark.parametrize("text", ["%00", "%ED%A0%80", "<>", "%20", "a" * 3000])
def test_any_text_can_be_looked_up(served: Running, text: str) -> None:
    for name in ("subject", "prefix"):
        assert served.get(f"/v1/facts?{name}={text}").status_code == 200


def test_facts_in_a_text_are_checked(served: Running) -> None:
    text = "Ann: <Ann> <p> <b3> . But <Ann>  <q> <Be>, and <Anne> <q> <Bo>; <x> <y>."
    reply = served.post("/v1/facts/check", {"text": text}).json()["facts"]
    assert [one["exists"] for one in reply] == [True, False, False]
    assert [text[slice(*one["span"])] for one in reply] == [
        "<Ann> <p> <b3> .",
        "<Ann>  <q> <Be>",
        "<Anne> <q> <Bo>",
    ]
    assert reply[0]["nearest"] == []
    assert reply[1]["nearest"][0]["text"] == reply[2]["nearest"][0]["text"] == "<Ann> <q> <Bo> ."


def test_a_fact_exists_if_and_only_if_the_index_has_it(served: Running) -> None:
    parts = product(["Ann", "Bo", "Bé"], ["p", "q", "q of"], ["b1", "Bo", "Ann", "in"])
    facts_of_parts = [f"<{s}> <{p}> <{o}>" for s, p, o in parts]
    reply = served.post("/v1/facts/check", {"text": "\n".join(facts_of_parts)}).json()["facts"]
    assert [one["exists"] for one in reply] == [fact in FACTS for fact in facts_of_parts]
    for one in reply:
        assert {near["text"].removesuffix(" .") for near in one["nearest"]} <= set(FACTS)


def test_a_query_has_its_answer_with_rows(served: Running) -> None:
    reply = served.post("/v1/query", {"question": "count <Ann> <p>"}).json()
    assert (reply["answer"], reply["query"], reply["count"]) == ("12", "count <Ann> <p>", 12)
    listed = served.post("/v1/query", {"question": "list <Ann> <p>", "limit": 5}).json()
    assert len(listed["rows"]) == 5
    assert served.post("/v1/query", {"question": "ask <Ann> <q> <Bo>", "run": False}).json().get("answer") is None


@pytest.mark.parametrize(
    "body", [{"question": "count <Nobody> <p>"}, {"question": ""}, {"question": "count <Ann>", "limit": 0}]
)
def test_queries_that_cannot_be_answered_are_refused(served: Running, body: dict[str, Any]) -> None:
    reply = served.post("/v1/query", body)
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error"), reply.text


def test_a_question_in_words_needs_a_prompt_with_examples_of_queries(served: Running) -> None:
    reply = served.post("/v1/query", {"question": "How many has Ann?"})
    assert reply.status_code == 400
    assert "prompt" in reply.json()["error"]["message"]
    assert served.service.slots.running == 0


def test_lookups_are_counted(served: Running) -> None:
    facts(served, subject="Ann")
    figures = served.get("/metrics").text
    for name in ("lookups_total", "lookup_seconds_total", "cache_hits_total"):
        value = next(line for line in figures.splitlines() if line.startswith(f"refactx:{name}{{"))
        assert float(value.rsplit(" ", 1)[1]) > 0


def test_requests_by_curl_have_the_same_errors(served: Running, tmp_path: Path) -> None:
    reply = httpx2.get(f"{served.url}/v1/facts", params={"limit": "-1"})
    assert reply.json()["error"]["param"] == "limit"


def test_examples_are_questions_about_facts_of_the_index(served: Running) -> None:
    found = served.get("/v1/examples?limit=2&seed=1").json()
    assert (found["index"], found["size"], len(found["examples"])) == ("default", len(FACTS), 2)
    for one in found["examples"]:
        below = facts(served, subject=one["subject"], predicate=one["predicate"])
        assert below["facts"]
        assert one["question"] == Relation(predicate=one["predicate"]).which(one["subject"])
    assert served.get("/v1/examples?limit=0").status_code == 400


def test_examples_need_an_index_in_a_database(tiny: Running) -> None:
    assert tiny.get("/v1/examples").status_code == 404


def test_sparql_has_rows_with_names(served: Running) -> None:
    refused = served.post("/v1/sparql", {"query": "SELECT * { <Ann> <q> ?x }"})
    assert refused.status_code == 400
    assert "ask who runs this server" in refused.text
    assert "`" not in refused.text and "--" not in refused.text  # a visitor is told no command
    build_store(served.service.index)  # type: ignore[arg-type]
    reply = served.post("/v1/sparql", {"query": "SELECT ?x { <Ann> <q> ?x }"}).json()
    (row,) = reply["results"]["bindings"]
    assert reply["labels"].get(row["x"]["value"], row["x"]["value"]).endswith("Bo")
    found = served.post("/v1/sparql", {"query": "SELECT ?x { <Ann> <p> ?x }", "limit": 5}).json()
    assert (len(found["results"]["bindings"]), found["truncated"]) == (5, True)
    assert served.post("/v1/sparql", {"query": "ASK { <Ann> <q> <Bo> }"}).json()["boolean"] is True
    for wrong in ("SELECT {", "DROP ALL"):
        refused = served.post("/v1/sparql", {"query": wrong})
        assert refused.status_code == 400
        assert refused.json()["error"]["message"]


CROSS = f"SELECT (COUNT(*) AS ?n) {{ {' '.join(f'?a{n} ?p{n} ?o{n} .' for n in range(9))} }}"


def test_look_ups_are_answered_while_queries_run_that_do_not_end(
    served: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than there are threads for look-ups, or processes for queries; the last one waits for one of them."""
    build_store(served.service.index)  # type: ignore[arg-type]
    monkeypatch.setattr(POOL, "share", 0.2)
    with ThreadPoolExecutor(8) as threads:
        running = [threads.submit(served.post, "/v1/sparql", {"query": CROSS}) for _ in range(6)]
        for _ in range(4):
            assert facts(served, subject="Ann")["subject"]["label"] == "Ann"
        assert served.get("/health").status_code == 200
        found = served.post("/v1/sparql", {"query": "ASK { <Ann> <q> <Bo> }"})
        assert found.json()["boolean"] is True
        for member in list(POOL._running):
            member.process.kill()
        statuses = {one.result().status_code for one in running}
    assert statuses <= {400, 504}


def test_statements_are_listed_and_checked_with_their_qualifiers(module_url: str, tmp_path: Path) -> None:
    file = tmp_path / "stated.txt"
    stated = [
        "<Hill> <mayor> <Ann> <start time> <1990> .",
        "<Hill> <mayor> <Ann> <start time> <2001> .",
        "<Hill> <mayor> <Bob> .",
        "<Hill> <mayor> <Cy> <end time> <1980> .",  # not of the best rank: no plain fact
    ]
    file.write_text("\n".join(["<Hill> <mayor> <Ann> .", *stated]))
    ingest_tiny(module_url, file, index="stated")
    with refactx.open_index("stated", db=module_url) as index, running(index=index) as server:
        found = facts(server, subject="Hill", predicate="mayor")
        assert sorted(one["text"] for one in found["facts"]) == sorted(stated)
        [second] = [one for one in found["facts"] if "2001" in one["text"]]
        [said] = second["qualifiers"]
        assert (said["predicate"]["label"], said["value"]["label"]) == ("start time", "2001")
        texts = [*stated, "<hill> <mayor> <ann> <start time> <2001>", "<Hill> <mayor> <Ann> <start time> <1999> ."]
        checked = server.post("/v1/facts/check", {"text": "\n".join([*texts, "<Hill> <mayor> <Cy>"])}).json()["facts"]
        assert [one["exists"] for one in checked] == [True] * 5 + [False] * 2
        assert checked[4]["fact"]["text"] == stated[1]
        assert sorted(one["text"] for one in checked[5]["nearest"]) == stated[:2]
