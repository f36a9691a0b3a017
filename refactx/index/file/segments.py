"""The codec of a segment in a file."""

from refactx.tree.codec import RowCodec, shared_seed

MAX_DICTIONARY_BYTES = 1 << 22
"""40 times the size of the dictionaries that an ingest trains."""


def segment_codec(codes: bytes, dictionary: bytes) -> RowCodec:
    """Return the codec of a segment, given its token codes and its dictionary, which is loaded.

    Raises ValueError if the dictionary is too large, ZstdError if it is none.
    """
    if len(dictionary) > MAX_DICTIONARY_BYTES:
        raise ValueError(f"it has {len(dictionary):,} bytes, more than {MAX_DICTIONARY_BYTES:,}")
    codec = RowCodec(dictionary, seed=shared_seed(codes, dictionary))
    codec.prepare()
    return codec
