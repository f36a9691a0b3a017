"""Schemas of facts: what a file says, and clear errors for what is none."""

from pathlib import Path

import pytest

from refactx.ask.schema import FactSchema, PredicateRule
from refactx.errors import InputError


def test_a_file_has_predicates_with_classes_kinds_and_numbers(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_text('[predicates.founded]\nrange = ["time"]\nmost = 1\n[predicates."works for"]\ndomain = ["human"]\n')
    assert FactSchema.read(path).predicates == {
        "founded": PredicateRule(kind="time", most=1),
        "works for": PredicateRule(domain=("human",)),
    }


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "has to have tables"),
        ("[predicates]\n", "has to have tables"),
        ("[predicates.a]\nclass = 1\n", "domain, range and most alone"),
        ("[predicates.a]\ndomain = 'human'\n", "list of names"),
        ('[predicates.a]\nrange = ["time", "human"]\n', "one kind of values"),
        ("[predicates.a]\nmost = 0\n", "whole number"),
        ("[predicates.a]\nmost = true\n", "whole number"),
        ("predicates.a", "cannot be read"),
        ("[predicates.a]\nx = " + "[" * 100_000, "cannot be read"),
        ("#" * (1 << 21), "more than 1 MiB"),
    ],
)
def test_what_is_no_schema_is_said(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "schema.toml"
    path.write_text(content)
    with pytest.raises(InputError, match=reason):
        FactSchema.read(path)
