"""The engine over Hugging Face Transformers, its logits processor, and prefilled prefixes."""
