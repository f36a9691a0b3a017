"""The command line: `cli`, the click group of all commands, which `refactx.cli.main.main` runs."""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.cli.main import cli

__all__ = ["cli"]
__getattr__ = lazy_exports(__name__, {"main": "cli"})
