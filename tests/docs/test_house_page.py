"""The picture of docs/explanation/house.md is that of the layers, and the page names every package."""

import re

from support.doc_pages import DOCS, ROOT, blocks
from test_layers import LAYERS

PAGE = DOCS / "explanation" / "house.md"


def test_the_floors_are_the_layers() -> None:
    picture = blocks(PAGE, "text")[0]
    floors = [line.partition("│")[2].split() for line in picture.splitlines()]
    assert floors == [line.split() for line in LAYERS.strip().splitlines()]


def test_the_table_has_every_package() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## The way of a question")[0]
    cells = re.findall(r"^\| (`[^|]*) \|", table, re.M)
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    packages = {path.parent.name for path in (ROOT / "refactx").glob("*/__init__.py")}
    assert packages <= named
    assert all((ROOT / "refactx" / name).is_dir() or (ROOT / "refactx" / f"{name}.py").is_file() for name in named)


def test_the_ways_lead_through_packages_that_are_there() -> None:
    for way in blocks(PAGE, "text")[1:]:
        for name in re.findall(r"^  ([a-z_/]+)  ", way, re.M):
            path = ROOT / "refactx" / name
            assert path.is_dir() or path.with_suffix(".py").is_file(), name


def test_the_places_of_changes_are_there() -> None:
    """Each file of the table is there, and has the names in brackets after it."""
    table = PAGE.read_text(encoding="utf-8").partition("## Where to change what")[2]
    found = re.findall(r"`([\w/]+(?:\.\w+)?)`(?:\s+\((.*?)\))?", table)
    assert len(found) > 15
    for file, names in found:
        path = ROOT / file
        assert path.exists(), file
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"^(?:class |def |async def )?{name}\b", path.read_text(encoding="utf-8"), re.M), (
                file,
                name,
            )
