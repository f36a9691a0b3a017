"""The syntax of SPARQL: tokens, prologue, grammar and tree, the check of a text, and how Wikidata's service writes it."""

__all__ = ()
