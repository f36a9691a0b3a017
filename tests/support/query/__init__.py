"""Twins of the sets of facts that answer queries."""
