"""Limits, keys, clients that go away, and the end of a server."""

import io
import json
import logging
import re
import resource
import socket
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx2
import openai
import pytest
from support.server.running import Gate, Running, asker_alone, eventually, running, said

from refactx.errors import DatabaseError, InputError
from refactx.server import Availability, ServingOptions
from refactx.server.app import reported
from refactx.server.http import ApiError, LogHandler, RequestLog

BODY = {"model": "tiny", "messages": said("hello Fact:"), "max_tokens": 40}


@contextmanager
def gated(**options: Any) -> Iterator[tuple[Running, Gate]]:
    """A server whose model waits at its next pass."""
    gate = Gate()
    with running(gate.model, **options) as server:
        assert eventually(lambda: server.service.is_warm)
        gate.close()
        try:
            yield server, gate
        finally:
            gate.open()


@pytest.mark.long
def test_beyond_the_limits_clients_are_told_when_to_ask_again() -> None:
    with gated(max_running=1, max_waiting=1) as (server, gate), ThreadPoolExecutor(4) as pool:
        first = pool.submit(server.post, "/v1/chat/completions", BODY)
        gate.wait_until_reached()
        second = pool.submit(server.post, "/v1/chat/completions", BODY)
        assert eventually(lambda: server.service.slots.waiting == 1)
        refused = server.post("/v1/chat/completions", BODY)
        assert refused.status_code == 429
        assert refused.json()["error"]["type"] == "rate_limit_error"
        assert int(refused.headers["retry-after"]) >= 1
        # OpenAI's client asks again by itself, as often as it is told to.
        client = server.openai(max_retries=8)
        third = pool.submit(client.chat.completions.create, model="tiny", messages=said("hello Fact:"), max_tokens=40)
        assert eventually(lambda: [line["status"] for line in server.requests].count(429) >= 2)
        gate.open()
        text = asker_alone().ask("hello Fact:", max_new_tokens=40).text
        assert third.result().choices[0].message.content == text
        for reply in (first.result(), second.result()):
            assert reply.json()["choices"][0]["message"]["content"] == text
        assert (server.service.slots.running, server.service.slots.waiting) == (0, 0)


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_ends_its_text_by_the_next_pass(stream: bool) -> None:
    with gated() as (server, gate):
        scheduler = server.service.asker._writer.scheduler
        with httpx2.Client() as client, pytest.raises(httpx2.ReadTimeout):
            client.post(f"{server.url}/v1/chat/completions", json=BODY | {"stream": stream}, timeout=0.5)
        assert eventually(lambda: any(line["status"] == 499 for line in server.requests))
        passes = gate.passes
        gate.open()
        assert eventually(lambda: server.service.slots.running == 0 and not scheduler.running)
        assert gate.passes <= passes + 1
        reply = server.post("/v1/chat/completions", BODY)
        assert (
            reply.json()["choices"][0]["message"]["content"] == asker_alone().ask("hello Fact:", max_new_tokens=40).text
        )


def test_a_stream_that_is_cancelled_after_its_first_words_ends() -> None:
    gate = Gate()
    with running(gate.model) as server:
        assert eventually(lambda: server.service.is_warm)
        gate.close_at(10)
        stream = server.openai().chat.completions.create(
            model="tiny", messages=said("hello Fact:"), max_tokens=400, stream=True
        )
        next(iter(stream))
        gate.wait_until_reached()
        stream.close()
        assert eventually(lambda: any(line["status"] == 499 for line in server.requests))
        gate.open()
        assert eventually(lambda: server.service.slots.running == 0)
        assert not server.service.asker._writer.scheduler.running


def test_a_request_that_waits_leaves_the_queue_if_its_client_goes_away() -> None:
    with gated(max_running=1) as (server, gate), ThreadPoolExecutor(1) as pool:
        first = pool.submit(server.post, "/v1/chat/completions", BODY)
        gate.wait_until_reached()
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.post(f"{server.url}/v1/chat/completions", json=BODY, timeout=0.5)
        assert eventually(lambda: server.service.slots.waiting == 0)
        gate.open()
        assert first.result().status_code == 200
        assert server.service.slots.running == 0


