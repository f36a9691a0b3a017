"""The command `refactx translate`."""

from refactx.cli.translate.command import translate

__all__ = ["translate"]
