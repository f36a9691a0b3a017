"""The command line: `cli`, the click group of all commands, and `main`, which runs it."""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.cli.main import cli, main

__all__ = ["cli", "main"]
__getattr__ = lazy_exports(__name__, {"main": "cli main"})
