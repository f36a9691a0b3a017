"""Asking a model: prompts, options of generation, and answers with their facts."""
