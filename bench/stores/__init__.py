"""The store of an index, beside its claims in pyoxigraph: sizes, times and the answers of gold queries."""
