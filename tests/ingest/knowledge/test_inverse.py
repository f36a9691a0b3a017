"""Inverse facts: their names, which of them there are, and the ids of their predicates."""

import itertools
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.ingest.graph_twin import Expected, Line, build, expected, facts_of, hubs_of, names_of

from refactx.english import inverse_of
from refactx.errors import InputError
from refactx.ingest.knowledge.inverse import read_inverse_names
from refactx.ingest.profile import Profile
from refactx.ingest.source_options import Selection

INVERSE = Selection(inverse=True)


def labels(**names: str) -> list[Line]:
    return [("label", entity, name, "en") for entity, name in names.items()]


FILM = labels(Q1="Slumdog", Q2="Boyle", P57="director")
DIRECTED: Line = ("claim", "Q1", "P57", "Q2")


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("director", "director of"),
        ("country of citizenship", "country of citizenship of"),
        ("instance of", "has instance"),
        ("edition or translation of", "has edition or translation"),
        ("has part(s)", "has part(s) (inverse)"),
        ("has part", "part of"),
        ("has parts of the class", "has parts of the class (inverse)"),
        ("award received", "award received by"),
        ("languages spoken, written or signed", "languages spoken, written or signed by"),
        ("position held", "position held by"),
        ("twinned administrative body", "twinned administrative body of"),
        ("date of birth", "date of birth of"),
        ("educated at", "educated at (inverse)"),
        (
            "located in the administrative territorial entity",
            "located in the administrative territorial entity (inverse)",
        ),
        ("member of political party", "member of political party (inverse)"),
        ("shares border with", "shares border with (inverse)"),
        ("convicted of", "convicted of (inverse)"),
        ("is a list of", "is a list of (inverse)"),
        ("relegated", "relegated (inverse)"),
        ("follows", "follows (inverse)"),
        ("of", "of of"),
        ("has", "has (inverse)"),
        ("∈", "∈ (inverse)"),
    ],
)
def test_the_template_reads_as_english(label: str, name: str) -> None:
    assert inverse_of(label) == name


@pytest.mark.parametrize(
    ("lines", "given", "predicate", "id_and_kind"),
    [
        ([], {}, "director of", ("P57", "inverse")),
        ([], {"P57": "directed"}, "directed", ("P57", "inverse")),
        ([], {"director": "directed"}, "directed", ("P57", "inverse")),
        ([], {"P57": "director"}, "director", ("P57", "entity")),
        ([*labels(P9="directs"), ("claim", "P57", "P1696", "P9")], {}, "directs", ("P9", "entity")),
        ([*labels(P9="directs"), ("claim", "P9", "P1696", "P57")], {}, "directs", ("P9", "entity")),
        ([*labels(P9="directs"), ("claim", "P9", "P1696", "P57")], {"P57": "filmed"}, "filmed", ("P57", "inverse")),
        ([*labels(P9="directs")], {"P57": "directs"}, "directs", ("P9", "entity")),
        ([*labels(P9="directs"), ("claim", "P57", "P7087", "P9")], {}, "director of", ("P57", "inverse")),
        ([*labels(Q9="made"), ("claim", "P57", "P7087", "Q9")], {}, "made", ("P57", "inverse")),
        ([*labels(P9="director of")], {}, "director of (inverse of P57)", ("P57", "inverse")),
        ([*labels(Q9="director of"), ("claim", "Q9", "P57", "Q2")], {}, "director of", ("P57", "inverse")),
    ],
)
def test_the_name_and_the_id_of_an_inverse(
    tmp_path: Path, lines: list[Line], given: dict[str, str], predicate: str, id_and_kind: tuple[str, str]
) -> None:
    built = build(tmp_path, [*FILM, DIRECTED, *lines], Selection(inverse=True, inverse_names=tuple(given.items())))
    assert ("Boyle", predicate, "Slumdog") in facts_of(built)
    assert names_of(built)[predicate] == id_and_kind


def test_the_inverse_of_two_properties_is_neither(tmp_path: Path) -> None:
    family = labels(P40="child", P22="father", P25="mother", Q1="Eve", Q2="Abel")
    lines: list[Line] = [*family, ("claim", "P22", "P1696", "P40"), ("claim", "P25", "P1696", "P40")]
    lines += [("claim", "P40", "P1696", "P25"), ("claim", "Q1", "P40", "Q2"), ("claim", "Q2", "P25", "Q1")]
    facts = set(facts_of(build(tmp_path, lines, INVERSE)))
    assert facts >= {("Eve", "child", "Abel"), ("Abel", "mother", "Eve"), ("Abel", "child of", "Eve")}
    assert ("Abel", "father", "Eve") not in facts


