"""Schema and queries, as `.sql` files."""
