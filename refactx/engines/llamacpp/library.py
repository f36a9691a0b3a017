"""The llama.cpp library, by the ctypes declarations of the package llama-cpp-python, and what it reports as errors.

Only the C API is used: the package's own classes decode one sequence. llama.cpp writes what it does to standard error
unless a callback takes it; here, one drops all but the last errors.
"""

import ctypes
from collections import deque
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from refactx.errors import InputError
from refactx.extras import require

LEAST, BELOW = (0, 3, 36), (0, 4)
"""The versions of llama-cpp-python whose functions and structures are used here: at least, and below."""
NO_ROOM = 1
"""What `llama_decode` returns if the ids do not fit into the context."""

_ERROR = 4  # GGML_LOG_LEVEL_ERROR
_errors: deque[str] = deque(maxlen=8)
_callbacks: list[Any] = []  # llama.cpp calls the last one, so it must not be collected


@cache
def library() -> Any:
    """Return the module `llama_cpp.llama_cpp`, initialised and silent.

    Raises InputError if llama-cpp-python is not installed, has another version, or cannot be loaded.
    """
    require("llama_cpp", "llamacpp")
    _check_version()
    try:
        from llama_cpp import llama_cpp as lib
    except (ImportError, OSError, RuntimeError) as error:
        raise InputError(
            f"llama-cpp-python cannot be loaded: {error}. Install it again: pip install --force-reinstall --no-cache-dir "
            "'refactx[llamacpp]'"
        ) from error
    _callbacks.append(lib.llama_log_callback(_note))
    lib.llama_log_set(_callbacks[-1], ctypes.c_void_p(0))
    lib.llama_backend_init()
    return lib


def last_error() -> str:
    """Return what llama.cpp reported last as an error, as one line, and forget it; "" if it reported none."""
    said = " ".join("".join(_errors).split())
    _errors.clear()
    return said.rpartition(": ")[2] if len(said) > 200 else said


def package_version() -> str:
    """Return the version of llama-cpp-python, "unknown" if it was not installed as a package."""
    try:
        return version("llama-cpp-python")
    except PackageNotFoundError:
        return "unknown"


def _check_version() -> None:
    found = package_version()
    numbers = tuple(int(part) for part in found.split("+")[0].split(".") if part.isdigit())
    if not LEAST <= numbers < BELOW:
        least, below = (".".join(map(str, numbers)) for numbers in (LEAST, BELOW))
        raise InputError(
            f"llama-cpp-python {found} is installed, at least {least} and below {below} is needed: pip install "
            "'refactx[llamacpp]'"
        )


def _note(level: int, text: bytes, _: object) -> None:
    """Keep an error's text. Called by llama.cpp, from any thread."""
    if level == _ERROR:
        _errors.append(text.decode("utf-8", "replace"))
