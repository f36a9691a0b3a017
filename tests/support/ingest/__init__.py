"""Helpers of the tests of ingest."""
