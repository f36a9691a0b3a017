"""Scores of written SPARQL against gold queries, without running either: those of arXiv:2502.13369.

| name | what it is |
|---|---|
| `same_query` | semantic query match (SQM): the same query up to names of variables and order of triples |
| `ids_of` | the ids of entities and properties in a query; equal sets are Qid-EM and Pid-EM |
| `unknown_ids` | the ids in a query that a knowledge base does not have: hallucinated URIs |
| `bleu` | BLEU by sacrebleu, with its signature |
| `score_queries`, `QueryScores` | all of them over a set of questions |
| `split_unknown` | which questions are for a test with ids that no other question has |
"""

from refactx.eval.sparql.scores import Bleu, Mode, QueryScores, bleu, same_query, score_queries, split_unknown
from refactx.sparql.labels import Ids, ids_of, unknown_ids

__all__ = ["Bleu", "Ids", "Mode", "QueryScores", "bleu", "ids_of", "same_query", "score_queries"]
__all__ += ["split_unknown", "unknown_ids"]
