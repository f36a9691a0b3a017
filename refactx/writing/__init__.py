"""The writing of texts with a language model, with or without facts, many at once."""

from refactx.writing.texts import Ordered, WritingError, WritingOptions, WrittenText
from refactx.writing.writer import TextWriter

__all__ = ["Ordered", "TextWriter", "WritingError", "WritingOptions", "WrittenText"]
