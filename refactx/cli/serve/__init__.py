"""The command `refactx serve`."""

from refactx.cli.serve.command import serve

__all__ = ["serve"]
