"""Gold queries as text with names in place of URIs, and back."""
