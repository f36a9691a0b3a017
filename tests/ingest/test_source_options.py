"""The selection of facts: the effect of each option, its account, and the error for each mistake."""

from pathlib import Path
from typing import Any

import pytest
from support.ingest.graph_twin import Line, build, facts_of, names_of

from refactx.errors import InputError
from refactx.ingest.source_options import Selection, languages_of, properties_of

LINES: list[Line] = [
    *(("label", f"Q{number}", name, "en") for number, name in enumerate(["Ann", "Bob", "Eve"], 1)),
    *(("label", f"P{number}", name, "en") for number, name in enumerate(["likes", "age", "id number"], 1)),
    ("label", "Q1", "Anna", "de"),
    ("description", "Q1", "a person", "en"),
    ("description", "P1", "a relation", "en"),
    ("description", "Q2", "eine Person", "de"),
    ("external id", "P3"),
    ("claim", "Q1", "P1", "Q2"),
    ("claim", "Q3", "P1", "Q1"),
    ("literal", "Q1", "P2", "7", None),
    ("literal", "Q2", "P2", "acht", "de"),
    ("literal", "Q2", "P3", "0042", None),
    ("ready", "Zoe", "likes", "Bob"),
]
ANN = "Ann (a person)"
DESCRIPTIONS = {(ANN, "description", "a person"), ("likes", "description", "a relation")}
CLAIMS = {(ANN, "likes", "Bob"), ("Eve", "likes", ANN), (ANN, "age", "7"), ("Zoe", "likes", "Bob")}


@pytest.mark.parametrize(
    ("selection", "facts", "dropped"),
    [
        (
            Selection(),
            CLAIMS | DESCRIPTIONS,
            {"external identifier": 1, "other language": 3, "property datatype": 1, "unused name": 1},
        ),
        (
            Selection(keep_external_ids=True),
            CLAIMS | DESCRIPTIONS | {("Bob", "id number", "0042")},
            {"other language": 3, "property datatype": 1},
        ),
        (
            Selection(descriptions=False),
            CLAIMS,
            {"description": 1, "external identifier": 1, "other language": 3, "property datatype": 1, "unused name": 1},
        ),
        (
            Selection(properties=frozenset({"P2", "P99"}), descriptions=False),
            {(ANN, "age", "7"), ("Zoe", "likes", "Bob")},
            {"description": 1, "other language": 3, "other property": 3, "property datatype": 1, "unused name": 4},
        ),
        (
            Selection(limit=1),
            {(ANN, "likes", "Bob"), (ANN, "age", "7"), (ANN, "description", "a person")},
            {
                "beyond the limit": 3,
                "external identifier": 1,
                "other language": 3,
                "property datatype": 1,
                "unused name": 2,
            },
        ),
        (
            Selection(languages=("de", "en"), aliases=False, limit=4),
            {
                ("Anna (a person)", "likes", "Bob (eine Person)"),
                ("Eve", "likes", "Anna (a person)"),
                ("Anna (a person)", "age", "7"),
                ("Bob (eine Person)", "age", "acht"),
                ("Anna (a person)", "description", "a person"),
                ("Bob (eine Person)", "description", "eine Person"),
                ("likes", "description", "a relation"),
            },
            {"beyond the limit": 1, "duplicate": 1, "external identifier": 1, "property datatype": 1, "unused name": 1},
        ),
    ],
)
def test_an_option_selects_facts_and_every_line_is_accounted_for(
    tmp_path: Path, selection: Selection, facts: set[Any], dropped: dict[str, int]
) -> None:
    built = build(tmp_path, LINES, selection)
    assert set(facts_of(built)) == facts
    assert built.report.dropped == dropped
    assert built.report.lines_read == len(LINES) == built.report.kept + sum(dropped.values())


