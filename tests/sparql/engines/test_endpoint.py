"""Endpoints, by real HTTP on this machine: what is sent, what comes back, and what goes wrong."""

import base64
import contextlib
import gzip
import re
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from pyoxigraph import BlankNode, Literal, NamedNode, Quad, QueryResultsFormat, Store, Triple
from support.sparql.endpoint import HTML, Canned, Endpoint, running

from refactx.errors import InputError
from refactx.sparql.engines import (
    EndpointEngine,
    EngineError,
    EngineTimeoutError,
    QueryRefusedError,
    Rows,
    SparqlSyntaxError,
    UnreachableError,
)
from refactx.sparql.engines.endpoint import INTERVAL, LONGEST_URL, RateLimit, pace_of, read_address

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
        assert "arxiv.org/abs/2508.16983" in request.headers["user-agent"]
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
        result = engine.run(f"{QUERY} LIMIT 3", limit=1)
        assert isinstance(result, Rows)
        assert (len(result.rows), result.truncated) == (1, True)
        assert endpoint.requests[-1].query.endswith("LIMIT 2")  # one row more, to know that there is one
        endpoint.always = Canned(body=ODD["head"].replace(b"[{", b"[{},{},{"))  # an endpoint that heeds no limit
        result = engine.run(QUERY, limit=2)
        assert isinstance(result, Rows)
        assert (len(result.rows), result.truncated) == (2, True)

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

    @pytest.mark.parametrize(
        "url", ["ftp://me:secret@host/x", "me:secret@host", "http://", "http://me:secret@[bad/", "x"]
    )
    def test_what_is_no_address(self, url: str) -> None:
        with pytest.raises(InputError, match="begins with http:// or https://") as caught:
            EndpointEngine(url)
        assert "secret" not in str(caught.value)


class TestRedirects:
    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    @pytest.mark.parametrize("length", [0, LONGEST_URL])
    def test_the_query_is_asked_at_the_new_address(
        self, endpoint: Endpoint, engine: EndpointEngine, status: int, length: int
    ) -> None:
        endpoint.replies = [Canned(status, "text/plain", headers={"Location": "/new?key=k&query=ASK{}"})]
        assert rows_of(engine.run(f"{QUERY}#{'é' * length}")) == set(THREE)
        old, new = endpoint.requests
        assert (new.method, new.query) == (old.method, old.query)
        assert new.path.startswith("/new?key=k&query=")

    def test_a_password_stays_with_the_server(self, endpoint: Endpoint, store: Store) -> None:
        engine = EndpointEngine(endpoint.url_of("me:secret"))
        endpoint.replies = [
            Canned(
                302,
                "text/plain",
                headers={"Location": "//you:other@HOST/new".replace("HOST", endpoint.url.split("/")[2])},
            )
        ]
        assert rows_of(engine.run(QUERY)) == set(THREE)
        assert endpoint.requests[1].headers["authorization"] == endpoint.requests[0].headers["authorization"]
        with running(store) as other:
            for url in (other.url, endpoint.url.replace("127.0.0.1", "localhost"), "https://kb.example/new"):
                location = url.replace("://", "://you:hidden@") + "?token=hidden"
                endpoint.always = Canned(307, "text/plain", headers={"Location": location})
                with pytest.raises(
                    EngineError, match=f"redirects to another server, {re.escape(url)}, which"
                ) as caught:
                    engine.run(QUERY)
                assert "hidden" not in str(caught.value)
                assert "secret" not in str(caught.value)
            assert other.requests == []

    def test_where_a_redirect_may_lead(self) -> None:
        def allowed(old: str, new: str) -> bool:
            return read_address(f"{old}/sparql").may_redirect_to(read_address(f"{new}/x"))

        assert allowed("http://kb.example", "https://KB.example:443")
        assert allowed("http://kb.example:8080", "https://kb.example:8080")
        assert allowed("http://kb.example:80", "http://kb.example")
        assert not allowed("https://kb.example", "http://kb.example")
        assert not allowed("http://kb.example:8080", "https://kb.example")
        assert not allowed("https://kb.example", "https://kb.example:8443")
        assert not allowed("https://kb.example", "https://www.kb.example")

    def test_what_is_refused_there(self, endpoint: Endpoint, engine: EndpointEngine) -> None:
        endpoint.replies = [Canned(301, headers={"Location": "/new"}), Canned(400, "text/plain", b"no")]
        with pytest.raises(
            SparqlSyntaxError, match=r"/sparql \(redirected to http://[\d.:]+/new\) refused the query: no$"
        ):
            engine.run(QUERY)

    @pytest.mark.parametrize(
        ("location", "said"),
        [
            ("ftp://me:secret@host/", "which is no address of an endpoint"),
            ("http://[bad", "which is no address of an endpoint"),
            ("/sparql", "redirects more than 5 times: give the address of the endpoint itself"),
        ],
    )
    def test_a_redirect_to_nowhere(self, endpoint: Endpoint, engine: EndpointEngine, location: str, said: str) -> None:
        endpoint.always = Canned(302, "text/plain", headers={"Location": location})
        with pytest.raises(EngineError, match=said) as caught:
            engine.run(QUERY)
        assert "secret" not in str(caught.value)
        endpoint.always = Canned(302, "text/plain")
        with pytest.raises(EngineError, match="answered HTTP 302 Found"):
            engine.run(QUERY)


