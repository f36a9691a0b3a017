"""Parsers of English Wikipedia's dumps (`page`, `page_props`), which give entities titles and short descriptions."""