@pytest.mark.parametrize(
    ("options", "there"),
    [
        ({}, False),
        ({"inverse": True}, True),
        ({"inverse": True, "aliases": False}, False),
        ({"aliases": True}, True),
        ({"aliases": True, "languages": ("de",)}, False),
        ({"aliases": True, "descriptions": False, "properties": frozenset({"P2"})}, True),
    ],
)
def test_aliases_come_with_inverse_facts_by_default(tmp_path: Path, options: dict[str, Any], there: bool) -> None:
    lines: list[Line] = [*LINES, ("alias", "Q1", "Annie", "en")]
    built = build(tmp_path, lines, Selection(**options))
    assert (("Annie (alias)", "alias of", ANN) in facts_of(built)) is there
    assert built.report.aliases == there
    assert built.report.lines_read == len(lines) == built.report.kept + sum(built.report.dropped.values())


def test_a_limit_keeps_items_before_properties_and_these_before_ready_made_facts(tmp_path: Path) -> None:
    subjects = [
        {subject for subject, _, _ in facts_of(build(tmp_path, LINES, Selection(limit=limit)))} for limit in range(1, 6)
    ]
    assert subjects == [{ANN}, {ANN, "Eve"}, {ANN, "Eve", "likes"}, *[{ANN, "Eve", "likes", "Zoe"}] * 2]


def test_names_are_counted_by_the_rule_that_made_them(tmp_path: Path) -> None:
    lines: list[Line] = [
        *LINES,
        ("label", "Q4", "Bob", "en"),
        ("title", "Q3", "Eva", "en"),
        ("title", "Q2", "Bob", "en"),
    ]
    report = build(tmp_path, lines, Selection()).report
    assert report.names == {"title": 1, "label (description)": 1, "label": 2, "with id": 1}
    assert (report.entities, report.collisions) == (5, 1)


def test_a_redirect_leads_to_the_id_of_its_target(tmp_path: Path) -> None:
    lines: list[Line] = [*LINES, ("redirect", "Q8", "Q9"), ("redirect", "Q9", "Q2"), ("claim", "Q3", "P1", "Q8")]
    built = build(tmp_path, [*lines, ("redirect", "Q7", "Q7"), ("claim", "Q3", "P1", "Q7")], Selection())
    assert ("Eve", "likes", "Bob") in facts_of(built)
    assert names_of(built)["Bob"] == ("Q2", None)
    assert built.report.dropped["redirect"] == 3
    assert built.report.dropped["object has no label"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"properties": frozenset()}, "names no property"),
        ({"properties": frozenset({"P1", "Q5"})}, "'Q5' is not a property: expected ids such as P31"),
        ({"languages": ()}, "is not a list of languages: expected 1 to 30"),
        ({"languages": ("en", "EN")}, "'en,en' is not a list of languages"),
        ({"languages": ("english language",)}, "is not a language code: expected codes"),
        (
            {"languages": tuple(f"a{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(31))},
            "is not a list of languages",
        ),
        ({"limit": 0}, "a limit of 0 subjects"),
        ({"inverse": True, "inverse_limit": 0}, "an inverse limit of 0"),
        ({"inverse_names": (("P57", "director of"),)}, "add --inverse"),
    ],
)
def test_a_selection_that_cannot_be_used_is_an_error(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Selection(**arguments)


def test_properties_are_read_from_a_list_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "properties.txt"
    file.write_text("\ufeff# mine\nP31, P569\r\n\nP57 # director\n")
    assert properties_of(str(file)) == {"P31", "P569", "P57"}
    assert properties_of("P31,P569 ,P31") == {"P31", "P569"}
    assert languages_of("de, en ,mul") == ("de", "en", "mul")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"P31\nQ5\n", r"p\.txt:2: 'Q5' is not a property"),
        (b"# nothing\n", r"p\.txt names no property"),
        (b"P31\xff\n", r"p\.txt is not UTF-8"),
    ],
)
def test_a_bad_file_of_properties_is_an_error(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "p.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        properties_of(str(tmp_path / "p.txt"))


@pytest.mark.parametrize("written", ["P31,Q5", "", "no/such/file"])
def test_what_is_neither_a_list_nor_a_file_is_an_error(written: str) -> None:
    with pytest.raises(InputError, match="neither a list of properties nor a file"):
        properties_of(written)
