"""The engine on a store, beside pyoxigraph alone: the time of gold queries."""
