"""Evaluation of policies: each question is asked by each policy, and its query is compared with the gold query.

| module | what it has |
|---|---|
| `options` | the options of `refactx eval --sparql` |
| `making` | policies of one model, with what they take timed |
| `run` | the run's folder: a line for each query that was written, and for each gold query |
| `execution` | queries on an engine, and the F1 of their rows |
| `syntax` | whether a text has a query that is not SPARQL |
| `scores`, `figures` | scores of one query, and figures of many |
| `report`, `render`, `plots` | the report: JSON, Markdown, HTML |
| `experiments` | the same texts with names taken out of the memory, or with more names in it |
"""

from refactx.eval.policies.evaluation import evaluate_policies
from refactx.eval.policies.options import PolicyEvaluationOptions

__all__ = ["PolicyEvaluationOptions", "evaluate_policies"]
