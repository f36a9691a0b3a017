"""States on disk: what is damaged is never returned, and no error of the disk is raised."""

import errno
import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from refactx.engines.llamacpp.prefixes import StateFiles

KEY, OTHER = b"k" * 32, b"o" * 32
STATE = memoryview(bytes(range(256)) * 20)


def only(folder: Path) -> Path:
    [path] = folder.iterdir()
    return path


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    files = StateFiles(tmp_path / "a" / "b")
    assert files.read(KEY) is None
    files.write(KEY, STATE)
    assert files.read(KEY) == STATE
    assert files.read(OTHER) is None
    assert StateFiles(tmp_path / "a" / "b").read(KEY) == STATE
    assert (tmp_path / "a" / "b").stat().st_mode & 0o077 == only(tmp_path / "a" / "b").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("size", [0, 1, 8, 39, 40, 41, 2000, -1])
def test_a_file_that_is_cut_is_replaced(tmp_path: Path, size: int) -> None:
    files = StateFiles(tmp_path)
    files.write(KEY, STATE)
    path = only(tmp_path)
    path.write_bytes(path.read_bytes()[:size])
    assert files.read(KEY) is None
    files.write(KEY, STATE)
    assert files.read(KEY) == STATE


@pytest.mark.parametrize("place", [0, 7, 8, 39, 40, 3000, -1])
def test_a_file_with_another_byte_is_ignored(tmp_path: Path, place: int) -> None:
    files = StateFiles(tmp_path)
    files.write(KEY, STATE)
    content = bytearray(only(tmp_path).read_bytes())
    content[place] ^= 1
    only(tmp_path).write_bytes(content)
    assert files.read(KEY) is None


def test_longer_and_foreign_files_are_ignored(tmp_path: Path) -> None:
    files = StateFiles(tmp_path, most=10_000)
    files.write(KEY, STATE)
    path = only(tmp_path)
    content = path.read_bytes()
    for foreign in (content + b"\0", bytes(20_000), b"text"):
        path.write_bytes(foreign)
        assert files.read(KEY) is None
    path.write_bytes(content)
    path.rename(tmp_path / f"{OTHER.hex()}.state")
    assert files.read(OTHER) is None, "a state is of one key"
    path.mkdir()
    files.write(KEY, STATE)
    assert files.read(KEY) is None


def test_the_files_used_least_recently_are_removed(tmp_path: Path) -> None:
    files, keys = StateFiles(tmp_path, most=4 * len(STATE)), [bytes([n]) * 32 for n in range(4)]
    for age, key in enumerate(keys[:3]):
        files.write(key, STATE)
        os.utime(tmp_path / f"{key.hex()}.state", (1000 + age, 1000 + age))
    assert files.read(keys[0]) == STATE, "it is the one used last"
    files.write(keys[3], STATE)
    assert [key for key in keys if files.read(key) is not None] == [keys[0], keys[2], keys[3]]


def test_a_state_beyond_the_bound_is_not_written(tmp_path: Path) -> None:
    StateFiles(tmp_path, most=len(STATE) - 1).write(KEY, STATE)
    assert not list(tmp_path.iterdir())


def test_files_of_killed_processes_are_removed_when_they_are_old(tmp_path: Path) -> None:
    old, new, foreign = tmp_path / "a.partial", tmp_path / "b.partial", tmp_path / "notes.txt"
    for path in (old, new, foreign):
        path.write_text("x")
    os.utime(old, (time.time() - 7200,) * 2)
    os.utime(foreign, (1000, 1000))
    StateFiles(tmp_path, most=len(STATE) + 40).write(KEY, STATE)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".partial", ".state", ".txt"]


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    files = StateFiles(tmp_path / "file" / "below")
    with caplog.at_level(logging.DEBUG, "refactx"):
        files.write(KEY, STATE)
        assert files.read(KEY) is None
    assert {record.levelname for record in caplog.records} == {"DEBUG"}
    assert "cannot keep a state" in caplog.text


def test_a_read_only_folder_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files = StateFiles(tmp_path)
    files.write(KEY, STATE)

    def refuse(*_: object, **__: object) -> None:  # (root may write to a folder without permissions)
        raise OSError(errno.EROFS, "Read-only file system")

    for name in ("os.utime", "tempfile.mkstemp"):
        monkeypatch.setattr(f"refactx.engines.llamacpp.prefixes.{name}", refuse)
    assert files.read(KEY) == STATE
    with caplog.at_level(logging.DEBUG, "refactx"):
        files.write(OTHER, STATE)
    assert "Read-only" in caplog.text
    assert only(tmp_path)


def test_a_full_disk_leaves_no_file(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys\nfrom pathlib import Path\n"
        "from refactx.engines.llamacpp.prefixes import StateFiles\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        f"StateFiles(Path({str(tmp_path)!r})).write({KEY!r}, memoryview(bytes(5000)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert not list(tmp_path.iterdir())


def test_processes_that_write_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path\nfrom refactx.engines.llamacpp.prefixes import StateFiles\n"
        f"files = StateFiles(Path({str(tmp_path)!r}))\n"
        "for n in range(200):\n"
        f"    files.write({KEY!r}, memoryview(bytes([n]) * 50_000))\n"
        f"    assert files.read({KEY!r}) is not None"
    )
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert StateFiles(tmp_path).read(KEY) is not None
    assert only(tmp_path)
