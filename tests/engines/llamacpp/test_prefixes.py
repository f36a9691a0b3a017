"""Prefixes on disk: an engine that loads one goes on as the one that has read it, without a pass."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.llamacpp.tiny_gguf import write_tiny_gguf

from refactx.engines.engine import Feed, FeedTree, Logits

pytest.importorskip("llama_cpp")
from support.llamacpp.twins import plain_logits, tiny_context

from refactx.engines.llamacpp import LlamaCppEngine, LlamaCppModel, load
from refactx.engines.llamacpp.engine import StatesEngine
from refactx.engines.llamacpp.library import Context
from refactx.engines.llamacpp.prefixes import LEAST, Prefixes, StateFiles, file_identity, kind_of_states

if TYPE_CHECKING:
    from refactx.engines.llamacpp.library import Entry

TEXT = [5 + n * n % 8 for n in range(100)]


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of passes so far."""
    sizes, decode = list[int](), Context.decode

    def counted(self: Context, entries: Sequence["Entry"]) -> int:
        sizes.append(len(entries))
        return decode(self, entries)

    monkeypatch.setattr(Context, "decode", counted)
    return sizes


def engine(folder: Path, kind: str = "tiny", slots: int = 8, cells: int = 512) -> LlamaCppEngine:
    context = tiny_context(slots, cells)
    return LlamaCppEngine(context, prefixes=Prefixes(context, StateFiles(folder), kind))


def after(one: LlamaCppEngine | StatesEngine, sequence: int, ids: Sequence[int] = (6, 7, 8)) -> Logits:
    """The logits after ids that a fork of a sequence reads."""
    fork = one.fork(sequence)
    [logits], _ = one.feed([(fork, Feed(ids, last=len(ids)))])
    one.drop(fork)
    return logits


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.state"))


def test_a_loaded_prefix_gives_the_same_logits_without_a_pass(tmp_path: Path, passes: list[int]) -> None:
    first, second = engine(tmp_path), engine(tmp_path)
    expected = after(first, first.prefill(TEXT))
    passes.clear()
    sequence = second.prefill(TEXT)
    assert passes == []
    np.testing.assert_array_equal(after(second, sequence), expected)
    np.testing.assert_allclose(expected, plain_logits([*TEXT, 6, 7, 8])[-3:], rtol=0, atol=1e-4)


def test_a_loaded_prefix_is_forgotten_forked_and_branched_like_any_other(tmp_path: Path) -> None:
    first, second = engine(tmp_path), engine(tmp_path)
    first.prefill(TEXT)
    sequence = second.prefill(TEXT)
    tree = second.tree(second.fork(sequence))
    _, [(numbers, logits)] = second.feed([], [FeedTree(tree, [(5,), (5, 6), (7, 8, 9)])])
    for number, found in zip(numbers, logits, strict=True):
        path = [(5,), (5, 6), (7, 8, 9)][number]
        np.testing.assert_allclose(found, plain_logits([*TEXT, *path])[-1], rtol=0, atol=1e-4)
    assert second.keep(tree, (5, 6)) == 2
    second.forget(sequence, 40)
    expected = plain_logits([*TEXT[:60], 6, 7, 8])[-3:]
    np.testing.assert_allclose(after(second, sequence), expected, rtol=0, atol=1e-4)
    second.drop(sequence)


def test_a_prefix_goes_into_the_cells_that_are_free(tmp_path: Path, passes: list[int]) -> None:
    """Cells that are scattered, when it is written and when it is loaded."""
    for _ in range(2):
        one = engine(tmp_path, slots=64)
        some = [one.prefill([5 + n % 3] * 9) for n in range(50)]
        for sequence in some[::2]:
            one.drop(sequence)
        passes.clear()
        found = after(one, one.prefill(TEXT))
        np.testing.assert_allclose(found, plain_logits([*TEXT, 6, 7, 8])[-3:], rtol=0, atol=1e-4)
        [path] = files(tmp_path)
    assert path
    assert passes == [3, len(TEXT) + 3], "the ids after the prefix, and the plain pass"


def test_other_ids_and_other_kinds_are_other_prefixes(tmp_path: Path, passes: list[int]) -> None:
    for kind, ids in (("a", TEXT), ("b", TEXT), ("a", TEXT[:-1]), ("a", [6, *TEXT[1:]])):
        passes.clear()
        engine(tmp_path, kind).prefill(ids)
        assert passes
    assert len(files(tmp_path)) == 4