def test_silences_of_a_stream_have_comments() -> None:
    with (
        gated(keep_alive=0.05) as (server, gate),
        httpx2.stream("POST", f"{server.url}/v1/chat/completions", json=BODY | {"stream": True}) as reply,
    ):
        lines = (line for line in reply.iter_lines() if line)
        assert [next(lines) for _ in range(3)] == [": ping"] * 3
        gate.open()
        assert [line for line in lines if not line.startswith(":")][-1] == "data: [DONE]"


def test_only_those_with_a_key_may_ask() -> None:
    with running(keys=("one", "schlüssel")) as server:
        for key in ("one", "schlüssel"):
            known = {b"Authorization": b"Bearer " + key.encode()}
            assert httpx2.get(f"{server.url}/v1/models", headers=known).status_code == 200
            assert httpx2.get(f"{server.url}/v1/models", headers={b"api-key": key.encode()}).status_code == 200
        for headers in (
            {},
            {"Authorization": "Bearer two"},
            {"api-key": "two"},
            {"api-key": ""},
            {"Authorization": "Basic one"},
            {"Authorization": "one"},
        ):
            for path in ("/v1/models", "/metrics", "/openapi.json", "/v1/nothing"):
                reply = server.get(path, headers=headers)
                assert (reply.status_code, reply.json()["error"]["code"]) == (401, "invalid_api_key")
        assert server.get("/health").status_code == 200
        with pytest.raises(openai.AuthenticationError):
            server.openai(api_key="two").models.list()


def test_large_bodies_are_refused_whether_their_length_is_told_or_not() -> None:
    with running(max_bytes=1000) as server:
        large = {"model": "tiny", "messages": said("x" * 2000)}
        assert server.post("/v1/chat/completions", large).status_code == 413

        def parts() -> Iterator[bytes]:
            yield from (json.dumps(large).encode()[at : at + 100] for at in range(0, 2000, 100))

        headers = {"Content-Type": "application/json"}
        reply = httpx2.post(f"{server.url}/v1/chat/completions", content=parts(), headers=headers)
        assert (reply.status_code, reply.json()["error"]["type"]) == (413, "invalid_request_error")


def test_the_most_tokens_are_the_servers() -> None:
    with running(max_tokens=7) as server:
        reply = server.post("/v1/chat/completions", BODY)
        assert reply.json()["usage"]["completion_tokens"] == 7


def test_a_page_of_another_site_cannot_reach_it_by_a_name_of_its_own() -> None:
    with running(hosts=("127.0.0.1", "localhost")) as server:
        for path in ("/v1/models", "/health", "/", "/mcp"):
            refused = server.get(path, headers={"Host": "evil.example:80"})
            message = refused.json()["error"]["message"]
            assert refused.status_code == 403
            assert server.url in message
            assert "--" not in message
            assert eventually(lambda: "--allow-host evil.example," in server.requests[-1].get("error", ""))
        for host in ("[127.0.0.1].evil", "[::1]x", "localhost:80:80", "localhost:evil", "a@localhost", "local host"):
            assert server.get("/health", headers={"Host": host}).status_code == 403
        assert server.get("/v1/models", headers={"Host": "localhost:1"}).status_code == 200
        headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
        reply = httpx2.options(f"{server.url}/v1/models", headers=headers)
        assert "access-control-allow-origin" not in reply.headers
        text = httpx2.post(
            f"{server.url}/v1/chat/completions", content=json.dumps(BODY), headers={"Content-Type": "text/plain"}
        )
        assert text.status_code == 400


