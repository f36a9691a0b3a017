"""Parsers of English Wikipedia's dumps (`page`, `page_props`), which give entities titles and short descriptions."""

from refactx.ingest.parsers.wikipedia.enwiki import parse_page, parse_page_props

__all__ = ["parse_page", "parse_page_props"]
