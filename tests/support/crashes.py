"""Helpers to start commands, wait for them and kill them."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FACTS = 120_000


def start(*arguments: object, **options: Any) -> "subprocess.Popen[str]":
    command = [str(Path(sys.executable).with_name("refactx")), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def wait_for(condition: Callable[[], bool], seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"


def kill(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate()
