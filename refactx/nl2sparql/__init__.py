"""Questions to SPARQL queries for any endpoint, by what its domain pack knows about it."""

from refactx.nl2sparql.pack import Example, Pack, Pattern, SchemaTerm, built_in_packs, load_pack

__all__ = ["Example", "Pack", "Pattern", "SchemaTerm", "built_in_packs", "load_pack"]