class TestBounds:
    @pytest.fixture
    def engine(self, endpoint: Endpoint) -> EndpointEngine:
        return EndpointEngine(endpoint.url, most_bytes=100_000)

    def test_a_reply_is_read_up_to_a_limit(self, endpoint: Endpoint, engine: EndpointEngine) -> None:
        said = r"answered with more than 0.09537 MiB, the most that is read: ask for less, with a LIMIT"
        for status in (200, 400):
            endpoint.always = Canned(status, body=b" " * 100_001)
            with pytest.raises(EngineError, match=said):
                engine.run(QUERY)
        endpoint.always = Canned(body=gzip.compress(b" " * (64 << 20)), headers={"Content-Encoding": "gzip"})
        with pytest.raises(EngineError, match=said):
            engine.run(QUERY)

    def test_a_compressed_reply(self, endpoint: Endpoint, engine: EndpointEngine) -> None:
        body = ODD["head"].ljust(100_000)
        endpoint.always = Canned(body=gzip.compress(body), headers={"Content-Encoding": "gzip"})
        assert rows_of(engine.run(QUERY)) == {(Literal("a"),)}
        assert endpoint.requests[0].headers["accept-encoding"] == "gzip"
        for coding, said in (("zstd", "compressed its answer as 'zstd'"), ("gzip", "is no gzip"), ("gzip, gzip", "as")):
            endpoint.always = Canned(body=body, headers={"Content-Encoding": coding})
            with pytest.raises(EngineError, match=said):
                engine.run(QUERY)

    def test_a_reply_that_dribbles(self, store: Store) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            done = threading.Event()

            def dribble() -> None:  # a header without end, each byte well within the time limit
                with server.accept()[0] as connection, contextlib.suppress(OSError):
                    connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                    while not done.wait(0.05):
                        connection.sendall(b"x")

            thread = threading.Thread(target=dribble)
            thread.start()
            try:
                engine = EndpointEngine(f"http://127.0.0.1:{server.getsockname()[1]}/sparql")
                with pytest.raises(EngineTimeoutError, match=r"did not answer within 0\.3 seconds"):
                    engine.run(QUERY, seconds=0.3)
            finally:
                done.set()
                thread.join()

    @pytest.mark.parametrize("word", [b"triple", b"\\u0074riple"])
    def test_deep_documents(self, endpoint: Endpoint, word: bytes) -> None:
        """pyoxigraph alone would end the process."""
        part = b'{"type":"%s","value":{"subject":{"type":"uri","value":"a:}}"},"object":' % word
        body = b'{"head":{"vars":["x"]},"results":{"bindings":[{"x":%s%s}]}}' % (part * 20_000, b"{}" + b"}}" * 20_000)
        endpoint.always = Canned(body=body)
        with pytest.raises(EngineError, match="nested more than 256 deep"):
            EndpointEngine(endpoint.url).run(QUERY)
        xml = (
            b'<sparql xmlns="http://www.w3.org/2005/sparql-results#"><head><variable name="x"/></head><results><result>'
            b'<binding name="x">%s<literal>c</literal>%s</binding></result></results></sparql>'
        )
        start = b"<triple><subject><uri>a:</uri></subject><predicate><uri>b:</uri></predicate><object>"
        xml %= (start * 20_000, b"</object></triple>" * 20_000)
        endpoint.always = Canned(kind="application/sparql-results+xml", body=xml)
        with pytest.raises(EngineError, match="nested more than 256 deep"):
            EndpointEngine(endpoint.url).run(QUERY)

    @pytest.mark.parametrize(
        "body",
        [
            b"[" * 1_000_000,
            b'{"head":{"vars":["x"]},"x":' + b"[" * 100_000,
            b'<!DOCTYPE s [<!ENTITY a "b">]><sparql>&a;',
        ],
    )
    def test_bombs(self, endpoint: Endpoint, body: bytes) -> None:
        kind = "application/sparql-results+xml" if body.startswith(b"<") else "application/json"
        endpoint.always = Canned(kind=kind, body=body)
        with pytest.raises(EngineError, match=r"the results of .* cannot be read") as caught:
            EndpointEngine(endpoint.url).run(QUERY)
        assert len(str(caught.value).splitlines()) == 1


