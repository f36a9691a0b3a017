"""The folder of ReFactX's own data, `$REFACTX_HOME` or by default the user's data folder; and paths of index files;
and how files of settings are read.

For root the default is `/var/lib/refactx`, because root's database server runs as another user, who cannot enter
`/root`. Missing folders are made; an existing folder is never changed.
"""

import os
import tomllib
from pathlib import Path
from stat import S_IMODE
from typing import Any

from refactx.errors import InputError

ROOT_HOME = Path("/var/lib/refactx")

INDEX_FILE = ".refactx"
"""The end of the names of index files. No index in a database has such a name."""


WORK = "work"
"""The folder of temporary files below that of ReFactX's own data."""


def read_toml(text: str) -> dict[str, Any]:
    """Return a document of TOML. Raises ValueError, with a message of one line, also where Python's reader fails otherwise."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it has too many brackets within each other") from None
    except ValueError as error:
        if "integer string conversion" in str(error):
            raise ValueError("it has a number of too many digits") from None
        raise


def is_root() -> bool:
    """Return whether the user of this process is root; on Windows nobody is."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def refactx_home() -> Path:
    """Return the folder of ReFactX's own data, absolute and without symbolic links. Make it if it is missing.

    Raises InputError if it cannot be made or is not a folder.
    """
    chosen = os.environ.get("REFACTX_HOME")
    if chosen:
        return make_home(Path(chosen))
    if is_root():
        return make_home(ROOT_HOME)
    from platformdirs import user_data_path  # needed by this branch alone

    return make_home(user_data_path("refactx"))


def share_weights(folder: Path) -> None:
    """Give weights in a folder the mode of its other files: safetensors writes them for their owner alone."""
    modes = [path.stat().st_mode for path in folder.glob("*config.json")]
    for path in folder.glob("*.safetensors"):
        path.chmod(S_IMODE(modes[0]))


def is_file_name(name: str) -> bool:
    """Return whether what names an index is the path of a file, not the name of an index in a database: it ends with
    `.refactx`, begins like a path, or has a slash and there is such a file.

    >>> is_file_name("wikidata.refactx"), is_file_name("./wikidata"), is_file_name("wikidata")
    (True, True, False)
    """
    return name.endswith(INDEX_FILE) or name.startswith(("/", "./", "../")) or ("/" in name and Path(name).is_file())


def needs_database(file: str) -> InputError:
    """Return the error for what cannot be done with an index file."""
    return InputError(
        f"{file} is an index file, which can only be read, and this needs PostgreSQL: run `refactx index import {file}`, "
        "and give the name of that index"
    )


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
    if is_root():
        folder.chmod(0o755)
