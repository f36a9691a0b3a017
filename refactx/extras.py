"""Optional dependencies: packages that only some commands need, and the extra that installs each."""

from importlib.util import find_spec

from refactx.errors import InputError


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
