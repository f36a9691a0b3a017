"""Retrieval of examples: those of a pack that are most like a question, by embeddings, BM25 and patterns."""

from refactx.nl2sparql.retrieval.retriever import Retrieved, Retriever, Weights, pattern_similarity

__all__ = ["Retrieved", "Retriever", "Weights", "pattern_similarity"]
