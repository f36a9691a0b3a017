"""A store that cannot be used is refused with what to run, and what can be made right is made right by that."""

import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.command import complains, run_refactx
from support.ingest.living_index import FIRST, MORE, LivingIndex
from support.sparql.stores import triples_anew, triples_in

from refactx.errors import InputError
from refactx.index import Index
from refactx.sparql.store import StoreError, build_store, describe_store, open_store, update_store
from refactx.sparql.store.folder import folder_of


@pytest.fixture
def living(db_url: str, tmp_path: Path) -> LivingIndex:
    living = LivingIndex(db_url, tmp_path, "my index")
    living.ingest(*FIRST)
    return living


@pytest.fixture
def index(living: LivingIndex) -> Iterator[Index]:
    with living.open() as index:
        yield index
        folder_of(index).drop()


def refusal(index: Index) -> str:
    index.refresh()
    with pytest.raises(StoreError) as caught:
        open_store(index)
    return str(caught.value)


def files(index: Index, pattern: str) -> list[Path]:
    return sorted((folder_of(index).path / "1").glob(pattern))


def cut_tables(index: Index) -> None:
    for path in files(index, "*.sst"):
        path.write_bytes(path.read_bytes()[:100])


def overwrite_tables(index: Index) -> None:
    for path in files(index, "*.sst"):
        path.write_bytes(b"x" * path.stat().st_size)


def cut_manifest(index: Index) -> None:
    for path in files(index, "MANIFEST*"):
        path.write_bytes(path.read_bytes()[:50])


def remove(pattern: str) -> Callable[[Index], None]:
    return lambda index: [path.unlink() for path in files(index, pattern)] and None


DAMAGES = {
    "tables cut": cut_tables,
    "tables overwritten": overwrite_tables,
    "manifest cut": cut_manifest,
    "no table": remove("*.sst"),
    "no manifest": remove("MANIFEST*"),
    "no file": remove("*"),
    "no mark": remove("refactx.json"),
    "no such mark": lambda index: [path.write_text("[[" * 5000) for path in files(index, "refactx.json")] and None,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_store_is_refused_and_an_update_builds_it_anew(index: Index, damage: Callable[[Index], None]) -> None:
    build_store(index)
    damage(index)
    said = refusal(index)
    assert said.startswith("the store of index 'my index' is damaged (")
    assert said.endswith("): run `refactx store build 'my index'`")
    assert "is damaged" in update_store(index).why
    with open_store(index) as store:
        assert triples_in(store) == triples_anew(index)


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
def test_damage_anywhere_is_found_at_the_latest_by_the_update_that_reads_it(
    living: LivingIndex, index: Index, part: int
) -> None:
    build_store(index)
    living.append(*MORE)
    living.forget(*FIRST[:5])
    for path in files(index, "*.sst"):
        content = path.read_bytes()
        at = len(content) * part // 8
        path.write_bytes(content[:at] + bytes(255 - byte for byte in content[at : at + 40]) + content[at + 40 :])
    assert update_store(index).change in ("built", "updated")
    with open_store(index) as store:
        assert triples_in(store) == triples_anew(index)


def test_a_store_of_an_index_that_was_replaced_is_refused_and_stays_until_it_is_built_anew(
    living: LivingIndex, index: Index
) -> None:
    build_store(index)
    living.ingest(*MORE, replace=True)
    with living.open() as replaced:
        said = refusal(replaced)
        assert said.startswith("the store of index 'my index' is that of another index of this name (of 20")
        assert said.endswith(" UTC): run `refactx store build 'my index'`")
        assert describe_store(replaced)["problem"] == said
        assert update_store(replaced).why == "it was that of another index of this name"
        assert describe_store(replaced)["problem"] is None


def test_a_store_of_another_version_is_refused(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refactx.sparql.store.folder.StoreMark.__init__.__defaults__", (0,))
    build_store(index)
    monkeypatch.undo()
    assert refusal(index) == (
        "the store of index 'my index' was built by another refactx (format 0, expected 4): "
        "run `refactx store build 'my index'`"
    )
    assert update_store(index).why.endswith("was built by another refactx (format 0, expected 4)")
    open_store(index).close()


def test_a_store_that_is_being_built_is_waited_for_by_the_user(index: Index) -> None:
    with folder_of(index).writing():
        assert refusal(index) == "the store of index 'my index' is still being built: wait until that has ended"
    assert refusal(index) == "index 'my index' has no store: run `refactx store build 'my index'`"


def test_open_stores_survive_later_versions_and_are_removed_when_nobody_reads_them(
    living: LivingIndex, index: Index
) -> None:
    build_store(index)
    before = triples_anew(index)
    path = folder_of(index).path
    with open_store(index) as first:
        living.append(*MORE)
        update_store(index)
        with open_store(index) as second:
            assert triples_in(first) == before
            assert triples_in(second) == triples_anew(index) > before
        living.forget(*MORE)
        update_store(index)
        assert sorted(p.name for p in path.iterdir() if p.is_dir()) == ["1", "3"]
    with pytest.raises(ValueError, match="closed"):
        _ = first.path
    living.append(*MORE)
    update_store(index)
    assert sorted(p.name for p in path.iterdir()) == ["4", "4.lock", "lock"]


def test_a_folder_that_cannot_be_made_is_an_error(index: Index) -> None:
    folder = folder_of(index).path
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("")
    with pytest.raises(InputError, match=f"^cannot make the folder|^REFACTX_HOME is {folder}"):
        build_store(index)
    folder.unlink()


def test_a_full_disk_is_one_line_and_leaves_the_store_as_it_was(living: LivingIndex, index: Index) -> None:
    build_store(index)
    living.append(*MORE)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))

    done = run_refactx("store", "update", "my index", "--db", living.url, preexec_fn=limit)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"refactx: cannot write the store in {folder_of(index).path} (")
    assert done.stderr.count("\n") == 1
    assert not folder_of(index).was_stopped()
    assert "is behind the index: run `refactx store update 'my index'`" in refusal(index)


def test_commands_without_a_store_say_what_to_run(living: LivingIndex) -> None:
    no_store = "refactx: index 'my index' has no store"
    assert complains("store", "show", "my index", "--db", living.url) == (
        f"{no_store}: run `refactx store build 'my index'`"
    )
    assert complains("store", "drop", "my index", "--db", living.url) == no_store
    assert "there is no index 'no'" in complains("store", "build", "no", "--db", living.url)
