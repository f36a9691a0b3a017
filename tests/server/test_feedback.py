"""`/v1/feedback` and `/v1/sparql`: what people say of answers as lines of a file, and rows of a query with their names."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.server.running import running

from refactx.server import routes

GIVEN = {"question": "Who?", "answer": "Ann\nAnswer: é", "facts": ["<Ann> <p> <b>"], "words": "no\n"}


@pytest.mark.long
def test_reports_at_the_same_time_are_whole_lines(tmp_path: Path) -> None:
    file = tmp_path / "feedback.jsonl"
    with running(feedback=file) as server:
        assert server.get("/health").json()["feedback"] == "taken"
        with ThreadPoolExecutor(8) as pool:
            sent = [GIVEN | {"words": f"{number} " + "x" * 3000} for number in range(40)]
            assert {reply.status_code for reply in pool.map(lambda one: server.post("/v1/feedback", one), sent)} == {
                200
            }
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert sorted(line["words"] for line in lines) == sorted(one["words"] for one in sent)
    assert {key: lines[0][key] for key in ("question", "answer", "facts", "model")} == {
        **{key: GIVEN[key] for key in ("question", "answer", "facts")},
        "model": "tiny",
    }


def test_a_file_of_feedback_has_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "feedback.jsonl"
    monkeypatch.setattr(routes, "MOST_FEEDBACK", 400)
    with running(feedback=file) as server:
        assert [server.post("/v1/feedback", GIVEN).status_code for _ in range(4)].count(507) >= 1
        assert server.post("/v1/feedback", GIVEN | {"words": "x" * 4001}).status_code == 400
    assert 0 < file.stat().st_size <= 400
    assert all(json.loads(line) for line in file.read_text().splitlines())


def test_without_a_file_there_is_no_feedback() -> None:
    with running() as server:
        assert "feedback" not in server.get("/health").json()
        assert server.post("/v1/feedback", GIVEN).status_code == 404
        assert server.post("/v1/sparql", {"query": "ASK { ?x ?y ?z }"}).status_code == 404
