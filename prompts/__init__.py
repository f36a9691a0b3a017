"""Prompt templates and few-shot examples, as data."""
