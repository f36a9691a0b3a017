"""Translations over HTTP: the steps of a translator, whole and as a stream, and their end when nobody reads them."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from support.server.running import Gate, Running, eventually, running
from support.tiny_asker import chat_tokenizer
from support.translate.kennel import DOGS, KENNEL, NONE, Scripted, kennel_engine

from refactx.ask.asker import language_model
from refactx.documents import step_json
from refactx.sparql.packs.constrained import constrained_model
from refactx.sparql.packs.translator import TranslateOptions, Translator

REPLIES = [f"SELECT ?x {{ ?x a ex:Wolf }} # {NONE}", DOGS]


def translator(*replies: str) -> Translator:
    return Translator(KENNEL, Scripted(replies), engine=kennel_engine(), options=TranslateOptions(agent=True))


@pytest.fixture(scope="module")
def kennel() -> Iterator[Running]:
    with running(translator=translator(DOGS)) as server:
        yield server


def timeless(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**step, "seconds": 0} for step in steps]


@pytest.mark.parametrize("agent", [False, True])
@pytest.mark.parametrize("runs", [False, True])
def test_a_translation_is_that_of_the_translator(agent: bool, runs: bool) -> None:
    alone = [step_json(one) for one in translator(*REPLIES).changed(agent=agent, runs=runs).stream("Which dogs?")]
    body = {"question": "Which dogs?", "agent": agent, "run": runs}
    with running(translator=translator(*REPLIES)) as server:
        whole = server.post("/v1/translate", body).json()
    with running(translator=translator(*REPLIES)) as server:
        reply = server.post("/v1/translate", body | {"stream": True})
    lines = [line.removeprefix("data: ") for line in reply.text.splitlines() if line]
    assert lines[-1] == "[DONE]"
    assert timeless([json.loads(line) for line in lines[:-1]]) == timeless(alone)
    translation = alone[-1].pop("translation")
    assert {name: whole[name] for name in translation} == translation
    assert (whole["pack"], timeless(whole["steps"])) == ("kennel", timeless(alone))
    assert whole["sparql"].endswith(DOGS)
    assert whole["rows"] == (2 if runs else None)


def test_a_server_without_a_pack_says_so(tiny: Running) -> None:
    reply = tiny.post("/v1/translate", {"question": "Which dogs?"})
    assert reply.status_code == 404
    assert "translates no questions" in reply.json()["error"]["message"]


@pytest.mark.parametrize(
    ("fields", "param"), [({"question": ""}, "question"), ({"question": " \n"}, None), ({"agent": 7}, "agent")]
)
def test_wrong_requests_are_refused(kennel: Running, fields: dict[str, Any], param: str | None) -> None:
    for stream in (False, True):
        reply = kennel.post("/v1/translate", {"question": "Dogs?", "stream": stream} | fields)
        error = reply.json()["error"]
        assert (reply.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert kennel.service.slots.running == 0


def test_translations_are_counted_and_logged(kennel: Running) -> None:
    before = kennel.get("/metrics").text
    assert kennel.post("/v1/translate", {"question": "Which dogs?"}, headers={"X-Request-Id": "t"}).status_code == 200
    figures = kennel.get("/metrics").text
    name = 'refactx:translations_total{index="",model_name="tiny",outcome="valid"} '
    counts = [float(text.partition(name)[2].partition("\n")[0] or 0) for text in (before, figures)]
    assert counts[1] == counts[0] + 1
    assert eventually(lambda: any(line["id"] == "t" for line in kennel.requests))
    (line,) = (line for line in kennel.requests if line["id"] == "t")
    assert (line["valid"], line["rows"], line["steps"] >= 4) == (True, 2, True)
    assert "dogs" not in kennel.log.getvalue()


@pytest.mark.parametrize("stream", [True, False])
def test_a_translation_whose_client_goes_away_ends_by_the_next_pass(stream: bool) -> None:
    gate = Gate()
    model = language_model(gate.model, chat_tokenizer())
    with running(model, translator=Translator(KENNEL, constrained_model(model, KENNEL))) as server:
        assert eventually(lambda: server.service.is_warm)
        gate.close()
        body = {"question": "Which dogs?", "stream": stream}
        with (
            pytest.raises(httpx2.ReadTimeout),
            httpx2.stream("POST", f"{server.url}/v1/translate", json=body, timeout=1) as reply,
        ):
            for _ in reply.iter_lines():
                pass
        assert eventually(lambda: any(line["status"] == 499 for line in server.requests))
        passes = gate.passes
        gate.open()
        assert eventually(lambda: server.service.slots.running == 0)
        assert gate.passes <= passes + 1
