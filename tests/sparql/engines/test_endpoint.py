"""Endpoints, by real HTTP on this machine: what is sent, what comes back, and what goes wrong."""

import base64
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from pyoxigraph import Literal, NamedNode, Quad, QueryResultsFormat, Store
from support.sparql.endpoint import HTML, Canned, Endpoint, running

from refactx.errors import InputError
from refactx.sparql.engines import (
    EndpointEngine,
    EngineError,
    EngineTimeoutError,
    QueryRefusedError,
    Rows,
    SparqlSyntaxError,
)
from refactx.sparql.engines.endpoint import LONGEST_URL
from refactx.sparql.engines.pace import INTERVAL, Pace, pace_of

WD, WDT = "http://www.wikidata.org/entity/", "http://www.wikidata.org/prop/direct/"
QUERY = "SELECT ?x { wd:Q1 wdt:P1 ?x }"
THREE = [(Literal("a"),), (Literal("b", language="en"),), (NamedNode(f"{WD}Q2"),)]


@pytest.fixture(scope="module")
def store() -> Store:
    found = Store()
    found.extend(Quad(NamedNode(f"{WD}Q1"), NamedNode(f"{WDT}P1"), object_) for (object_,) in THREE)
    return found


@pytest.fixture
def endpoint(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with running(store) as found:
        yield found


@pytest.fixture
def waits() -> list[float]:
    """The seconds that the engine waited, without waiting."""
    return []


@pytest.fixture
def engine(endpoint: Endpoint, waits: list[float]) -> Iterator[EndpointEngine]:
    found = EndpointEngine(endpoint.url, sleep=waits.append)
    yield found
    found.close()


def rows_of(result: object) -> set[tuple[object, ...]]:
    assert isinstance(result, Rows)
    return set(result.rows)


class TestRequests:
    @pytest.mark.parametrize("form", [QueryResultsFormat.JSON, QueryResultsFormat.XML])
    def test_rows_and_truths_come_back(
        self, endpoint: Endpoint, engine: EndpointEngine, form: QueryResultsFormat
    ) -> None:
        endpoint.form = form
        result = engine.run(QUERY)
        assert isinstance(result, Rows)
        assert (result.variables, set(result.rows), result.truncated) == (("x",), set(THREE), False)
        assert engine.run("ASK { wd:Q1 wdt:P1 'a' }") is True
        assert engine.run("ASK { wd:Q1 wdt:P1 'z' }") is False

    def test_a_request_says_who_asks_and_what_it_can_read(self, endpoint: Endpoint, engine: EndpointEngine) -> None:
        engine.run(QUERY)
        (request,) = endpoint.requests
        assert request.method == "GET"
        assert request.headers["user-agent"].startswith("refactx/")
        assert "github.com/rpo19/ReFactX" in request.headers["user-agent"]
        assert request.headers["accept"].startswith("application/sparql-results+json")
        assert f"PREFIX wdt: <{WDT}>" in request.query  # for engines that do not know Wikidata's prefixes

    def test_a_long_query_is_posted(self, endpoint: Endpoint, engine: EndpointEngine) -> None:
        long = f"SELECT ?x {{ wd:Q1 wdt:P1 ?x # {'é' * LONGEST_URL}\n}}"
        assert rows_of(engine.run(long)) == set(THREE)
        assert [request.method for request in endpoint.requests] == ["POST"]
        assert endpoint.requests[0].query.endswith(long)

    def test_a_limit_is_sent_and_more_rows_are_noticed(self, endpoint: Endpoint, engine: EndpointEngine) -> None:
        result = engine.run(QUERY, limit=2)
        assert isinstance(result, Rows)
        assert (len(result.rows), result.truncated) == (2, True)
        assert "LIMIT 3" in endpoint.requests[0].query
        result = engine.run(QUERY, limit=3)
        assert isinstance(result, Rows)
        assert (len(result.rows), result.truncated) == (3, False)
        result = engine.run(f"{QUERY} LIMIT 3", limit=1)  # one's own limit stays, and more than asked for are cut off
        assert isinstance(result, Rows)
        assert (len(result.rows), result.truncated) == (1, True)

    def test_parameters_of_the_address_are_kept(self, endpoint: Endpoint) -> None:
        engine = EndpointEngine(f"{endpoint.url}?default-graph-uri=urn%3Ag&key=k")
        assert rows_of(engine.run(QUERY)) == set(THREE)
        assert "default-graph-uri=urn%3Ag&key=k&query=" in endpoint.requests[0].path
        assert "key" not in engine.name

    def test_service_is_passed_on(self, endpoint: Endpoint, engine: EndpointEngine) -> None:
        with running(Store()) as other:
            endpoint.always = Canned(body=b'{"head": {}, "boolean": true}')
            query = f"ASK {{ ?x wdt:P1 ?y SERVICE <{other.url}> {{ ?y ?p ?o }} }}"
            assert engine.run(query) is True
            assert endpoint.requests[0].query.endswith(query)
            assert other.requests == []  # only the endpoint asks it

    def test_several_threads_may_ask(self, endpoint: Endpoint, engine: EndpointEngine) -> None:
        found = list[object]()
        threads = [threading.Thread(target=lambda: found.append(rows_of(engine.run(QUERY)))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [set(THREE)] * 8


class TestPasswords:
    def test_a_password_is_sent_and_never_shown(self, endpoint: Endpoint) -> None:
        engine = EndpointEngine(endpoint.url_of("me:s%3Acret"))
        engine.run(QUERY)
        sent = endpoint.requests[0].headers["authorization"].removeprefix("Basic ")
        assert base64.b64decode(sent) == b"me:s:cret"
        endpoint.always = Canned(401, "text/plain", b"no")
        with pytest.raises(EngineError, match=r"refuses access .HTTP 401 Unauthorized.: does it need a user") as caught:
            engine.run(QUERY)
        for text in (str(caught.value), repr(caught.value), engine.name, repr(engine._address)):
            assert "cret" not in text
            assert "me" not in text.replace("name", "")

    def test_another_server_does_not_get_it(self, endpoint: Endpoint, store: Store) -> None:
        with running(store) as other:
            location = other.url.replace("127.0.0.1", "localhost")
            endpoint.always = Canned(307, "text/plain", headers={"Location": f"{location}?query=ASK{{}}"})
            assert EndpointEngine(endpoint.url_of("me:secret")).run(QUERY) is True
            assert "authorization" not in other.requests[0].headers

    @pytest.mark.parametrize(
        "url", ["ftp://me:secret@host/x", "me:secret@host", "http://", "http://me:secret@[bad/", "x"]
    )
    def test_what_is_no_address(self, url: str) -> None:
        with pytest.raises(InputError, match="begins with http:// or https://") as caught:
            EndpointEngine(url)
        assert "secret" not in str(caught.value)

    def test_a_redirect_to_nowhere(self, endpoint: Endpoint, engine: EndpointEngine) -> None:
        for location in ("ftp://me:secret@host/", "http://[bad", endpoint.url):
            endpoint.always = Canned(302, "text/plain", headers={"Location": location})
            with pytest.raises(EngineError) as caught:
                engine.run(QUERY)
            assert "secret" not in str(caught.value)


class TestFailures:
    def test_an_endpoint_that_is_down(self, waits: list[float]) -> None:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))  # it does not listen
            engine = EndpointEngine(f"http://me:secret@127.0.0.1:{bound.getsockname()[1]}/sparql", sleep=waits.append)
            with pytest.raises(EngineError, match=r"http://127\.0\.0\.1:\d+/sparql cannot be reached: ") as caught:
                engine.run(QUERY)
        assert "secret" not in str(caught.value)
        assert len(waits) == 4
        assert waits[0] >= 1.0
        assert waits[3] > waits[0]

    def test_a_host_that_does_not_exist(self, waits: list[float]) -> None:
        with pytest.raises(EngineError, match="cannot be reached"):
            EndpointEngine("http://no-such-host.invalid/sparql", sleep=waits.append).run(QUERY)

    @pytest.mark.parametrize("status", [429, 502, 503, 504])
    def test_a_busy_endpoint_is_asked_again(
        self, endpoint: Endpoint, engine: EndpointEngine, waits: list[float], status: int
    ) -> None:
        endpoint.replies = [Canned(status, "text/html", headers={"Retry-After": "7"}), Canned(status, "text/html")]
        assert rows_of(engine.run(QUERY)) == set(THREE)
        assert len(endpoint.requests) == 3
        assert waits[0] >= 7
        assert 0 < waits[1] < 7

    def test_too_many_queries_for_longer_than_the_time_limit(
        self, endpoint: Endpoint, engine: EndpointEngine, waits: list[float]
    ) -> None:
        later = format_datetime(datetime.now(UTC) + timedelta(seconds=1000), usegmt=True)
        for header, said in (("1000", "1,000"), (later, r"(1,000|999|998)")):
            endpoint.always = Canned(429, "text/html", headers={"Retry-After": header})
            with pytest.raises(EngineError, match=rf"too many queries \(HTTP 429\), and asks to wait {said} seconds"):
                engine.run(QUERY, seconds=60)
        assert waits == []
        assert len(endpoint.requests) == 2

    def test_a_time_limit(self, endpoint: Endpoint, engine: EndpointEngine, waits: list[float]) -> None:
        endpoint.always = Canned(delay=20)
        with pytest.raises(EngineTimeoutError, match=r"did not answer within 0.2 seconds: give it more time"):
            engine.run(QUERY, seconds=0.2)
        assert waits == []  # a query that is too slow is not asked again

    def test_the_endpoint_ends_a_query(self, endpoint: Endpoint, engine: EndpointEngine) -> None:
        blazegraph = b"java.util.concurrent.TimeoutException\n\tat java.util.concurrent.FutureTask.get(x)"
        for reply in (Canned(500, "text/plain", blazegraph), Canned(body=b'{"head": {"vars": ["x"]}' + blazegraph)):
            endpoint.always = reply
            with pytest.raises(EngineTimeoutError, match="ended the query, which takes too long there"):
                engine.run(QUERY)

    @pytest.mark.parametrize("reply", [HTML, Canned(kind="text/turtle"), Canned(kind="", body=b"<html>")])
    def test_no_results(self, endpoint: Endpoint, engine: EndpointEngine, reply: Canned) -> None:
        endpoint.always = reply
        what = "text/turtle" if reply.kind == "text/turtle" else r"a web page \(HTML\)"
        with pytest.raises(EngineError, match=f"answered with {what} in place of results: is this the address"):
            engine.run(QUERY)

    def test_results_that_end_too_early(self, endpoint: Endpoint, engine: EndpointEngine, waits: list[float]) -> None:
        endpoint.always = Canned(body=b'{"head": {"vars": ["x"]}, "results": {"bindings": [')
        with pytest.raises(EngineError, match=r"the results of .* cannot be read: .*run the query again"):
            engine.run(QUERY)
        endpoint.always = Canned(body=b'{"head": {}, ', cuts=True)
        with pytest.raises(EngineError, match="ended the connection without an answer"):
            engine.run(QUERY)
        assert len(waits) == 4

    def test_the_line_of_an_error_that_says_most(self, endpoint: Endpoint, engine: EndpointEngine) -> None:
        blazegraph = (
            b"SPARQL-QUERY: queryStr=ASK {}\njava.lang.Exception: org.x.MalformedQueryException: at \x1b[31mline 1\n"
        )
        endpoint.always = Canned(400, "text/plain", blazegraph)
        with pytest.raises(SparqlSyntaxError, match=r"refused the query: at \[31mline 1$"):
            engine.run(QUERY)
        endpoint.always = Canned(404, "text/html", b"<html>")
        with pytest.raises(EngineError, match=r"is no endpoint .HTTP 404 Not Found.: expected an address such as"):
            engine.run(QUERY)
        endpoint.always = Canned(599, "text/plain", b"oh")
        with pytest.raises(EngineError, match=r"answered HTTP 599: oh$"):
            engine.run(QUERY)

    @pytest.mark.parametrize(
        ("query", "error", "said"),
        [
            ("SELECT ?x { wd:Q1 wdt:P1 }", SparqlSyntaxError, "line 1, column"),
            ("INSERT DATA { wd:Q1 wdt:P1 1 }", QueryRefusedError, r"a SPARQL update \(INSERT\), which was not run"),
            ("CONSTRUCT { ?x wdt:P1 ?y } WHERE { ?x wdt:P1 ?y }", QueryRefusedError, "a CONSTRUCT query"),
            ("DESCRIBE wd:Q1", QueryRefusedError, "a DESCRIBE query"),
        ],
    )
    def test_what_is_no_query_is_not_sent(
        self, endpoint: Endpoint, engine: EndpointEngine, query: str, error: type[Exception], said: str
    ) -> None:
        with pytest.raises(error, match=said):
            engine.run(query)
        assert endpoint.requests == []


class TestPace:
    def test_turns_of_a_shared_service_are_apart(self) -> None:
        now, waited = [100.0], list[float]()

        def sleep(seconds: float) -> None:
            waited.append(seconds)
            now[0] += seconds

        pace = Pace(INTERVAL, sleep, lambda: now[0])
        for took in (5.0, 0.25, 3.0):
            with pace.turn():
                now[0] += took
            now[0] += 0.5
        assert waited == [0.5, 0.5]

    def test_turns_do_not_overlap(self) -> None:
        pace, inside, most = Pace(0.0), 0, 0

        def ask() -> None:
            nonlocal inside, most
            with pace.turn():
                inside += 1
                most = max(most, inside)
                threading.Event().wait(0.002)
                inside -= 1

        threads = [threading.Thread(target=ask) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert most == 1

    def test_whose_services_are_shared(self) -> None:
        shared = pace_of("query.wikidata.org")
        assert pace_of("query-scholarly.wikidata.org") is shared
        assert pace_of("notwikidata.org") is not shared
