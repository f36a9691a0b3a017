"""Parsers of tables (CSV, TSV, Parquet) with columns subject, predicate and object: each row is a ready-made fact."""
