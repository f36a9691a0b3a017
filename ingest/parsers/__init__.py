"""Parsers: the blocks of a source as rows for the joins (`Parsed`), and an account of every line."""
