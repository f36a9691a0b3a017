"""Helpers for tests of the engine over llama.cpp. Importing them needs neither llama.cpp nor gguf."""
