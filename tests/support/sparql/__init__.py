"""Engines of SPARQL for tests: an endpoint on this machine, and small stores."""
