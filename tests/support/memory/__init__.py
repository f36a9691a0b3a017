"""Helpers for tests of memories: an encoder without a model, graphs with labels, and brute force."""
