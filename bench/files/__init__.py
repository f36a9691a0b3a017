"""Figures of index files: `python -m bench.files`."""
