"""How long queries take on an index."""
