"""The commands `refactx agent`."""

from refactx.cli.agent.group import agent

__all__ = ["agent"]
