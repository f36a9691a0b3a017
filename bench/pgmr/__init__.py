"""Fine-tuning of models that write SPARQL with names in place of URIs: data, LoRA, merging, scores.

The recipe of arXiv:2502.13369; docs/how-to/fine-tune.md shows it.
"""
