"""Clients that change single facts at once, and are killed, lose nothing, and nobody reads what is stale or double."""

import random
from pathlib import Path

from support.tiny_asker import save_tiny

from bench.remembering import Run, build


def test_a_few_clients(db_url: str, tmp_path: Path) -> None:
    build(db_url, tmp_path, str(save_tiny(tmp_path / "model")))
    run = Run(db_url, tmp_path, 3, random.Random(2))
    run.go(40, 0.3)
    assert run.wrong == []
    assert run.counts["kill"] and run.counts["forget"] and run.counts["correct"]
