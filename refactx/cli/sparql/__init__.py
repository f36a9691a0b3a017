"""`refactx sparql`: SPARQL and its intermediate language."""

from refactx.cli.sparql.group import sparql

__all__ = ["sparql"]
