"""The rows of a segment, made from sorted facts: learn what its rows share, cut the tree into pieces, load them."""
