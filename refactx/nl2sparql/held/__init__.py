"""Decoding that is held to SPARQL over a pack's endpoint, for our own engines."""

from refactx.nl2sparql.held.grammar import PackGrammar
from refactx.nl2sparql.held.model import HeldTextModel

__all__ = ["HeldTextModel", "PackGrammar"]
