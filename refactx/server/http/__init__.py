"""What all requests share: errors in OpenAI's form, keys, limits, logs, and streams of server-sent events."""

__all__: list[str] = []