def test_an_inverse_fact_that_is_there_already_is_one_fact(tmp_path: Path) -> None:
    lines: list[Line] = [*labels(P26="spouse", Q1="Ann", Q2="Bob"), ("claim", "Q1", "P26", "Q2")]
    lines += [("claim", "Q2", "P26", "Q1"), ("claim", "P26", "P1696", "P26")]
    selection = Selection(inverse=True, properties=frozenset({"P26"}))
    built = build(tmp_path, lines, selection)
    assert sorted(facts_of(built)) == [("Ann", "spouse", "Bob"), ("Bob", "spouse", "Ann")]
    assert (built.report.claims, built.report.derived, built.report.not_inverted) == (
        2,
        0,
        {"hub": 0, "already a fact": 2},
    )


def test_an_object_with_more_subjects_than_the_limit_has_no_inverse_facts(tmp_path: Path) -> None:
    people = labels(**{f"Q{n}": f"person {n}" for n in range(1, 6)}, Q9="human", Q8="cat", P31="instance of")
    lines: list[Line] = [
        *people,
        *(("claim", f"Q{n}", "P31", "Q9") for n in (1, 2, 3, 1)),
        ("claim", "Q4", "P31", "Q8"),
    ]
    at = build(tmp_path, lines, Selection(inverse=True, inverse_limit=3))
    assert hubs_of(at) == {}
    below = build(tmp_path, lines, Selection(inverse=True, inverse_limit=2))
    assert (at.report.derived, at.report.not_inverted["hub"]) == (4, 0)
    assert (below.report.derived, below.report.not_inverted["hub"]) == (1, 3)
    assert hubs_of(below) == {("human", "instance of", "has instance"): 3}


def test_ready_made_facts_have_inverses_if_a_name_is_given(tmp_path: Path) -> None:
    lines: list[Line] = [("ready", "Ann", "works for", "Acme"), ("ready", "Ann", "age", "7")]
    built = build(tmp_path, lines, Selection(inverse=True, inverse_names=(("works for", "employs"),)))
    assert set(facts_of(built)) == {("Ann", "works for", "Acme"), ("Ann", "age", "7"), ("Acme", "employs", "Ann")}
    assert built.report.derived == 1


def test_ready_made_facts_that_are_there_twice_make_no_hub(tmp_path: Path) -> None:
    people = ("Ann", "Bob", "Ann", "Ann")
    lines: list[Line] = [*(("ready", name, "works for", "Acme") for name in people), ("ready", "Cy", "works for", "Co")]
    options = partial(Selection, inverse=True, inverse_names=(("works for", "employs"),))
    built = build(tmp_path, lines, options(inverse_limit=2))
    assert hubs_of(built) == {}
    assert {fact for fact in facts_of(built) if fact[1] == "employs"} == {
        ("Acme", "employs", "Ann"), ("Acme", "employs", "Bob"), ("Co", "employs", "Cy"),
    }  # fmt: skip
    assert (built.report.derived, built.report.not_inverted) == (3, {"hub": 0, "already a fact": 0})
    below = build(tmp_path, lines, options(inverse_limit=1))
    assert hubs_of(below) == {("Acme", "works for", "employs"): 2}
    assert (below.report.derived, below.report.not_inverted) == (1, {"hub": 2, "already a fact": 0})


@pytest.mark.parametrize("aliases", [True, False])
def test_a_label_that_is_an_alias_and_names_an_inverse_counts_once(tmp_path: Path, aliases: bool) -> None:
    lines: list[Line] = [
        *FILM,
        DIRECTED,
        *labels(Q9="made", P7087="inverse label item"),
        ("title", "Q9", "Making", "en"),
        *(("claim", "P57", "P7087", "Q9"), ("claim", "Q9", "P57", "Q1")),
    ]
    report = build(tmp_path, lines, Selection(inverse=True, aliases=aliases)).report
    assert report.aliases == aliases
    assert report.kept + sum(report.dropped.values()) == report.lines_read == len(lines)


def test_the_label_of_an_inverse_counts_as_kept(tmp_path: Path) -> None:
    lines: list[Line] = [
        *FILM,
        DIRECTED,
        *labels(Q9="made", P7087="inverse label item"),
        ("claim", "P57", "P7087", "Q9"),
    ]
    built = build(tmp_path, lines, Selection(inverse=True, properties=frozenset({"P57"})))
    assert built.report.dropped == {"other property": 1, "unused name": 1}
    assert built.report.names == {"label": 3, "inverse": 1}


