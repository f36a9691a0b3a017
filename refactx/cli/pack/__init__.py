"""The commands `refactx pack`."""

from refactx.cli.pack.group import pack

__all__ = ["pack"]
