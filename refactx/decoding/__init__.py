"""Decoding as a state machine: which token ids may follow a text so that every fact in it is one of the tree."""
