"""Knowledge bases: parsed rows joined into named facts, which depend on no tokenizer."""
