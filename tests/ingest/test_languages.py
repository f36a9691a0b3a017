"""Names in several languages: they lead to the thing, and labels are kept by language through all changes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.tiny_asker import save_tiny

import refactx
from refactx.errors import InputError
from refactx.index.index import Index
from refactx.index.verify import verify
from refactx.ingest import compact
from refactx.ingest.source_options import Selection
from refactx.postgres.database import Database
from refactx.share import export_index, import_index
from refactx.walks.facts import TreeFacts

ENTITY, LABEL = "http://www.wikidata.org/entity/", "http://www.w3.org/2000/01/rdf-schema#label"
NAMES = {
    "Q183": ["Germany@en", "Deutschland@de", "Allemagne@fr", "+BRD@de"],
    "Q64": ["Berlin@en", "Berlin@de", "Berlin@fr"],
    "Q1726": ["Munich@en", "München@de", "Minga@de-at", "Munich@fr"],
    "Q40": ["Österreich@de"],
    "P36": ["capital@en", "Hauptstadt@de", "+Regierungssitz@de"],
    "P150": ["contains@en", "enthält@de"],
}
CLAIMS = [("Q183", "P36", "Q64"), ("Q183", "P150", "Q1726"), ("Q1726", "P150", "Q64"), ("Q40", "P36", "Q64")]
GERMANY = "Germany"


def lines_of(names: dict[str, list[str]], claims: list[tuple[str, str, str]], *, wikidata: bool = True) -> str:
    """N-Triples of names (`+` before other names) and claims; those of another graph, if not `wikidata`."""
    base, direct = (ENTITY, "http://www.wikidata.org/prop/direct/") if wikidata else ("http://e.org/", "http://e.org/")
    other, lines = "http://www.w3.org/2004/02/skos/core#altLabel", []
    for id_, texts in names.items():
        for text, _, tag in (one.partition("@") for one in texts):
            subject = f"{base if wikidata or id_[0] == 'Q' else direct}{id_}"
            lines.append(f'<{subject}> <{other if text[0] == "+" else LABEL}> "{text.removeprefix("+")}"@{tag} .')
    lines += [f"<{base}{s}> <{direct}{p}> <{base}{o}> ." for s, p, o in claims]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of the tiny model."""
    return str(save_tiny(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(autouse=True)
def in_database(module_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("REFACTX_DB", module_url)
    monkeypatch.setenv("REFACTX_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    yield


def source(text: str) -> str:
    Path("source.nt").write_text(text)
    return "source.nt"


def labels(index: Index, language: str) -> dict[str, str]:
    """The labels of all things and predicates of an index by name, after it is verified."""
    assert verify(index).faults == []
    names = [name for key, block in index.name_rows() for name in index.unpack_names(key, block)]
    return index.labels_of(names, language)


def aliases(index: Index) -> set[tuple[str, str]]:
    rows = index.to_arrow().to_pylist()
    return {(row["subject"], row["object"]) for row in rows if row["predicate"] == "alias of"}


@pytest.mark.parametrize("wikidata", [True, False])
def test_labels_and_aliases_of_further_languages_are_names(tiny: str, wikidata: bool) -> None:
    given = source(lines_of(NAMES, CLAIMS, wikidata=wikidata))
    report = refactx.build_index("all", given, tokenizer=tiny, languages="en,de,fr", replace=True).report
    assert report.names_by_language == {"en": 5, "de": 9, "fr": 3}
    assert report.lines_read == report.kept + sum(report.dropped.values())
    with refactx.open_index("all") as index:
        assert aliases(index) == {
            ("Deutschland (alias)", GERMANY),
            ("Allemagne (alias)", GERMANY),
            ("BRD (alias)", GERMANY),
            ("München (alias)", "Munich"),
            ("Minga (alias)", "Munich"),
        }
        linker = TreeFacts(index).linker
        assert {linker.entity(name).name for name in ("Germany", "Deutschland", "allemagne", "BRD")} == {GERMANY}
        assert {linker.predicate(name).name for name in ("capital", "Hauptstadt", "Regierungssitz")} == {"capital"}
        assert labels(index, "de") == {
            GERMANY: "Deutschland",
            "Munich": "München",
            "capital": "Hauptstadt",
            "contains": "enthält",
        }
        assert labels(index, "fr") == {GERMANY: "Allemagne"}
        assert labels(index, "en") == labels(index, "mul") == labels(index, "xx") == {}


def test_without_further_languages_there_are_no_labels_of_them(tiny: str) -> None:
    given = source(lines_of(NAMES, CLAIMS))
    report = refactx.build_index("one", given, tokenizer=tiny, replace=True).report
    assert (report.names_by_language, report.aliases) == ({"en": 5}, 0)
    with refactx.open_index("one") as index:
        assert aliases(index) == set()
        assert labels(index, "de") == {}


def test_labels_follow_appends_updates_and_forgets_and_survive_compaction(
    tiny: str, module_url: str, tmp_path: Path
) -> None:
    first = {id_: names for id_, names in NAMES.items() if id_ != "Q1726"}
    given = source(lines_of(first, CLAIMS[:1]))
    refactx.build_index("grown", given, tokenizer=tiny, languages="en,de,fr", replace=True)
    refactx.append("grown", source(lines_of(NAMES, CLAIMS)))
    refactx.build_index("anew", source(lines_of(NAMES, CLAIMS)), tokenizer=tiny, languages="en,de,fr", replace=True)

    def same() -> None:
        with refactx.open_index("grown") as grown, refactx.open_index("anew") as anew:
            assert aliases(grown) == aliases(anew)
            for language in ("de", "fr"):
                assert labels(grown, language) == labels(anew, language)

    same()
    compact(Database(module_url), index="grown", work=tmp_path / "work")
    same()
    changed = {**NAMES, "Q183": ["Germany@en", "Deutsches Reich@de"]}  # without a label in French
    whole = {"Q183": changed["Q183"], **{id_: NAMES[id_] for id_ in ("Q64", "Q1726", "P36", "P150")}}
    refactx.update("grown", source(lines_of(whole, CLAIMS[:3])))
    refactx.build_index("anew", source(lines_of(changed, CLAIMS)), tokenizer=tiny, languages="en,de,fr", replace=True)
    same()
    refactx.forget("grown", subject="Germany")
    with refactx.open_index("grown") as index:
        assert GERMANY not in labels(index, "de")


def test_a_file_and_an_imported_index_keep_labels(tiny: str, module_url: str, tmp_path: Path) -> None:
    given = source(lines_of(NAMES, CLAIMS))
    refactx.build_index("all", given, tokenizer=tiny, languages="en,de,fr", replace=True)
    file = tmp_path / "all.refactx"
    database = Database(module_url)
    export_index(database, "all", file)
    import_index(database, file, "again")
    with refactx.open_index(str(file)) as of_file, refactx.open_index("again") as imported:
        assert labels(of_file, "de") == labels(imported, "de") != {}


@pytest.mark.parametrize(
    ("languages", "why"),
    [
        ("", "'' is not a list of languages"),
        ("en,en", "'en,en' is not a list of languages: expected 1 to 30 different codes"),
        ("en,german", "'german' is not a language code: expected codes such as en,en-gb,mul"),
        ("en,d", "'d' is not a language code"),
    ],
)
def test_languages_that_are_none_are_told(languages: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        refactx.build_index("none", source(lines_of(NAMES, CLAIMS)), tokenizer="x", languages=languages)


def test_a_language_without_names_is_told(tiny: str) -> None:
    given = source(lines_of(NAMES, CLAIMS))
    report = refactx.build_index("all", given, tokenizer=tiny, languages="en,xx", replace=True).report
    assert any(note.startswith("nothing has a name in xx") for note in report.notes)


@pytest.mark.parametrize(
    ("options", "aliases"),
    [({"languages": ("en", "de")}, True), ({"languages": ("en", "en-gb", "mul")}, False)],
)
def test_several_languages_bring_aliases(options: dict[str, Any], aliases: bool) -> None:
    assert Selection(**options).aliases is aliases
    assert Selection(**options, aliases=not aliases).aliases is not aliases
