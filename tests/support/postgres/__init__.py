"""Helpers of the tests of PostgreSQL: processes that use an embedded server, and servers that are killed."""
