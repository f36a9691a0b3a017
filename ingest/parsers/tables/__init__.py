"""Parsers of tables (CSV, TSV, Parquet) with columns subject, predicate and object: each row is a ready-made fact."""

from refactx.ingest.parsers.tables.table import TableForm, parse_table, table_form

__all__ = ["TableForm", "parse_table", "table_form"]
