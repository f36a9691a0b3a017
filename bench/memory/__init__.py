"""Memories of names: sizes and times."""