XSD = "http://www.w3.org/2001/XMLSchema#"
ODD = {
    "head": b'{"head":{"vars":["x"]},"results":{"bindings":[{"x":{"type":"literal","value":"a"}}]}}',
    "no head": b'{"results":{"bindings":[{"x":{"type":"literal","value":"a"}}]}}',
    "sign": b'{"head":{"vars":["?x","?x"]},"results":{"bindings":[{"?x":{"type":"literal","value":"a"}}]}}',
    "error": b'{"head":{"vars":["x"]},"results":{"bindings":[{"x":{"type":"literal","value":"a"}}]},"meta":{}}',
}
TERMS = {
    f'"typed-literal","datatype":"{XSD}integer","value":"5"': Literal(5),
    '"literal","datatype":null,"value":"5"': Literal("5"),
    '"literal","datatype":"","xml:lang":null,"value":""': Literal(""),
    '"literal","xml:lang":"","value":"v"': Literal("v"),
    '"literal","lang":"fr","value":"v"': Literal("v", language="fr"),
    '"literal","xml:lang":"en_US","value":"v"': Literal("v", language="en-US"),
    f'"literal","xml:lang":"fr","datatype":"{XSD}string","value":"v"': Literal("v", language="fr"),
    '"literal","value":5': Literal(5),
    '"literal","value":5.10': Literal("5.10", datatype=NamedNode(f"{XSD}decimal")),
    f'"literal","value":5,"datatype":"{XSD}decimal"': Literal("5", datatype=NamedNode(f"{XSD}decimal")),
    '"literal","value":1e3': Literal("1e3", datatype=NamedNode(f"{XSD}double")),
    '"literal","value":true': Literal(True),
    '"iri","value":"http://a"': NamedNode("http://a"),
    '"uri","value":"http://a/b c%|é"': NamedNode("http://a/b%20c%25%7Cé"),
    '"bnode","value":"nodeID://b10012"': BlankNode("b0"),
    '"triple","value":{"s":{"type":"iri","value":"a:"},"p":{"type":"uri","value":"b:"},"o":{"type":"literal","value":1}}':
        Triple(NamedNode("a:"), NamedNode("b:"), Literal(1)),
    '"literal","value":null': None,
}  # fmt: skip


