"""The environment of clients that the tests' own does not have: `make test-serve` makes it."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BIN = Path(__file__).parents[3] / ".venv-clients" / "bin"

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def run_client() -> Run:
    """Run a program of that environment to its end, and return its output."""
    if not (BIN / "python").exists():
        pytest.skip("there is no .venv-clients: `make test-serve` makes it")

    def run(program: str, *arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
        options = {"capture_output": True, "text": True, "timeout": 120, **options}
        return subprocess.run([str(BIN / program), *arguments], check=False, **options)

    return run
