"""The packages that decide the bytes of an index: executors must have the driver's versions."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version

from refactx.errors import RefactxError

DECISIVE = ("refactx", "tokenizers", "zstandard")
"""The version of the project, of what makes ids of texts, and of what compresses rows."""

Versions = tuple[tuple[str, str], ...]


@cache
def versions_here() -> Versions:
    """Return the names and versions of the decisive packages in this process."""
    return tuple((package, _version(package)) for package in DECISIVE)


def check_versions(driver: Versions) -> None:
    """Raise RefactxError if this process has other versions of the decisive packages than the driver."""
    for (package, here), (_, there) in zip(versions_here(), driver, strict=True):
        if here != there:
            raise RefactxError(
                f"an executor has {package} {here} and the driver {there}: install the same version on both, since it "
                "decides the bytes of an index"
            )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"
