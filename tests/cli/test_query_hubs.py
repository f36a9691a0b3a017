"""`refactx query` on a graph with a hub, a cycle and values of several kinds: an answer, or one clear line."""

import pytest
from click.testing import CliRunner
from support.ingest.graph_twin import Line, written
from support.ingest.tiny import ingest_tiny

from refactx.cli.main import cli
from refactx.errors import RefactxError
from refactx.ingest.source_options import Selection
from refactx.walks.facts import TreeFacts

NAMES = {
    "Q1": "city", "Q2": "Graz", "Q3": "Linz", "Q4": "Wels", "Q5": "Styria", "P31": "instance of", "P17": "country",
    "P155": "twinned with", "P1082": "population", "P571": "inception", "P1813": "motto",
}  # fmt: skip
LINES: list[Line] = [
    *(("label", id_, name, "en") for id_, name in NAMES.items()),
    *(("claim", one, "P31", "Q1") for one in ("Q2", "Q3", "Q4")),
    ("claim", "Q2", "P17", "Q5"),
    *(("claim", one, "P155", other) for one, other in (("Q2", "Q3"), ("Q3", "Q4"), ("Q4", "Q2"))),
    *(("literal", one, "P1082", number, "^^decimal") for one, number in (("Q2", "300"), ("Q3", "200"), ("Q4", "60"))),
    ("literal", "Q2", "P571", "1128-01-01T00:00:00Z", "^^dateTime"),
    ("literal", "Q3", "P571", "-15.5", "^^decimal"),
    ("literal", "Q2", "P1813", "Graz is great", "en"),
]


@pytest.fixture(scope="module")
def hub_url(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database in which `city` is a hub: it has more instances than the limit of inverse facts."""
    path = tmp_path_factory.mktemp("hubs") / "claims.nt"
    path.write_text("".join(written(line) + "\n" for line in LINES))
    ingest_tiny(module_url, path, selection=Selection(inverse=True, inverse_limit=2))
    return module_url


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index has more facts than are scanned."""
    monkeypatch.setattr(TreeFacts, "size", 6_000_000)


def answer(line: str, url: str) -> str:
    done = CliRunner().invoke(cli, ["query", line, "--db", url], catch_exceptions=False)
    assert done.exit_code == 0
    return next(text for text in done.stdout.splitlines() if text.startswith("Answer: ")).removeprefix("Answer: ")


def complaint(line: str, url: str) -> str:
    done = CliRunner().invoke(cli, ["query", line, "--db", url])
    assert isinstance(done.exception, RefactxError)
    assert (done.stdout, done.stderr) == ("", "")
    assert "\n" not in str(done.exception)
    return str(done.exception)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("list <city> <has instance>", "Graz; Linz; Wels"),
        ("most 2 <city> <has instance> by <population>", "Graz; Linz"),
        ("list <Graz> <twinned with>*", "Graz; Linz; Wels"),
        ("count <Graz> <twinned with>+", "3"),
        ("list <city> <has instance> which <twinned with>* is <Linz>", "Graz; Linz; Wels"),
    ],
)
def test_hubs_are_scanned_for_and_a_cycle_ends(hub_url: str, line: str, expected: str) -> None:
    assert "; ".join(sorted(answer(line, hub_url).split("; "))) == expected


@pytest.mark.usefixtures("large")
def test_a_hub_of_a_large_index_is_counted_and_narrowed(hub_url: str) -> None:
    assert answer("count <city> <has instance>", hub_url) == "3"
    assert answer("list <city> <has instance> which <country> <Styria>", hub_url) == "Graz"


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("line", ["list <city> <has instance>", "most <city> <has instance> by <population>"])
def test_a_hub_of_a_large_index_without_a_filter_is_refused(hub_url: str, line: str) -> None:
    assert complaint(line, hub_url) == (
        "<city> has 3 facts with <has instance>: they are counted, but not in the index, and to look for them is to scan "
        "6,000,000 facts. Narrow the set to members of another entity, or ingest with a larger --inverse-limit"
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("list <city>", "goes from its start over at least one predicate: write one after <city>"),
        ("list <Gratz> <population>", "no fact begins with <Gratz>: did you mean <Graz>"),
        ("list <300> <population of>", "no fact begins with <300>"),
        ("list <Graz> <population of>", "<population of> is no predicate of <Graz>: did you mean <population>"),
        ("most <Graz> <twinned with>* by <inception>", "<1128-01-01> is a time, <-15.5> a quantity"),
        ("most <city> <has instance> by <motto>", "<Graz is great> is neither a time nor a quantity"),
        ("list <city> <has instance> which <motto> over <3>", "are such as <Graz is great>: <3> cannot be compared"),
        ("most <city> <has instance> by <country>", "the values of <country> are entities, which have no order"),
    ],
)
def test_what_cannot_be_answered_is_one_clear_line(hub_url: str, line: str, expected: str) -> None:
    assert expected in complaint(line, hub_url)
