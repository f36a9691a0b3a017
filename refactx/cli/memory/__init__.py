"""`refactx memory`: the memories of indexes, by which words are resolved to ids."""

from refactx.cli.memory.group import memory

__all__ = ["memory"]
