"""Ways to choose facts: plainly by the model, by beam search, or by the noisy channel from the question."""
