"""Domain packs: what translating questions for one SPARQL endpoint needs to know about it, as files that are checked."""

from refactx.nl2sparql.pack.loading import built_in_packs, load_pack
from refactx.nl2sparql.pack.pack import Example, Pack, Pattern, SchemaTerm

__all__ = ["Example", "Pack", "Pattern", "SchemaTerm", "built_in_packs", "load_pack"]
