"""The parser of Wikidata's truthy dumps: N-Triples lines as claims, names and descriptions of entities.

`blocks` parses a block column by column; `statements` splits its lines for it; `rules` says what a predicate means and
parses lines in unusual form one by one.
"""

from refactx.ingest.parsers.wikidata.blocks import parse_block

__all__ = ["parse_block"]
