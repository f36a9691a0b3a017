"""Gold SPARQL as walks, and back: how much converts, and whether the answers stay the same."""
