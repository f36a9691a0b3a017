"""Encoders by name: a model of sentence-transformers, or an encoder of one's own."""

import re
from importlib import import_module
from typing import Any

from refactx.errors import InputError
from refactx.sparql.memory.entry import Encoder

_OWN = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)")


def load_encoder(name: str, device: str = "auto") -> Encoder:
    """Return the encoder of a name.

    `name`: `minilm`; a Hugging Face id or a folder of sentence-transformers; or `module:function`, a function of your
    own that returns an `Encoder`. `device`: for models, a name of PyTorch's, or `auto`.

    Raises InputError or ModelError if there is no such encoder.
    """
    own = _OWN.fullmatch(name)
    if own is not None:
        return _own_encoder(name, own[1], own[2])
    from refactx.sparql.memory.sentence_transformers import SentenceEncoder

    return SentenceEncoder(name, device)


def _own_encoder(name: str, module: str, function: str) -> Encoder:
    try:
        make: Any = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise InputError(f"there is no encoder {name} ({error}): expected module:function, both importable") from error
    if not callable(make):
        raise InputError(f"{name} is a {type(make).__name__}: expected a function that returns an encoder")
    made: Any = make()
    missing = [part for part in ("name", "width", "fingerprint", "encode") if not hasattr(made, part)]
    if missing:
        raise InputError(f"what {name} returns is not an encoder: it has no {', '.join(missing)}")
    encoder: Encoder = made
    return encoder
