"""`refactx sparql`, as a user types it."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyoxigraph import QueryResultsFormat, parse_query_results
from support.command import complains, run_refactx
from support.ingest.living_index import LivingIndex
from support.sparql.endpoint import HTML, Canned, Endpoint, running

from refactx.cli.main import cli
from refactx.errors import RefactxError
from refactx.sparql.store import build_store, open_store

Q = "https://www.wikidata.org/wiki/"
CHILDREN = "SELECT ?x { <Ann> <child> ?x } ORDER BY ?x"
COUPLES = "SELECT ?x ?y { <Ann> <child> ?x . ?x <spouse> ?y OPTIONAL { ?x <size> ?n } } ORDER BY ?x"


@pytest.fixture(scope="module")
def endpoint(stored: LivingIndex) -> Iterator[Endpoint]:
    with stored.open() as index, open_store(index) as store, running(store.oxigraph) as found:
        yield found


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def sparql(living: LivingIndex | None, *arguments: object, text: str = "") -> Result:
    """The command in this process, without a terminal."""
    given = [] if living is None else ["--db", living.url, "--index", living.name]
    return CliRunner().invoke(cli, ["sparql", *map(str, (*arguments, *given))], input=text)


def shown(living: LivingIndex | None, *arguments: object, **options: Any) -> str:
    done = sparql(living, *arguments, **options)
    assert done.exit_code == 0, (done.exception, done.output)
    return done.stdout


def refused(living: LivingIndex | None, *arguments: object, **options: Any) -> str:
    """The error of a command, which is raised before anything is printed."""
    done = sparql(living, *arguments, **options)
    assert isinstance(done.exception, RefactxError), (done.exception, done.output)
    assert done.stdout == ""
    assert done.stderr == ""
    return str(done.exception)


class TestResults:
    def test_as_a_user_types_it(self, stored: LivingIndex) -> None:
        done = run_refactx("sparql", COUPLES, "--index", "stored", "--db", stored.url)
        assert done.stdout.splitlines() == [
            f"x{' ' * 37}y",
            f"Bob {Q}Q3  Dan {Q}Q5",
            f"Eve {Q}Q4  Dan {Q}Q5",
        ]
        assert done.stderr.splitlines() == [
            "refactx: <Ann> is taken as <Ann (a poet)>; 1 other has this name: <Ann (a town)>"
        ]
        assert done.returncode == 0

    def test_the_tree_answers_walks_without_a_store(self, people: LivingIndex) -> None:
        query = "SELECT ?x { <Ann> <child> ?x }"
        assert shown(people, query) == shown(people, query, "--engine", "tree")
        assert set(shown(people, query).splitlines()) == {"x", f"Bob {Q}Q3", f"Eve {Q}Q4"}
        error = refused(people, COUPLES)
        assert (
            "without a store, an index answers queries of one chain of facts alone, and this query has OPTIONAL"
            in error
        )
        assert error.endswith("index 'people' has no store: run `refactx store build people`")
        assert "has no store: run `refactx store build people`" in refused(people, query, "--engine", "store")

    def test_formats(self, stored: LivingIndex) -> None:
        wd = "http://www.wikidata.org/entity/"
        assert sparql(stored, CHILDREN, "--format", "csv").stdout_bytes == f"x\r\n{wd}Q3\r\n{wd}Q4\r\n".encode()
        assert shown(stored, CHILDREN, "--format", "tsv") == f"?x\n<{wd}Q3>\n<{wd}Q4>\n"
        text = shown(stored, CHILDREN, "--json")
        assert text == shown(stored, CHILDREN, "--format", "json")
        read = parse_query_results(text.encode(), format=QueryResultsFormat.JSON)
        assert [row["x"].value for row in read] == [f"{wd}Q3", f"{wd}Q4"]  # type: ignore[union-attr]
        assert "exclude each other" in refused(stored, CHILDREN, "--json", "--format", "csv")

    def test_values_and_labels(self, stored: LivingIndex) -> None:
        query = "SELECT ?d ?m ?p ?l ?z { <Eve> <day> ?d ; <motto> ?m ; ?p ?m ; rdfs:label ?l }"
        assert shown(stored, query).splitlines()[1].split("  ") == ["1990-01-01", "Be", f"motto {Q}Property:P7", "Eve"]

    def test_a_truth(self, stored: LivingIndex) -> None:
        for query, answer in (("ASK { <Bob> <spouse> <Dan> }", "yes"), ("ASK { <Dan> <spouse> <Bob> }", "no")):
            assert shown(stored, query) == f"{answer}\n"
            assert json.loads(shown(stored, query, "--json"))["boolean"] is (answer == "yes")

    def test_a_limit(self, stored: LivingIndex) -> None:
        done = sparql(stored, CHILDREN.replace("<Ann>", "<Ann (a poet)>"), "--limit", 1)
        assert done.stdout.splitlines() == ["x", f"Bob {Q}Q3"]
        assert done.stderr == "refactx: there are more rows: see --limit\n"
        many = "SELECT ?a ?b ?c { ?a ?p ?b . ?d ?q ?c }"
        assert len(shown(stored, many).splitlines()) == 51
        assert len(shown(stored, many, "--format", "csv").splitlines()) > 52

    def test_a_query_on_standard_input(self, stored: LivingIndex) -> None:
        text = "# the children\nSELECT ?x {\n  <Ann (a poet)> <child> ?x\n}\nORDER BY ?x\n"
        assert shown(stored, text=text) == shown(stored, "-", text=text) == shown(stored, text)
        assert "the query is empty" in refused(stored, text=" \n")

    def test_a_query_in_a_file(self, stored: LivingIndex, tmp_path: Path) -> None:
        path = tmp_path / "q.rq"
        path.write_text(f"\ufeff{CHILDREN}", encoding="utf-8")
        assert shown(stored, path) == shown(stored, CHILDREN) == shown(stored, "-", text=f"\ufeff{CHILDREN}")
        assert "nofile.rq is no query, and no file that can be read" in refused(stored, "nofile.rq")
        path.write_bytes(b"caf\xe9")
        assert "it is not text in UTF-8" in refused(stored, path)

    def test_a_function_that_no_engine_has(self, stored: LivingIndex) -> None:
        assert "use a function of SPARQL 1.1" in refused(stored, "SELECT (<http://e.org/f>(1) AS ?x) {}")


class TestNames:
    def test_names_without_ids(self, db_url: str, tmp_path: Path) -> None:
        living = LivingIndex(db_url, tmp_path, "ready")
        living.ingest("Danny knows Ewan", "Danny made Trainspotting", "Ewan made 7")
        query = "SELECT ?x { <Danny> <knows> ?y . ?y <made> ?x }"
        assert "'Danny' has no id: index 'ready' has no store" in refused(living, query)
        with living.open() as index:
            build_store(index)
        assert shown(living, query) == "x\n7\n"
        assert shown(living, "SELECT ?p ?x { <Danny> ?p ?x . ?p ?q ?r } ORDER BY ?p").splitlines() == [
            "p      x",
            "knows  Ewan",
            "made   Trainspotting",
        ]
        assert "did you mean <Danny>" in refused(living, "ASK { <Dany> <knows> ?x }")
        done = sparql(living, "SELECT ?x { <Ewan> <knows> ?x }")
        assert done.stderr == "refactx: nothing matches `<Ewan> <knows> ?x`: the other way round it does\n"

    def test_unknown_names_have_near_ones(self, stored: LivingIndex) -> None:
        assert "<Bobb> is the name of nothing in the index: did you mean <Bob>" in refused(
            stored, "ASK { <Bobb> ?p ?o }"
        )
        assert "did you mean <spouse>" in refused(stored, "ASK { <Bob> <spuose> ?o }")

    def test_an_explanation(self, stored: LivingIndex) -> None:
        done = sparql(stored, "SELECT ?x { <Bob> <child> ?x }")
        assert done.stdout == "x\n"
        assert done.stderr == "refactx: nothing matches `<Bob> <child> ?x`: the other way round it does\n"
        done = sparql(stored, "ASK { <Bob> <child> ?x }", "--explain")
        first, second = done.stderr.splitlines()
        assert re.fullmatch(r"refactx: store answered in \d+\.\d+ s: ASK { wd:Q3 wdt:P3 \?x }", first)
        assert second.startswith("refactx: nothing matches `<Bob> <child> ?x`")
        assert sparql(stored, "ASK { <Bob> <child> ?x }").stderr == ""
        assert "tree answered in" in sparql(stored, "ASK { <Bob> <spouse> ?x }", "--explain", "--engine", "tree").stderr


class TestMistakes:
    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            (["SELECT ?x {\n <Ann> <child> ?x"],
             "this is not SPARQL: line 1, column 11, at '{ <Ann> <child> ?x': the bracket { is not"),
            (["how many children?"], "this is not SPARQL: line 1, column 1, at 'how many children?': expected as in SELECT"),
            (["INSERT DATA { <a> <b> <c> }"], "this is a SPARQL update (INSERT), which was not run"),
            (["CONSTRUCT { ?x ?y ?z } WHERE { ?x ?y ?z }"], "this is a CONSTRUCT query, whose result is a graph: write SELECT"),
            (["SELECT ?x", "{ ?x ?y ?z }"], "there are 2 arguments, expected one query: put it in quotes"),
            (["ASK { }", "--endpoint", "http://x/", "--engine", "tree"], "--run-on and --engine exclude each other"),
            (["ASK { SERVICE <http://a> { } }"], "SERVICE <http://a> asks another server"),
        ],
    )  # fmt: skip
    def test_one_line(self, stored: LivingIndex, arguments: list[str], error: str) -> None:
        assert error in refused(stored, *arguments)
        if "SERVICE" in arguments[0] or "hint" in arguments[0]:
            assert error in refused(stored, *arguments, "--engine", "tree")

    @pytest.mark.parametrize("arguments", [["-"], ["ASK { ?x ?y 'caf\udce9' }"], ["to-pgmr", "-"], ["from-pgmr"]])
    def test_bytes_that_are_no_text(self, stored: LivingIndex, arguments: list[str]) -> None:
        done = subprocess.run(
            [Path(sys.executable).with_name("refactx"), "sparql", *arguments, "--db", stored.url, "--index", "stored"],
            input=b"ASK { ?x ?y 'caf\xe9' }", capture_output=True, check=False, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (2, b""), done.stderr
        (line,) = done.stderr.decode().splitlines()
        assert "is not text in UTF-8" in line

    @pytest.mark.long
    def test_as_a_user_types_them(self, stored: LivingIndex) -> None:
        given = ("--db", stored.url, "--index", "stored")
        assert "line 1, column 13: <Bobb> is the name of nothing" in complains(
            "sparql", "SELECT ?x { <Bobb> ?p ?x }", *given
        )
        assert "no such option" in complains("sparql", "ASK { }", "--no-such-option").lower()
        assert "there is no index 'nope'" in complains("sparql", "ASK { }", "--db", stored.url, "--index", "nope")


class TestEndpoint:
    def test_it_needs_no_index_for_ids(self, endpoint: Endpoint) -> None:
        query = "SELECT ?x ?n { wd:Q1 wdt:P3 ?x . ?x rdfs:label ?n } ORDER BY ?x"
        found = shown(None, query, "--endpoint", endpoint.url, "--db", "postgresql://no-such-host.invalid/x", "--json")
        assert [row["n"]["value"] for row in json.loads(found)["results"]["bindings"]] == ["Bob", "Eve"]

    def test_labels_are_those_of_an_index(self, endpoint: Endpoint, stored: LivingIndex) -> None:
        assert shown(stored, COUPLES, "--endpoint", endpoint.url) == shown(stored, COUPLES)

    def test_a_table_without_an_index_has_the_labels_of_the_endpoint(self, endpoint: Endpoint) -> None:
        found = shown(None, "SELECT ?x { wd:Q1 wdt:P3 ?x } ORDER BY ?x", "--endpoint", endpoint.url)
        assert found.splitlines() == ["x", f"Bob {Q}Q3", f"Eve {Q}Q4"]

    def test_an_explanation_is_asked_for(self, endpoint: Endpoint) -> None:
        query, before = "SELECT ?x { wd:Q3 wdt:P3 ?x }", len(endpoint.requests)
        assert sparql(None, query, "--endpoint", endpoint.url).stderr == ""
        assert len(endpoint.requests) == before + 1  # a table without rows needs no labels
        reason = "refactx: nothing matches `wd:Q3 wdt:P3 ?x`: the other way round it does"
        assert sparql(None, query, "--endpoint", endpoint.url, "--explain").stderr.splitlines()[1] == reason

    @pytest.mark.parametrize(
        ("reply", "error"),
        [
            (HTML, "answered with a web page (HTML) in place of results: is this the address of a SPARQL endpoint"),
            (Canned(429, "text/plain", headers={"Retry-After": "900"}),
             "had too many queries (HTTP 429), and asks to wait 900 seconds"),
            (Canned(delay=9), "did not answer within 0.3 seconds: give it more time (--timeout)"),
            (Canned(403, "text/plain", b"secret"), "refuses access (HTTP 403 Forbidden)"),
        ],
    )  # fmt: skip
    def test_failures_are_one_line_without_the_password(self, endpoint: Endpoint, reply: Canned, error: str) -> None:
        endpoint.replies = [reply]
        url = endpoint.url_of("me:pa55") + "?key=k3y"
        line = complains("sparql", "ASK { wd:Q1 wdt:P3 ?x }", "--endpoint", url, "--timeout", "0.3")
        assert line.startswith(f"refactx: {endpoint.url} ")
        assert error in line
        assert "pa55" not in line
        assert "k3y" not in line

    def test_an_endpoint_that_is_down(self) -> None:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))  # it does not listen
            url = f"http://me:pa55@127.0.0.1:{bound.getsockname()[1]}/sparql"
            line = complains("sparql", "ASK { }", "--endpoint", url, "--timeout", "0.5")
        assert "cannot be reached: " in line
        assert "pa55" not in line

    def test_what_is_no_address(self) -> None:
        line = complains("sparql", "ASK { }", "--endpoint", "me:pa55@query.example/sparql")
        assert "the address of an endpoint begins with http:// or https://" in line
        assert "pa55" not in line


def test_help_has_the_options_and_the_commands() -> None:
    text = CliRunner().invoke(cli, ["sparql", "--help"]).output
    assert "--run-on WHERE" in text
    assert "to-pgmr" in text
    assert max(map(len, text.splitlines())) <= 100
    assert "FILE" in CliRunner().invoke(cli, ["sparql", "to-pgmr", "--help"]).output
