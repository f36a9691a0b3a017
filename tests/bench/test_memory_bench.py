"""The figures of a memory: of a small one all neighbours are found, and each look-up has its times."""

import re
from pathlib import Path

import numpy as np
from click.testing import CliRunner
from support.memory.graph import build, ingest_named

from bench.memory.__main__ import main
from bench.memory.random_encoder import RandomEncoder


def test_random_embeddings_are_those_of_their_texts() -> None:
    first, second = RandomEncoder().encode(["a", "b", "a"]), RandomEncoder().encode(["b"])
    assert np.allclose(np.linalg.norm(first, axis=1), 1, atol=1e-5)
    assert np.array_equal(first[0], first[2])
    assert np.array_equal(first[1], second[0])
    assert not np.allclose(first[0], first[1], atol=0.1)


def test_the_bench_prints_sizes_times_and_recall(db_url: str, tmp_path: Path) -> None:
    build(ingest_named(db_url, tmp_path), RandomEncoder())
    encoder = "bench.memory.random_encoder:random"
    done = CliRunner().invoke(main, ["default", "--encoder", encoder, "--count", "8", "--exact", "5", "--db", db_url])
    assert done.exit_code == 0, done.output
    sizes, _, *lookups, recall = done.stdout.splitlines()
    assert sizes.startswith(f"memory of default by {encoder}: 18 names, 12 embeddings of 384 numbers; table ")
    assert [re.split(r"  +", line)[0] for line in lookups] == ["SELECT 1", "exact label", "10 nearest, HNSW"]
    assert recall == "of the 10 nearest of 5 searches: 1.000 found, of the very nearest 1.000"
