"""Prompts as data: TOML files, read by name with `refactx.load_prompt`, and the judge's prompt of `refactx eval`."""

__all__: list[str] = []
