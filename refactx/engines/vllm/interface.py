"""The base classes that vLLM's loaders require of logits processors."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from refactx.errors import ModelError


def base_class(module: str, runner: str, since: str) -> Any:
    """Return the class `LogitsProcessor` of a module of vLLM; `object` if vLLM is not installed.

    `runner`: the name of the model runner; `since`: the first version of vLLM that has this interface. Raises
    ModelError, one line that vLLM's loader reports, if this version does not have it.

    >>> base_class("json", "V9", "99")
    Traceback (most recent call last):
    refactx.errors.ModelError: vLLM ... has no logits processors for model runner V9: install vllm>=99
    """
    if find_spec("vllm") is None and module.startswith("vllm."):
        return object
    try:
        return import_module(module).LogitsProcessor
    except (ImportError, AttributeError) as error:
        raise ModelError(
            f"vLLM {_version()} has no logits processors for model runner {runner}: install vllm>={since}"
        ) from error


def _version() -> str:
    return str(getattr(import_module("vllm"), "__version__", "")) if find_spec("vllm") else "(not installed)"