@pytest.mark.parametrize("name", ["names.tsv", "names.toml"])
def test_a_file_of_names_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(
        "# mine\r\n\r\nP57\tdirector  of\r\nworks for\temploys\r\n"
        if name == "names.tsv"
        else '# mine\nP57 = "director of"\n"works for" = "employs"\n'
    )
    assert read_inverse_names(tmp_path / name) == (("P57", "director of"), ("works for", "employs"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("n.tsv", "P57 director of\n", r"n\.tsv:1: 1 column, separated by tabs: expected two"),
        ("n.tsv", "P57\ta\tb\n", r"n\.tsv:1: 3 columns"),
        ("n.tsv", "P57\ta\nP57\tb\n", r"n\.tsv:2: P57 has a name already"),
        ("n.tsv", "P57\t \u200b\n", r"n\.tsv:1: a column is empty"),
        ("n.tsv", "# nothing\n", "holds no names"),
        ("n.toml", "P57 = director\n", "is not TOML"),
        ("n.toml", "P57 = 3\n", "P57 is not a string"),
        ("n.toml", f"P57 = {'9' * 5000}\n", "is not TOML"),
        ("n.toml", f"P57 = {'[' * 5000}{']' * 5000}\n", "is not TOML"),
    ],
)
def test_a_bad_file_of_names_is_an_error(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read_inverse_names(tmp_path / name)


@pytest.mark.parametrize(
    ("names", "derived", "notes"),
    [
        (
            (),
            0,
            ["2 predicates of tables and lines have none, since fewer than half of the objects are subjects: born (0"],
        ),
        (
            (("led", "led by"), ("x", "y")),
            0,
            ["--inverse-names: no fact has the predicate led, x", "job (0 of 1): name them with --inverse-names FILE"],
        ),
        (
            (("born", "birth of"), ("led", "led by"), ("P22", "z")),
            1,
            ["--inverse-names: no fact has the predicate led", "1 predicate of tables and lines has none"],
        ),
        ((("born", "birth of"),), 1, ["1 predicate of tables and lines has none"]),
    ],
)
def test_a_note_says_why_tables_have_no_inverse_facts(
    tmp_path: Path, names: tuple[tuple[str, str], ...], derived: int, notes: list[str]
) -> None:
    lines: list[Line] = [("ready", "Ann", "born", "Graz"), ("ready", "Ann", "job", "poet")]
    report = build(tmp_path, lines, Selection(inverse=True, inverse_names=names)).report
    assert report.derived == derived
    assert len(report.notes) == len(notes)
    assert all(part in note for part, note in zip(notes, report.notes, strict=True))


ITEMS, PROPERTIES = ["Q1", "Q2", "Q3", "Q4"], ["P1", "P2", "P3"]
ENTITIES = st.sampled_from(ITEMS + PROPERTIES)
PROPERTY = st.sampled_from(PROPERTIES)
TEXTS = st.sampled_from(
    [
        *("a", "b", "a of", "has b", "a (Q1)", "a (P1)", "a of (inverse of P1)"),
        *("description", "short description", "a (alias)", "alias of"),
    ]
)
TAGS = st.sampled_from(["en", "en", "en-gb", "de", "mul"])
CLAIMS = st.one_of(
    st.tuples(st.just("claim"), ENTITIES, PROPERTY, ENTITIES),
    st.tuples(st.just("claim"), ENTITIES, PROPERTY, st.sampled_from(["Q1", "Q5", "Q6"])),
    st.tuples(st.just("literal"), ENTITIES, PROPERTY, TEXTS, st.none() | TAGS),
    st.tuples(
        st.just("literal"), ENTITIES, PROPERTY, st.just("1956"), st.sampled_from(["^^gYear", "^^decimal", "^^boolean"])
    ),
    st.tuples(st.just("ready"), TEXTS, TEXTS, TEXTS),
)
OTHERS = st.one_of(
    st.tuples(st.just("label"), ENTITIES, TEXTS, TAGS),
    st.tuples(st.just("description"), ENTITIES, TEXTS | st.just("alias"), TAGS),
    st.tuples(st.just("alias"), ENTITIES, TEXTS, TAGS),
    st.tuples(st.just("title"), ENTITIES, st.sampled_from(["a", "T", "b (a)"]), st.sampled_from(["en", "de"])),
    st.tuples(st.just("claim"), PROPERTY, st.just("P1696"), PROPERTY),
    st.tuples(st.just("claim"), PROPERTY, st.just("P7087"), ENTITIES),
    st.tuples(st.just("redirect"), st.sampled_from(["Q4", "Q5", "Q6"]), st.sampled_from(["Q1", "Q5", "Q6"])),
    st.tuples(st.just("external id"), st.sampled_from(["P2", "P3"])),
)


@st.composite
def graphs(draw: st.DrawFn) -> list[Line]:
    """Draw a few entities, most of them with similar names, and many claims between them."""
    unnamed = draw(st.sets(ENTITIES, max_size=2))
    labels: list[Line] = [("label", e, draw(TEXTS), draw(TAGS)) for e in ITEMS + PROPERTIES if e not in unnamed]
    claims = draw(st.lists(CLAIMS, min_size=8, max_size=25))
    return [*labels, *claims, *draw(st.lists(OTHERS, min_size=3, max_size=15))]


SELECTIONS = st.builds(
    Selection,
    properties=st.none() | st.frozensets(PROPERTY, min_size=2),
    languages=st.sampled_from([("en", "mul"), ("en-gb", "en"), ("mul", "de", "en")]),
    keep_external_ids=st.booleans(),
    descriptions=st.booleans(),
    limit=st.none() | st.none() | st.integers(1, 4),
    inverse=st.just(True),
    inverse_names=st.dictionaries(st.sampled_from(["P1", "P2", "a", "b"]), TEXTS, max_size=2).map(
        lambda names: tuple(names.items())
    ),
    inverse_limit=st.integers(1, 3),
    aliases=st.none() | st.booleans(),
)
# All inverse facts of P1 are beyond a limit of 1, and a ready-made fact has the text of their predicate.
ONLY_A_HUB: list[Line] = [
    *labels(Q1="one", Q2="two", Q3="three", P1="a"),
    *(("claim", "Q1", "P1", "Q3"), ("claim", "Q2", "P1", "Q3"), ("ready", "x", "y", "a of")),
]
# In each graph, since one without a fact is an error.
ALWAYS: list[Line] = [*labels(Q7="seven", P9="nine"), ("claim", "Q7", "P9", "Q7")]


@pytest.mark.long
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(ONLY_A_HUB, Selection(inverse=True, inverse_limit=1), True)
@given(graphs(), SELECTIONS, st.sampled_from([True, True, True, False]))
def test_any_graph_gives_the_facts_of_the_twin_and_every_name_has_one_entity(
    tmp_path: Path, graph: list[Line], selection: Selection, inverse: bool
) -> None:
    if not inverse:
        selection = Selection(
            properties=selection.properties,
            languages=selection.languages,
            keep_external_ids=selection.keep_external_ids,
            descriptions=selection.descriptions,
            limit=selection.limit,
        )
    lines = [*ALWAYS, ("ready", "A", "is", "B"), *graph]
    twin = expected(lines, selection)
    if not twin.facts:
        with pytest.raises(InputError, match="no fact"):
            build(tmp_path, lines, selection)
        return
    built = build(tmp_path, lines, selection)
    facts = facts_of(built)
    assert len(set(facts)) == len(facts)
    assert set(facts) == twin.facts
    report = built.report
    assert report.facts == len(facts) == report.claims + report.descriptions + report.derived
    assert report.lines_read == len(lines) == report.kept + sum(report.dropped.values())
    assert all(count > 0 for count in report.dropped.values())
    assert report.derived + sum(report.not_inverted.values()) == twin.pairs
    assert all(count >= 0 for count in report.not_inverted.values())
    assert report.selection == replace(selection, profile=Profile(name="wikidata")).to_json()
    assert hubs_of(built) == twin.hubs
    check_names(built_names=names_of(built), twin=twin)
    inverses = report.names.get("inverse", 0)
    assert report.entities == sum(report.names.values()) - inverses
    assert report.entities + inverses == len(twin.used)


def check_names(built_names: dict[str, tuple[str, str | None]], twin: Expected) -> None:
    """Check that each name has the id that the twin gives it; an inverse has its property's."""
    own = {name: entity for entity, name in twin.names.items()}
    assert len(own) == len(twin.names)
    used = {*itertools.chain.from_iterable(twin.facts), *(inverse for _, _, inverse in twin.hubs)}
    for name, (id_, kind) in built_names.items():
        assert own[name].removeprefix("-") == id_
        assert kind == twin.kinds.get(own[name], "inverse" if own[name][0] == "-" else None)
        assert name in used
