"""How well a pack's patterns are detected in questions, and its examples retrieved for them."""
