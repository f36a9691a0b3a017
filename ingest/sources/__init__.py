"""The sources of an ingest: files as decompressed blocks of whole lines, and their formats. Errors name the file."""

from refactx.ingest.sources.inputs import Inputs, inputs_of
from refactx.ingest.sources.source import Format, Source

__all__ = ["Format", "Inputs", "Source", "inputs_of"]
