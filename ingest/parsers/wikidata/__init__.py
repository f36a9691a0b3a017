"""The parser of Wikidata's truthy dumps: N-Triples lines as claims, names and descriptions of entities."""
