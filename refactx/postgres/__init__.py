"""The database: connections, the catalogue, rows of tables, locks and rights."""
