"""The README's Python runs as it stands, on the sample and the demo model."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parent.parent.parent / "README.md"


def test_the_library_in_ten_lines(sample_url: str, smollm2_folder: Path) -> None:
    first, calls, *_ = (block for block in re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL))
    code = first.replace("path/to/model", str(smollm2_folder)) + calls.replace("import refactx\n", "")
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"REFACTX_DB": sample_url, "PATH": "/usr/bin:/bin", "OMP_WAIT_POLICY": "PASSIVE"},
    )
    assert done.returncode == 0, done.stderr
    fact, is_there, completions = done.stdout.strip().splitlines()
    assert fact.startswith("<Alaska (state of the United States of America)> <")
    assert is_there in ("True", "False")
    assert "<capital>', 1)" in completions


def test_the_readme_shows_every_command() -> None:
    text = README.read_text()
    commands = ("ingest", "forget", "ask", "facts", "index list", "index verify", "index compact", "index migrate")
    for command in (*commands, "index export", "index import"):
        assert f"refactx {command}" in text
