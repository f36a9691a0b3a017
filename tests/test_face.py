"""The public names of `refactx`: each can be imported, and takes no time before it is used."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import refactx
from refactx import errors
from refactx import lazy as exports


@pytest.mark.parametrize("name", refactx.__all__)
def test_a_public_name_can_be_imported(name: str) -> None:
    assert getattr(refactx, name).__name__ == name


def test_the_table_of_modules_has_the_public_names() -> None:
    names = " ".join(exports._REFACTX.values()).split()
    assert sorted([*names, *errors.__all__]) == sorted(refactx.__all__)


def test_all_errors_are_public_and_of_one_family() -> None:
    family = {value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)}
    assert family == {getattr(refactx, name) for name in errors.__all__}
    assert all(issubclass(error, refactx.RefactxError) for error in family)


def test_an_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'refactx' has no attribute 'open_inedx'"):
        exports.refactx_attribute("open_inedx")
    assert not hasattr(refactx, "open_inedx")


def test_the_package_has_a_version() -> None:
    assert refactx.__version__.count(".") == 2


def test_the_package_has_the_authors_of_the_citation() -> None:
    root = Path(__file__).parents[1]
    cited = re.findall(r"family-names: (\w+), given-names: (\w+)", (root / "CITATION.cff").read_text(encoding="utf-8"))
    named = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["authors"]
    assert [one["name"] for one in named] == [f"{given} {family}" for family, given in cited]


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("import refactx", ("torch", "transformers", "psycopg", "numpy", "tokenizers")),
        ("from refactx import Fact, Children, RefactxError", ("torch", "transformers", "psycopg", "tokenizers")),
        ("from refactx import open_index", ("torch", "transformers", "duckdb", "pyarrow")),
        ("from refactx import Prompt, load_prompt", ("torch", "transformers", "psycopg", "duckdb")),
    ],
)
def test_an_import_loads_no_more_than_it_needs(code: str, unwanted: tuple[str, ...]) -> None:
    program = f"{code}\nimport sys\nprint(*[name for name in {unwanted} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not done.stdout.split()
