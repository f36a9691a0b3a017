"""Rules of a domain pack: what a prompt says of its data, and what is checked in a query, declared in `rules.toml`."""

from refactx.nl2sparql.rules.reading import read_rules
from refactx.nl2sparql.rules.rule import Check, Finding, Names, Rule, Term

__all__ = ["Check", "Finding", "Names", "Rule", "Term", "read_rules"]
