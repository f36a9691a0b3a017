"""Questions to SPARQL."""

__all__: list[str] = []