def test_pages_of_sites_that_are_allowed_may_ask() -> None:
    site, path = "https://app.example.org", "/v1/chat/completions"
    with running(keys=("one",), origins=(site,)) as server:
        wanted = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization, x-a"}
        asked = httpx2.options(f"{server.url}{path}", headers={"Origin": site, **wanted})
        assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (200, site)
        assert "authorization" in asked.headers["access-control-allow-headers"]
        for key, status in (("one", 200), ("two", 401)):  # pages may read why they are refused
            headers = {"Origin": site, "Authorization": f"Bearer {key}"}
            reply = server.post(path, BODY, headers=headers)
            assert (reply.status_code, reply.headers["access-control-allow-origin"]) == (status, site)
        other = {"Origin": "https://evil.example"}
        assert httpx2.options(f"{server.url}{path}", headers={**other, **wanted}).status_code == 400
        reply = server.get("/v1/models", headers={**other, "api-key": "one"})
        assert "access-control-allow-origin" not in reply.headers


@pytest.mark.long
def test_a_proxy_may_put_a_path_before_all_others_and_pass_it_on_or_not() -> None:
    with running(keys=("one",), root="/kb") as server:
        for root in ("", "/kb"):
            assert server.get(f"{root}/v1/models").status_code == 401
            assert server.get(f"{root}/v1/models/", headers={"api-key": "one"}).status_code == 200
            page = server.get(f"{root}/").text
            addresses = re.findall(r'(?:href|src)="(/[^"]*)"', page)
            assert {server.get(address).status_code for address in addresses} == {200}
            assert all(address.startswith("/kb/") for address in addresses)
        assert server.get("/kb").text == page
        assert server.get("/kbv1/models").status_code == 404
        assert server.get("/openapi.json", headers={"api-key": "one"}).json()["servers"] == [{"url": "/kb"}]


def test_a_slash_at_the_end_of_a_path_changes_nothing(tiny: Running) -> None:
    for path in ("/v1/models", "/v1/models/tiny:free", "/health", "/ready", "/explore"):
        assert tiny.get(f"{path}/").content == tiny.get(path).content
    reply = tiny.post("/v1/chat/completions/", BODY)
    assert reply.status_code == 200


def test_the_state_is_asked_for_without_a_body_too(tiny: Running) -> None:
    for path in ("/health", "/ready"):
        reply = httpx2.head(f"{tiny.url}{path}")
        assert (reply.status_code, reply.content) == (200, b"")


def connected(server: Running, data: bytes = b"") -> socket.socket:
    """A connection to a server, on which something was sent."""
    made = socket.create_connection(("127.0.0.1", httpx2.URL(server.url).port or 0), timeout=60)
    made.sendall(data)
    return made


@pytest.mark.long
def test_a_head_and_a_body_that_do_not_end_end_their_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refactx.server.app.HEAD_SECONDS", 0.1)
    monkeypatch.setattr("refactx.server.http.BODY_SECONDS", 0.1)
    head = b"POST /v1/facts/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    with running() as server:
        for data in (b"", b"GET / HTTP/1.1\r\n"):
            with connected(server, data) as slow:
                assert slow.recv(1) == b""
        with connected(server, head + b"Content-Length: 20\r\n\r\n{") as slow:
            assert slow.recv(4096).startswith(b"HTTP/1.1 408 ")
        assert server.get("/health").status_code == 200


