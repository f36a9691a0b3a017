"""The site: it builds strictly, every page is in the menu, and the references have every option and public name."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import click
import pytest
import yaml
from support.command import subcommands
from support.doc_pages import DOCS, PAGES, ROOT, name_of

import refactx
import refactx.ingest
import refactx.walks
from refactx.cli.main import cli
from refactx.cli.options import Renamed

PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. The build works on a copy, so that it leaves nothing in the repository."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(DOCS, folder / "docs")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    for name in ("refactx", "ingest", "prompts", "sql"):
        (folder / name).symlink_to(ROOT / name)
    done = subprocess.run(
        [Path(sys.executable).with_name("zensical"), "build", "--strict"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def pages_of(menu: object) -> Iterator[str]:
    """The pages in a menu or a part of one."""
    if isinstance(menu, str):
        yield menu
    elif isinstance(menu, dict):
        for part in menu.values():
            yield from pages_of(part)
    elif isinstance(menu, list):
        for part in menu:
            yield from pages_of(part)


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """A command and its subcommands, with their names."""
    yield name, command
    for sub, inner in subcommands(command).items():
        yield from commands(inner, f"{name} {sub}")


def test_every_page_is_in_the_menu() -> None:
    menu = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    assert sorted(pages_of(menu)) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


def test_every_decision_is_in_the_list() -> None:
    listed = re.findall(r"\((\d{4}-[\w-]+\.md)\)", (DOCS / "decisions" / "index.md").read_text())
    assert sorted(listed) == sorted(page.name for page in (DOCS / "decisions").glob("0*.md"))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pictures_are_there(page: Path) -> None:
    for picture in PICTURE.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / picture).is_file(), picture


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=name_of)
def test_lines_and_words(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    shown = re.sub(
        r"^```(?:text|json)$.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE
    )  # what programs write and read
    assert [line for line in shown.splitlines() if len(line) > 110] == []
    assert len(re.findall(r"\bgoes? on\b", text)) == 0


def test_behind_means_a_place_and_not_a_time() -> None:
    """It may be said of numbers (4 nats behind), but not for *after*."""
    assert sum(len(re.findall(r"\bbehind\b", page.read_text(encoding="utf-8"))) for page in PAGES) <= 20


def test_the_command_line_is_in_its_reference(site: Path) -> None:
    html = unescape(re.sub(r"<[^>]+>", "", (site / "reference" / "cli.html").read_text(encoding="utf-8")))
    for name, command in commands(cli, "refactx"):
        assert name in html
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                shown = parameter.opts[:1] if isinstance(parameter, Renamed) else parameter.opts
                assert all(option in html for option in shown), (name, shown)


def test_public_names_are_in_the_reference(site: Path) -> None:
    html = (site / "reference" / "api.html").read_text(encoding="utf-8")
    for face in (refactx, refactx.ingest, refactx.walks):
        for name in face.__all__:
            assert f'id="{face.__name__}.{name}"' in html, name


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert re.findall(r"<(?:script|img|iframe)[^>]*\bsrc=\"?(?:https?:)?//", text) == []
        assert re.findall(r"<link[^>]*rel=\"?stylesheet[^>]*href=\"?(?:https?:)?//", text) == []
    for picture in site.rglob("*.svg"):
        assert "url(http" not in picture.read_text(encoding="utf-8").replace('"', "")