class TestOddDocuments:
    @pytest.mark.parametrize("body", ODD.values(), ids=ODD)
    def test_documents(self, endpoint: Endpoint, engine: EndpointEngine, body: bytes) -> None:
        endpoint.always = Canned(body=body)
        assert engine.run(QUERY) == Rows(("x",), [(Literal("a"),)])

    @pytest.mark.parametrize(("term", "meant"), TERMS.items(), ids=list(TERMS))
    def test_terms(self, endpoint: Endpoint, engine: EndpointEngine, term: str, meant: object) -> None:
        body = ODD["head"].replace(b'{"type":"literal","value":"a"}', b'{"type":%s}' % term.encode())
        endpoint.always = Canned(body=body)
        assert engine.run(QUERY) == Rows(("x",), [(meant,)])

    def test_blank_nodes_stay_apart(self, endpoint: Endpoint, engine: EndpointEngine) -> None:
        names = ["nodeID://b1", "b1", "b0", "nodeID://b1", "nodeID___b1"]
        rows = ",".join(f'{{"x":{{"type":"bnode","value":"{name}"}}}}' for name in names)
        endpoint.always = Canned(body=f'{{"head":{{"vars":["x"]}},"results":{{"bindings":[{rows}]}}}}'.encode())
        result = engine.run(QUERY)
        assert isinstance(result, Rows)
        assert [str(term) for (term,) in result.rows] == ["_:b0", "_:b1", "_:b2", "_:b0", "_:b3"]

    @pytest.mark.parametrize(
        "body", [b'{"head":{},"boolean":"true"}', b'{"head":{"vars":null},"boolean":true}', b'{"boolean":true}']
    )
    def test_truths(self, endpoint: Endpoint, engine: EndpointEngine, body: bytes) -> None:
        endpoint.always = Canned(body=body)
        assert engine.run("ASK {}") is True
        with pytest.raises(EngineError, match="answered a SELECT with true or false"):
            engine.run(QUERY)

    @pytest.mark.parametrize(
        "body",
        [
            b'{"head":{},"boolean":"perhaps"}',
            b'{"head":{"vars":["x"]},"results":{}}',
            b'{"head":{"vars":["x"]},"results":{"bindings":[3]}}',
            b'{"head":{"vars":[1]},"results":{"bindings":[{}]}}',
            b'{"head":{"vars":["x"]},"results":{"bindings":[{"x":"a"}]}}',
            b'{"head":{"vars":["x"]},"results":{"bindings":[{"x":{"type":"file","value":"a"}}]}}',
            b'{"head":{"vars":["x"]},"results":{"bindings":[{"x":{"type":"uri","value":"a"}}]}}',
            b'{"head":{"vars":["x"]},"results":{"bindings":[{"x":{"type":"triple","value":{"s":3}}}]}}',
            b"[]",
            b"",
        ],
    )
    def test_what_has_no_plain_meaning(self, endpoint: Endpoint, engine: EndpointEngine, body: bytes) -> None:
        endpoint.always = Canned(body=body)
        with pytest.raises(EngineError, match=r"^the results of .* cannot be read: .*$"):
            engine.run(QUERY)


class TestFailures:
    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.1"])  # of the last one, it does not know
    def test_an_endpoint_that_is_down(self, waits: list[float], host: str, caplog: pytest.LogCaptureFixture) -> None:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))  # it does not listen
            engine = EndpointEngine(f"http://me:secret@{host}:{bound.getsockname()[1]}/sparql", sleep=waits.append)
            with pytest.raises(
                UnreachableError, match=rf"http://{re.escape(host)}:\d+/sparql cannot be reached"
            ) as caught:
                engine.run(QUERY)
        assert "secret" not in str(caught.value) + caplog.text
        assert waits == []  # what is refused now is refused in a minute

    def test_a_host_that_does_not_exist(self, waits: list[float]) -> None:
        with pytest.raises(EngineError, match="cannot be reached"):
            EndpointEngine("http://no-such-host.invalid/sparql", sleep=waits.append).run(QUERY)

    @pytest.mark.parametrize("status", [429, 502, 503, 504])
    def test_a_busy_endpoint_is_asked_again(
        self,
        endpoint: Endpoint,
        engine: EndpointEngine,
        waits: list[float],
        status: int,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        endpoint.replies = [Canned(status, "text/html", headers={"Retry-After": "7"}), Canned(status, "text/html")]
        assert rows_of(engine.run(QUERY)) == set(THREE)
        assert len(endpoint.requests) == 3
        assert waits[0] >= 7
        assert 0 < waits[1] < 7
        for at, (wait, said) in enumerate(zip(waits, caplog.messages, strict=True), 2):
            assert said.endswith(f" (attempt {at} of 5 in {wait:.0f} s)")

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

        pace = RateLimit(INTERVAL, sleep, lambda: now[0])
        for took in (5.0, 0.25, 3.0):
            with pace.turn():
                now[0] += took
            now[0] += 0.5
        assert waited == [0.5, 0.5]

    def test_turns_do_not_overlap(self) -> None:
        pace, inside, most = RateLimit(0.0), 0, 0

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