@pytest.mark.long
def test_a_reply_that_nobody_reads_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refactx.server.app.UNREAD_SECONDS", 0.1)
    with running() as server, connected(server) as unread:
        unread.setblocking(False)

        def ask() -> bool:
            try:
                unread.send(b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n" * 100)
            except BlockingIOError:
                return False
            except OSError:  # the server has closed it
                return True
            return False

        assert eventually(ask)
        assert server.get("/health").status_code == 200


@pytest.mark.long
@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"])
def test_connections_that_ask_nothing_make_room_for_others(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (32, 32))
    with running() as server, ExitStack() as stack, reported(RequestLog(server.log)):
        for _ in range(60):
            stack.enter_context(connected(server, data))
        assert server.get("/health").status_code == 200
        assert len(server.server.server_state.connections) <= 16
    reports = [line for line in map(json.loads, server.log.getvalue().splitlines()) if line["event"] == "log"]
    assert [line["message"] for line in reports] == [
        "there are 16 connections, as many as can be: the oldest are closed"
    ]


def test_a_report_that_is_repeated_has_one_line_and_no_line_ends() -> None:
    stream = io.StringIO()
    handler = LogHandler(RequestLog(stream))
    for _ in range(3):
        handler.handle(logging.makeLogRecord({"name": "a", "msg": "x\n\x1b[31m\x9b", "levelno": logging.WARNING}))
    handler.handle(logging.makeLogRecord({"name": "a", "msg": "y", "levelno": logging.WARNING}))
    lines = stream.getvalue().splitlines()
    assert [json.loads(line)["message"] for line in lines] == ["x\n\x1b[31m\x9b", "y"]
    assert stream.getvalue().replace("\n", "").isprintable()


SECRET = "my uncle's diagnosis"


def ask_about_secrets(server: Running) -> None:
    """Send a text in each place that errors quote."""
    server.post("/v1/chat/completions", {**BODY, "model": SECRET})
    server.post("/v1/completions", {"model": "tiny", "prompt": f"Fact: <{SECRET}", "max_tokens": 3})
    server.post("/v1/query", {"query": f"count <{SECRET}> <p>"})
    server.post("/v1/sparql", {"query": f"SELECT ?x {{ <{SECRET}> <p> ?x }}"})
    server.post("/v1/facts/check", {"facts": SECRET})
    server.get("/v1/facts", params={"subject": SECRET})
    assert eventually(lambda: len(server.requests) == 6)


def test_texts_stay_out_of_the_log_unless_it_should_have_them() -> None:
    with running() as server, reported(RequestLog(server.log)):
        ask_about_secrets(server)
        logging.getLogger("x").error("failed", exc_info=ValueError(f"no such thing: {SECRET!r}"))
        assert "diagnosis" not in server.log.getvalue()
        assert {"error", "trace"} <= {
            key for line in map(json.loads, server.log.getvalue().splitlines()) for key in line
        }
    stream = io.StringIO()
    with running() as server, reported(RequestLog(stream, has_texts=True)):
        server.post("/v1/completions", {"model": "tiny", "prompt": f"Fact: <{SECRET}", "max_tokens": 3})
    assert "diagnosis" in stream.getvalue()


def test_warnings_of_libraries_are_lines_of_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    logger, stream = logging.getLogger("with_a_handler"), io.StringIO()
    logger.propagate = False
    logger.addHandler(logging.StreamHandler())
    with reported(RequestLog(stream)):
        warnings.warn("first", stacklevel=1)
        logger.warning("second")
    messages = [json.loads(line)["message"] for line in stream.getvalue().splitlines()]
    assert "first" in messages[0]
    assert messages[1:] == ["second"]
    assert not capfd.readouterr().err
    assert logger.handlers
    assert not logger.propagate
    logger.handlers.clear()


def test_a_client_writes_no_line_ends_and_no_long_paths_into_the_log() -> None:
    with running() as server:
        server.get("/%0a%1b[31m" + "x" * 5000)
        assert eventually(lambda: len(server.requests) == 1)
        assert server.requests[0]["path"].startswith("/\n\x1b[31mxx")
        assert len(server.requests[0]["path"]) == 500
        assert server.log.getvalue().replace("\n", "").isprintable()


def test_requests_have_ids_and_the_log_has_no_questions_unless_it_should() -> None:
    for logs_text in (False, True):
        with running(logs_text=logs_text) as server:
            given = server.post("/v1/chat/completions", BODY, headers={"X-Request-Id": "mine-1"})
            other = server.post("/v1/chat/completions", BODY | {"n": 3}, headers={"X-Request-Id": "no\tid"})
            assert given.headers["x-request-id"] == "mine-1"
            assert len(other.headers["x-request-id"]) == 32
            assert eventually(lambda: len(server.requests) == 2)  # a line is written after its reply
            lines = {line["id"]: line for line in server.requests}
            line = lines["mine-1"]
            assert (line["status"], line["method"], line["path"]) == (200, "POST", "/v1/chat/completions")
            assert (line["tokens"], line["finish_reason"], line["facts"] > 0) == (40, "length", True)
            assert lines[other.headers["x-request-id"]]["error"].startswith("n is 3, but without a temperature")
            assert ("hello" in server.log.getvalue()) == logs_text
            assert ("question" in line) == ("text" in line) == logs_text


def test_a_server_that_stops_lets_running_texts_end_and_refuses_others() -> None:
    with gated() as (server, gate), ThreadPoolExecutor(1) as pool:
        first = pool.submit(server.post, "/v1/chat/completions", BODY)
        gate.wait_until_reached()
        server.server.handle_exit(15, None)
        assert eventually(lambda: server.server.is_draining)
        refused = server.post("/v1/chat/completions", BODY)
        assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
        assert server.get("/ready").json() == {"status": "stopping"}
        gate.open()
        assert first.result().json()["usage"]["completion_tokens"] == 40
        assert eventually(lambda: server.server.should_exit)


@pytest.mark.long
def test_while_the_database_is_away_requests_are_refused_at_once_and_answered_again_when_it_is_back() -> None:
    away = threading.Event()

    def ask() -> None:
        if away.is_set():
            raise DatabaseError("cannot reach the database postgresql://me:secret@db/kb: refused")

    with running(availability=Availability(ask)) as server:
        assert server.get("/health").json()["status"] == "ok"
        away.set()
        assert eventually(lambda: server.get("/health").status_code == 503)
        for stream in (False, True):
            with pytest.raises(openai.InternalServerError) as caught:
                server.openai().chat.completions.create(model="tiny", messages=said("hello"), stream=stream)
            assert caught.value.status_code == 503
            assert "the database does not answer" in str(caught.value)
            assert not re.search("secret|postgresql|me@|kb", str(caught.value))
        assert eventually(lambda: any("me:***@db/kb: refused" in line.get("error", "") for line in server.requests))
        free = server.openai().chat.completions.create(model="tiny:free", messages=said("hello"), max_tokens=2)
        assert free.usage is not None  # it needs no database
        assert server.get("/ready").json() == {"status": "unavailable"}
        away.clear()
        again = server.openai(max_retries=8).chat.completions.create(
            model="tiny", messages=said("hello Fact:"), max_tokens=40
        )
        assert again.choices[0].message.content == asker_alone().ask("hello Fact:", max_new_tokens=40).text


def test_the_figures_count_texts_and_requests(tiny: Running) -> None:
    def figures() -> dict[str, float]:
        lines = [line.rsplit(" ", 1) for line in tiny.get("/metrics").text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in lines}

    assert eventually(lambda: tiny.service.is_warm)
    label, before = '{index="",model_name="tiny"}', figures()
    usage = tiny.post("/v1/chat/completions", BODY).json()["usage"]
    after = figures()
    grown = {name: after[name] - before.get(name, 0) for name in after}
    alone = asker_alone().ask("hello Fact:", max_new_tokens=40)
    assert grown[f"refactx:prompt_tokens_total{label}"] == usage["prompt_tokens"]
    assert grown[f"refactx:generation_tokens_total{label}"] == 40
    assert grown[f"refactx:facts_total{label}"] == len(alone.facts)
    assert grown[f"refactx:forced_tokens_total{label}"] == alone.forced_tokens > 0
    assert grown[f"refactx:e2e_request_latency_seconds_count{label}"] == 1
    assert grown['refactx:request_success_total{finished_reason="length",index="",model_name="tiny"}'] == 1
    assert after["refactx:num_requests_running"] == 0
    tiny.get("/v1/any/path?at=all")
    assert not any("any/path" in name for name in figures())


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="max_running is 0"):
        ServingOptions(name="x", max_running=0)
    assert ApiError(400, "a\nb\ud800").to_json()["error"]["message"] == "a b?"
