"""Translations of questions to SPARQL over HTTP, by a domain pack."""

from refactx.server.translate.route import translate_router

__all__ = ["translate_router"]
