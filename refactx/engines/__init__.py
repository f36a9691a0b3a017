"""Engines: language models that read sequences of token ids, and the loop that writes texts with them."""
