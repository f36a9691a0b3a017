"""Literals as people write them."""

import pytest

from refactx.ingest.parsers.values import format_literal, language_rank

XSD = "http://www.w3.org/2001/XMLSchema#"
WKT = "http://www.opengis.net/ont/geosparql#wktLiteral"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1956-10-20T00:00:00Z", "1956-10-20"),
        ("1956-01-01T00:00:00Z", "1956-01-01"),
        ("+1956-10-20T00:00:00Z", "1956-10-20"),
        ("1956-10-00T00:00:00Z", "1956-10"),
        ("1956-00-00T00:00:00Z", "1956"),
        ("0079-08-24T00:00:00Z", "0079-08-24"),
        ("0079-00-00T00:00:00Z", "79"),
        ("-0199-01-01T00:00:00Z", "200 BCE"),
        ("-0043-03-15T00:00:00Z", "44-03-15 BCE"),
        ("0000-01-01T00:00:00Z", "1 BCE"),
        ("-13797999999-01-01T00:00:00Z", "13798000000 BCE"),
        ("12345-06-07T00:00:00Z", "12345-06-07"),
        ("2001-02-03T04:05:06Z", "2001-02-03T04:05:06Z"),
        ("2001-13-03T00:00:00Z", None),
        ("1942-02-29T00:00:00Z", "1942-02-29"),
        ("9" * 5000 + "-01-01T00:00:00Z", None),
        ("once", None),
    ],
)
def test_dates(text: str, written: str | None) -> None:
    assert format_literal(text, XSD + "dateTime") == written


@pytest.mark.parametrize(
    ("kind", "text", "written"),
    [
        ("date", "1956-10-20", "1956-10-20"),
        ("gYear", "1956", "1956"),
        ("gYear", "-0199Z", "200 BCE"),
        ("gYearMonth", "1956-10", "1956-10"),
        ("gYear", "soon", None),
    ],
)
def test_days_years_and_months_of_their_own_datatypes(kind: str, text: str, written: str | None) -> None:
    assert format_literal(text, XSD + kind) == written


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("+175", "175"),
        ("-7", "-7"),
        ("+0.440", "0.440"),
        ("-0", "0"),
        (".5", "0.5"),
        ("+19.768000000000000682121026329696178436279296875", "19.768"),
        ("-0.00000100000000000000004", "-0.000001"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("2.65e+09", "2650000000"),
        ("1" * 5000 + ".5", "1" * 5000 + ".5"),
        ("one", None),
    ],
)
def test_decimals(text: str, written: str | None) -> None:
    assert format_literal(text, XSD + "decimal") == written


@pytest.mark.parametrize(("text", "written"), [("1.5E3", "1500"), ("35.0", "35"), ("1E-9", "1e-09"), ("x", None)])
def test_doubles(text: str, written: str | None) -> None:
    assert format_literal(text, XSD + "double") == written


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Point(13.38 52.51)", "52.51°N, 13.38°E"),
        ("POINT( -70.5  -33.45 )", "33.45°S, 70.5°W"),
        ("Point(0 0)", "0°N, 0°E"),
        ("Point(12.1 1.00000000000000005551)", "1°N, 12.1°E"),
        ("<http://www.wikidata.org/entity/Q405> Point(1 2)", "2°N, 1°E (Moon)"),
        ("<http://www.wikidata.org/entity/Q999> Point(1 2)", "2°N, 1°E (Q999)"),
        ("Point(1)", None),
        ("<http://www.opengis.net/def/crs/OGC/1.3/CRS84> Point(13.38 52.51)", "52.51°N, 13.38°E"),
        ("<https://www.opengis.net/def/crs/OGC/0/CRS84> POINT (13.38 52.51)", "52.51°N, 13.38°E"),
        ("<urn:ogc:def:crs:OGC:1.3:CRS84> Point(13.38 52.51)", "52.51°N, 13.38°E"),
        ("<urn:ogc:def:crs:OGC::CRS84> Point(13.38 52.51)", "52.51°N, 13.38°E"),
        ("<http://www.opengis.net/def/crs/EPSG/0/4326> Point(52.51 13.38)", "52.51°N, 13.38°E"),
        ("<urn:ogc:def:crs:EPSG::4326> Point(-33.45 -70.5)", "33.45°S, 70.5°W"),
        ("<http://www.opengis.net/def/crs/EPSG/0/25832> Point(389000 5819000)", None),
        ("<http://www.opengis.net/def/crs/EPSG/0/3857> Point(1 2)", None),
        ("<http://example.org/Q405> Point(1 2)", None),
        ("Point(389000 5819000)", None),
        ("Point(200.5 -3)", "3°S, 200.5°E"),
        ("Point(INF 0)", None),
        (f"Point(1 {'9' * 5000})", None),
    ],
)
def test_coordinates_read_latitude_first(text: str, written: str | None) -> None:
    assert format_literal(text, WKT) == written


def test_strings_stay_as_they_are_and_unknown_datatypes_are_not_guessed() -> None:
    assert format_literal("+1", None) == format_literal("+1", XSD + "string") == "+1"
    assert format_literal("<math/>", "http://www.w3.org/1998/Math/MathML") is None


@pytest.mark.parametrize(
    ("languages", "ranks"),
    [
        (("en", "mul"), [0, 0, 2, 2, 1, None, None, None, None]),
        (("en",), [0, 0, 2, 2, 1, None, None, None, None]),
        (("en-gb", "en", "fr"), [1, 1, 0, 5, 3, 2, 6, None, None]),
        (("mul", "en"), [1, 1, 3, 3, 0, None, None, None, None]),
        (("mul",), [None, None, None, None, 0, None, None, None, None]),
    ],
)
def test_languages_come_first_then_the_one_for_all_then_their_variants(
    languages: tuple[str, ...], ranks: list[int | None]
) -> None:
    tags = ("en", "En", "en-GB", "en-CA", "mul", "fr", "fr-x-old", "enm", "e")
    assert [language_rank(tag, languages) for tag in tags] == ranks
