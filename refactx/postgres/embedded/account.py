"""The account of the embedded PostgreSQL server, which does not run as root.

Other users run it as themselves. Root runs it as the owner of the data folder; if there is no data folder yet, as the
system user `refactx`, made on first use, or as `nobody` if no user can be made.
"""

import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from refactx.errors import DatabaseError, InputError

_USER = "refactx"
_FALLBACK = "nobody"


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
