"""`refactx query`: answers to questions about sets of facts, by walk lines or by a model that chooses one."""

from refactx.cli.query.command import query

__all__ = ["query"]
