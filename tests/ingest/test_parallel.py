"""Work in processes: results in order, errors of the function, and a process that is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from refactx.errors import RefactxError
from refactx.ingest.encoding import encode
from refactx.ingest.knowledge.knowledge_base import build_knowledge_base
from refactx.ingest.parallel import in_processes
from refactx.ingest.resources import Resources
from refactx.models.loading import load_tokenizer


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


def test_units_are_encoded_in_processes_to_the_same_bytes(
    sample: Path, tmp_path: Path, smollm2_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = Resources(workers=1, progress=False)
    knowledge = build_knowledge_base([sample], tmp_path / "knowledge", resources=quiet)
    tokenizer, _ = load_tokenizer(str(smollm2_folder))
    monkeypatch.setattr(encode, "LEAST_IN_PROCESSES", 1)
    monkeypatch.setattr(encode, "_UNITS", 500)
    written, advanced = [], list[int]()
    for workers in (1, 2):
        work = tmp_path / str(workers)
        work.mkdir()
        encode.encode_many(
            knowledge.folder, tokenizer, "Fact:", work, resources=Resources(workers=workers, progress=False),
            advance=lambda step, done, total: advanced.append(done) if step == "encode" else None,
        )  # fmt: skip
        written.append({path.name: path.read_bytes() for path in work.iterdir() if path.is_file()})
    assert written[0] == written[1]
    assert len(advanced) > 5, "several batches"
