"""Helpers of the tests of ingest: dumps at any size, and graphs that change."""
