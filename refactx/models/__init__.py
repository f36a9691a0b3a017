"""Models and tokenizers by name: a Hugging Face id, a folder, a GGUF file, or `demo`."""
