"""The folder of ReFactX's own data: `$REFACTX_HOME`, or by default the user's data folder.

For root the default is `/var/lib/refactx`, because root's database server runs as another user, who cannot enter
`/root`. Missing folders are made; an existing folder is never changed.
"""

import os
from pathlib import Path

from refactx.errors import InputError

ROOT_HOME = Path("/var/lib/refactx")


def refactx_home() -> Path:
    """Return the folder of ReFactX's own data, absolute and without symbolic links. Make it if it is missing.

    Raises InputError if it cannot be made or is not a folder.
    """
    chosen = os.environ.get("REFACTX_HOME")
    if chosen:
        return make_home(Path(chosen))
    if os.geteuid() == 0:
        return make_home(ROOT_HOME)
    from platformdirs import user_data_path  # needed by this branch alone

    return make_home(user_data_path("refactx"))


def make_home(folder: Path) -> Path:
    """Return `folder`, absolute and without symbolic links. Make it if it is missing.

    All users may enter the folders that root makes, whatever the umask: root's database server runs as another user.
    Raises InputError if it cannot be made or is not a folder.
    """
    try:
        folder = folder.expanduser().resolve()
        for missing in reversed([f for f in (folder, *folder.parents) if not f.exists()]):
            _make(missing)
    except (OSError, RuntimeError) as error:
        raise InputError(f"cannot make the folder {folder} ({error}): set REFACTX_HOME to one you can write") from None
    if not folder.is_dir():
        raise InputError(f"REFACTX_HOME is {folder}, which is not a folder: set it to a folder")
    return folder


def _make(folder: Path) -> None:
    try:
        folder.mkdir()
    except FileExistsError:  # another process was faster: the folder is not changed
        return
    if os.geteuid() == 0:
        folder.chmod(0o755)
