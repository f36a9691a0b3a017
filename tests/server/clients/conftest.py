"""The environments of clients that the tests' own does not have: `make test-serve` makes them."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def run_client() -> Run:
    """Run a program of an environment, `.venv-clients` by default, to its end, and return its output."""

    def run(
        program: str, *arguments: str, environment: str = ".venv-clients", **options: Any
    ) -> "subprocess.CompletedProcess[str]":
        path = ROOT / environment / "bin" / program
        if not path.exists():
            pytest.skip(f"there is no {environment}: `make test-serve` makes it")
        options = {"capture_output": True, "text": True, "timeout": 120, **options}
        return subprocess.run([str(path), *arguments], check=False, **options)

    return run
