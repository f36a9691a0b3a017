"""Export of an index to a file, and import of such a file into a database."""
