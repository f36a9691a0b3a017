"""The command `refactx mcp`."""

from refactx.cli.mcp.command import mcp

__all__ = ["mcp"]
