"""An index of ten times as many facts: whether memory, bytes, seconds and walks grow with it."""
