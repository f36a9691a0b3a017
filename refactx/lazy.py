"""Imports on first use: the public names of packages, and optional packages."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from refactx.errors import InputError

_REFACTX = {
    "ask.answer": "Answer",
    "ask.asker": "Asker check extract",
    "ask.claims": "TextClaim TextClaims",
    "ask.extraction": "ExtractionOptions ExtractedFact ExtractedFacts",
    "ask.grounded": "GroundedModel ground",
    "ask.prompt": "Generation Prompt load_prompt",
    "ask.schema": "FactSchema",
    "decoding.machine": "Machine",
    "decoding.stream": "Partial",
    "build": "append build_index fact_writer forget update",
    "engines.language_models": "load_language_model",
    "engines.transformers.processor": "FactLogitsProcessor",
    "fact": "Fact Link LinkedFact",
    "index.index": "Index",
    "index.open": "open_index",
    "models.loading": "load_model",
    "models.options": "EngineOptions",
    "postgres.entry": "Limits",
    "selection.beams": "FactBeams",
    "tree.tree": "Children FactTree",
}


def lazy_exports(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` (PEP 562) for `package`, given the public names of its modules, separated by spaces.

    >>> lazy_exports("os", {"path": "join split"})("join") is __import__("os").path.join
    True
    >>> lazy_exports("os", {"path": "join split"})("no_such_name")
    Traceback (most recent call last):
    AttributeError: module 'os' has no attribute 'no_such_name'
    """
    module_of = {name: f"{package}.{module}" for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with clear_imports():
            return getattr(import_module(module_of[name]), name)

    return get


@contextmanager
def clear_imports() -> Iterator[None]:
    """Raise InputError, naming what to install, if a package that refactx always needs is missing in the block.

    >>> with clear_imports():
    ...     raise ModuleNotFoundError("No module named 'torch'", name="torch")
    Traceback (most recent call last):
    refactx.errors.InputError: the package torch is not installed: pip install refactx
    """
    try:
        yield
    except ModuleNotFoundError as error:
        from importlib.metadata import requires

        package = str(error.name).partition(".")[0]
        always = [one for one in requires("refactx") or () if "extra ==" not in one]
        if not any(re.match(rf"{re.escape(package).replace('_', '[-_]')}(?![\w-])", one) for one in always):
            raise
        raise InputError(f"the package {package} is not installed: pip install refactx") from None


_public_name = lazy_exports("refactx", _REFACTX)


def refactx_attribute(name: str) -> Any:
    """Return the public object of `refactx` with that name, or the version. Raise AttributeError if there is none."""
    if name == "__version__":
        from importlib.metadata import version  # 20 ms, and most programs do not ask

        return version("refactx")
    return _public_name(name)


def require(module: str, extra: str) -> None:
    """Raise InputError, naming the extra of refactx to install, unless the top-level package `module` is installed.

    Nothing is imported: call it before work that would be lost, and import the package where it is used.

    >>> require("json", "eval")
    >>> require("no_such_package", "eval")
    Traceback (most recent call last):
    refactx.errors.InputError: the package no_such_package is not installed: pip install 'refactx[eval]'
    """
    if find_spec(module) is None:
        raise InputError(f"the package {module} is not installed: pip install 'refactx[{extra}]'")
