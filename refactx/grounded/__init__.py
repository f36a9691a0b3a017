"""Models whose `generate` writes only facts of an index."""