def test_short_prefixes_are_not_kept(tmp_path: Path) -> None:
    one = engine(tmp_path)
    one.prefill(())
    one.prefill(TEXT[: LEAST - 1])
    assert not files(tmp_path)
    one.prefill(TEXT[:LEAST])
    assert files(tmp_path)


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped"])
def test_a_damaged_prefix_is_read_again_and_replaced(tmp_path: Path, passes: list[int], damage: str) -> None:
    first = engine(tmp_path)
    expected = after(first, first.prefill(TEXT))
    [path] = files(tmp_path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes({"cut": content[: len(content) // 2], "empty": b"", "flipped": content}[damage])
    for again in (True, False):
        passes.clear()
        one = engine(tmp_path)
        sequence = one.prefill(TEXT)
        assert bool(passes) == again
        np.testing.assert_array_equal(after(one, sequence), expected)


def test_a_state_that_llama_cpp_refuses_is_read_again(tmp_path: Path) -> None:
    """The digest is right, but the state is none: a key that does not tell two kinds apart."""
    first = engine(tmp_path)
    sequence = first.prefill(TEXT)
    state = bytes(first._context.state(first._sequences[sequence].slot))
    expected = after(first, sequence)
    key = first._prefixes._key(TEXT) if first._prefixes else b""
    shorter = bytes(first._context.state(first._sequences[first.prefill(TEXT[1:])].slot))
    for wrong in (b"", state[:100], state[:-1], state + b"\0", b"\0" * len(state), shorter):
        StateFiles(tmp_path).write(key, memoryview(wrong))
        second = engine(tmp_path)
        np.testing.assert_array_equal(after(second, second.prefill(TEXT)), expected)


def test_without_room_leaves_of_trees_make_some(tmp_path: Path) -> None:
    engine(tmp_path).prefill(TEXT)
    one = engine(tmp_path, slots=150, cells=256)
    other = one.prefill([5] * 60)
    tree = one.tree(other)
    one.feed([], [FeedTree(tree, [(5 + n, 6) for n in range(8)])])
    one.prefill([6] * 100)
    sequence = one.prefill(TEXT[:80])
    np.testing.assert_allclose(after(one, sequence, [6]), plain_logits([*TEXT[:80], 6])[-1:], rtol=0, atol=1e-4)
    one.drop(sequence)
    with pytest.raises(Exception, match="256 ids is full"):
        one.prefill(TEXT)


@pytest.mark.parametrize("architecture", ["gemma2", "mamba", "lfm2"])
def test_a_model_with_windows_or_states_loads_prefixes(architecture: str, tmp_path: Path, passes: list[int]) -> None:
    """llama.cpp keeps the cells in a window alone for the layers that have one, and the last state of others."""
    fields = {"attention.sliding_window": 32} if architecture == "gemma2" else {}
    path = write_tiny_gguf(tmp_path / "tiny.gguf", architecture=architecture, fields=fields)
    model = load(path, context=512, threads=1, keep_prefixes=False)
    assert not model.engine.can_forget
    found = []
    for _ in range(2):
        context = Context(*model.weights, cells=512, threads=1, slots=8, ids=64, exact=True)
        prefixes = Prefixes(context, StateFiles(tmp_path), architecture)
        one = (
            StatesEngine(context, prefixes=prefixes)
            if isinstance(model.engine, StatesEngine)
            else LlamaCppEngine(context, can_forget=False, prefixes=prefixes)
        )
        passes.clear()
        found.append(after(one, one.prefill(TEXT)))
    assert len(passes) == 1
    np.testing.assert_allclose(found[1], found[0], rtol=0, atol=1e-5)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of prefixes in a user's cache that is empty."""
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / "cache" / name)
    return tmp_path / "cache" / "refactx" / "prefixes"


def opened(path: Path, **options: int) -> LlamaCppModel:
    return load(path, threads=1, context=512, **options)


def test_a_model_that_is_loaded_keeps_prefixes_unless_told_not_to(
    cache: Path, tmp_path: Path, passes: list[int]
) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf")
    opened(path, keep_prefixes=False).engine.prefill(TEXT)
    assert not files(cache)
    opened(path).engine.prefill(TEXT)
    passes.clear()
    opened(path).engine.prefill(TEXT)
    assert passes == []
    load(path, threads=2, context=1024).engine.prefill(TEXT)
    assert passes == [], "threads and cells do not matter"
    shutil.copy2(write_tiny_gguf(tmp_path / "other.gguf", seed=1), path)
    opened(path).engine.prefill(TEXT)
    assert len(passes) == 1, "the file is another one"


@pytest.mark.skipif(sys.platform != "linux", reason="XDG_CACHE_HOME moves the cache on Linux only")
def test_the_next_process_finds_a_prefix(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf")
    code = (
        "from refactx.engines.llamacpp import Context, load\n"
        "passes, decode = [], Context.decode\n"
        "Context.decode = lambda self, entries: passes.append(1) or decode(self, entries)\n"
        f"load({str(path)!r}, context=512, threads=1).engine.prefill({TEXT})\n"
        "print(len(passes))"
    )
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", code]
    runs = [subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(2)]
    assert [(run.stdout, run.stderr) for run in runs] == [("1\n", ""), ("0\n", "")]


def test_what_decides_a_state_is_in_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    context, module = tiny_context(4, 256), "refactx.engines.llamacpp.prefixes"
    first = kind_of_states("file", context, 0, False)
    kinds = [first, *(kind_of_states(*one) for one in (("x", context, 0, False), ("file", context, 9, False)))]
    kinds.append(kind_of_states("file", context, 0, True))
    monkeypatch.setattr(f"{module}.package_version", lambda: "0.3.99")
    kinds.append(kind_of_states("file", context, 0, False))
    monkeypatch.undo()
    for name, value in (("exact", False), ("ids", 7)):
        monkeypatch.setattr(context, name, value)
        kinds.append(kind_of_states("file", context, 0, False))
        monkeypatch.undo()
    assert len(set(kinds)) == len(kinds)
    assert kind_of_states("file", context, 0, False) == first


def test_a_file_that_changes_is_another_one(tmp_path: Path) -> None:
    path, parts = tmp_path / "x.gguf", [tmp_path / f"[y]-0000{n}-of-00002.gguf" for n in (1, 2)]
    for one in (path, *parts):
        one.write_bytes(b"abc")
    before, stat = file_identity(path), path.stat()
    (tmp_path / "link.gguf").symlink_to(path)
    assert file_identity(tmp_path / "link.gguf") == before
    path.write_bytes(b"xyz")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert file_identity(path) != before
    split = file_identity(parts[0])
    parts[1].write_bytes(b"other")
    assert file_identity(parts[0]) != split
