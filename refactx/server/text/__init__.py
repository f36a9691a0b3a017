"""Texts that the model writes for requests: asked for, read while they are written, with the facts in them."""

__all__: list[str] = []
