"""Prefix trees of token ids with exact leaf counts, in memory or in the rows of an index."""
