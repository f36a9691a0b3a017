"""Indexes for reading: facts as a tree, their text, names and ids."""
