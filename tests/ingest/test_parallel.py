"""Work in processes: results in order, errors of the function, and a process that is killed."""

import os
import pickle
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from refactx.errors import RefactxError
from refactx.ingest.parallel import Process, ProcessEndedError, in_processes, pickled


def divided(shared: int, item: int) -> tuple[float, int]:
    if item == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    return shared / item, os.getpid()


def test_results_are_in_order_and_of_several_processes() -> None:
    found = list(in_processes(divided, 60, range(1, 11), 2))
    assert [result for result, _ in found] == [60 / item for item in range(1, 11)]
    pids = {pid for _, pid in found}
    assert 1 <= len(pids) <= 2
    assert os.getpid() not in pids


def test_an_error_of_the_function_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        list(in_processes(divided, 60, [3, 2, 1, 0, 1, 2], 2))


def test_a_killed_process_is_told() -> None:
    with pytest.raises(RefactxError, match="was killed by SIGKILL: if memory is short, give fewer --workers"):
        list(in_processes(divided, 60, [1, 13, 2], 2))


def grown(shared: int, item: int) -> int:
    return len(b"a" * (shared * item))


def test_a_process_has_no_more_memory_than_its_limit(capfd: pytest.CaptureFixture[str]) -> None:
    with Process(pickled(grown, 1 << 20), memory=256 << 20) as process:
        assert process.run(8) == 8 << 20
        with pytest.raises(MemoryError):
            process.run(512)
        assert process.run(8) == 8 << 20


def turns_for_ever(shared: int, item: int) -> None:
    while item:
        shared += item


def test_a_process_ends_at_its_time() -> None:
    with Process(pickled(turns_for_ever, 1)) as process:
        assert process.run(0, seconds=600) is None
        with pytest.raises(TimeoutError):
            process.run(1, seconds=0.05)


def test_a_process_that_another_thread_kills_is_told() -> None:
    with Process(pickled(turns_for_ever, 1)) as process:
        assert process.run(0) is None
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(process.run, 1, 600.0)
            process.kill()
            with pytest.raises(ProcessEndedError, match="was killed by SIGKILL"):
                running.result()


def test_a_process_whose_parent_is_gone_ends_by_itself() -> None:
    """Nobody waits here for the item, and the pipe stays open: its own alarm ends the process."""
    command = [sys.executable, "-m", "refactx.ingest.parallel.child"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as child:
        assert child.stdin is not None
        child.stdin.write(pickled(turns_for_ever, 1) + pickle.dumps((1, 0.01)))
        child.stdin.flush()
        assert child.wait(60) == -signal.SIGALRM


def test_no_process_is_left_and_none_writes_to_the_terminal(tmp_path: Path) -> None:
    """Also not from a script without `if __name__ == "__main__"`, which other ways of starting processes run again."""
    script = tmp_path / "script.py"
    script.write_text(
        "import operator\n"
        "from refactx.ingest.parallel import in_processes\n"
        "results = in_processes(operator.mul, 2, range(9), 2)\n"
        "print(next(results))\n"
        "results.close()\n"
        "import os\n"
        "try:\n"
        "    print(os.waitpid(-1, os.WNOHANG))\n"
        "except ChildProcessError:\n"
        "    print('no child')\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("0\nno child\n", "")


def printed(shared: str, item: int) -> int:
    print(shared, item)
    return item


def test_what_a_function_prints_is_no_result(capfd: pytest.CaptureFixture[str]) -> None:
    assert list(in_processes(printed, "said", [1, 2], 1)) == [1, 2]
    captured = capfd.readouterr()
    assert (captured.out, captured.err.split()) == ("", ["said", "1", "said", "2"])


def test_nothing_is_imported_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with data of others may have a file that is called as a module is."""
    for name in ("pickle", "numpy", "operator"):
        (tmp_path / f"{name}.py").write_text(f"open('{tmp_path}/imported', 'w').close()")
    monkeypatch.chdir(tmp_path)
    assert [result for result, _ in in_processes(divided, 60, [1, 2], 1)] == [60, 30]
    assert not (tmp_path / "imported").exists()
