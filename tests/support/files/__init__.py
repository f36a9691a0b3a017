"""Helpers of the tests of index files: files made without a database, and damaged ones."""
