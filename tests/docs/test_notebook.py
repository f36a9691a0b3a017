"""The notebook of docs/tutorials: its cells run one after another, and print what stands below them."""

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from support.doc_pages import DOCS

CELLS = json.loads((DOCS / "tutorials" / "first-notebook.ipynb").read_text())["cells"]
CODE = [cell for cell in CELLS if cell["cell_type"] == "code"]


def shown(cell: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [output for output in cell["outputs"] if output["output_type"] == kind]


def test_the_cells_are_those_of_one_whole_run() -> None:
    assert [cell["execution_count"] for cell in CODE] == [*range(1, len(CODE) + 1)]
    assert all(shown(cell, "stream") for cell in CODE)
    assert "image/png" in shown(CODE[-1], "display_data")[0]["data"]


@pytest.mark.long
def test_the_cells_print_what_is_below_them(
    db_url: str,
    smollm2_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("REFACTX_DB", db_url)
    monkeypatch.setenv("REFACTX_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("agg")
    names = dict[str, Any]()
    for cell in CODE:
        exec(compile("".join(cell["source"]), "first-notebook.ipynb", "exec"), names)
        assert capsys.readouterr().out == "".join("".join(output["text"]) for output in shown(cell, "stream"))
    assert [bar.get_height() for bar in plt.gca().patches] == [70000, 61000, 49500]
    plt.close("all")
