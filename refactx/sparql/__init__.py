"""SPARQL over an index's knowledge base: engines that run queries, and what leads to queries and explains results.

Its subpackages have the public names: `refactx.sparql.engines` has the engines and their results.
"""

__all__: list[str] = []
