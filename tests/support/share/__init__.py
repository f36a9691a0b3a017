"""Helpers of the tests of sharing: exports that are stopped, and files that are forged."""
