"""The command `refactx validate`."""

from refactx.cli.validate.command import validate

__all__ = ["validate"]
