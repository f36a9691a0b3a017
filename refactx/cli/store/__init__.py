"""`refactx store`: the stores of indexes, and what other commands do to keep them in step."""

from refactx.cli.store.command import store

__all__ = ["store"]
