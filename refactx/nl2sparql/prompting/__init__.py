"""Prompts of translation: what a model is told when it writes SPARQL by a domain pack."""

from refactx.nl2sparql.prompting.prologue import with_prefixes, without_prefixes
from refactx.nl2sparql.prompting.task import Task, conversation
from refactx.nl2sparql.prompting.texts import filled, translation_texts

__all__ = ["Task", "conversation", "filled", "translation_texts", "with_prefixes", "without_prefixes"]
