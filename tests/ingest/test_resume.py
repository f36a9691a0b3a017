"""An ingest that was stopped goes on behind the last step it finished, if what goes in is the same."""

import json
import os
import shutil
from collections import namedtuple
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from conftest import run_refactx
from support.tiny_model import tiny_tokenizer
from test_crash import kill, many_facts, start, wait_for  # noqa: F401  # a fixture among them

from refactx.errors import IndexExistsError, InputError
from refactx.ingest import disk
from refactx.ingest.knowledge.knowledge_base import KnowledgeBase
from refactx.ingest.manifest import first_step
from refactx.ingest.pipeline import Steps
from refactx.ingest.selection import Selection
from refactx.ingest.sources.inputs import inputs_of
from refactx.ingest.sources.source import STANDARD_INPUT, Source
from refactx.ingest.work_folder import work_folder
from refactx.tokenizer import FactTokenizer

LIMITS: dict[str, Any] = {"memory": "200MB", "workers": 2}


class Ran(list[str]):
    """The steps that were measured."""

    def __call__(self, step: str) -> AbstractContextManager[None]:
        self.append(step)
        return nullcontext()


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    path = tmp_path / "facts.txt"
    path.write_text("<a> <is> <b> .\n<b> <is> <c> .\nnonsense\n")
    return path


def knowledge_of(folder: Path, path: Path, ran: Ran, strict: bool = False) -> KnowledgeBase:
    folder.mkdir(exist_ok=True)
    return Steps(folder, inputs_of([path], None, 2), Selection(), strict).knowledge_base(ran, progress=False, **LIMITS)


def test_a_finished_step_is_not_done_again(facts: Path, tmp_path: Path) -> None:
    ran = Ran()
    first = knowledge_of(tmp_path / "work", facts, ran)
    assert ran == ["read", "join"]
    again = knowledge_of(tmp_path / "work", facts, ran)
    assert ran == ["read", "join"]
    assert again == first
    assert first.report.malformed == (f"{facts}:3: not <subject> <predicate> <object> .: nonsense",)


def test_stopped_between_reading_and_joining_it_goes_on_with_joining(facts: Path, tmp_path: Path) -> None:
    class Stopped(Ran):
        def __call__(self, step: str) -> AbstractContextManager[None]:
            if step == "join":
                raise KeyboardInterrupt
            return super().__call__(step)

    ran, work = Ran(), tmp_path / "work"
    with pytest.raises(KeyboardInterrupt):
        knowledge_of(work, facts, Stopped())
    built = knowledge_of(work, facts, ran)
    assert ran == ["join"]
    assert built.report.lines_read == 3
    assert built.report.facts == 2
    assert not (work / "staged").exists(), "what the next step was made from is gone"


@pytest.mark.parametrize("change", ["content", "time", "option", "version"])
def test_a_changed_input_option_or_version_begins_anew(facts: Path, tmp_path: Path, change: str) -> None:
    ran, work = Ran(), tmp_path / "work"
    knowledge_of(work, facts, ran)
    ran.clear()
    if change == "content":
        facts.write_text("<a> <is> <z> .\n")
    elif change == "time":
        os.utime(facts, ns=(1, 1))
    elif change == "version":
        manifest = work / "join.json"
        manifest.write_text(manifest.read_text().replace('"version": "', '"version": "0'))
    if change == "option":
        with pytest.raises(InputError, match=r"facts\.txt:3"):
            knowledge_of(work, facts, ran, strict=True)
        assert ran == ["read"]
    else:
        built = knowledge_of(work, facts, ran)
        assert ran == ["read", "join"]
        texts = pq.read_table(built.folder / "units.parquet")["text"].to_pylist()
        assert ("z" in texts) == (change == "content")


@pytest.mark.parametrize("left", ['{"step": "jo', "null", "[]", "no result", "another's"])
def test_a_manifest_that_was_cut_short_counts_for_nothing(facts: Path, tmp_path: Path, left: str) -> None:
    ran, work = Ran(), tmp_path / "work"
    knowledge_of(work, facts, ran)
    whole = json.loads((work / "join.json").read_text())
    result = {"no result": {}, "another's": {"result": "done"}}.get(left)
    if result is not None:
        del whole["result"]
        left = json.dumps({**whole, **result})
    (work / "join.json").write_text(left)
    knowledge_of(work, facts, ran)
    assert ran == ["read", "join"] * 2


@pytest.mark.parametrize("size", [-1, 0])
def test_a_file_that_was_damaged_after_its_step_begins_it_anew(facts: Path, tmp_path: Path, size: int) -> None:
    """As a power failure leaves it: cut short, or with zeros."""
    ran, work = Ran(), tmp_path / "work"
    built = knowledge_of(work, facts, ran)
    good = (built.folder / "facts.parquet").read_bytes()
    (built.folder / "facts.parquet").write_bytes(bytes(len(good) + size))
    assert (knowledge_of(work, facts, ran).folder / "facts.parquet").read_bytes() == good
    assert ran == ["read", "join"] * 2


def test_what_stands_in_the_way_in_the_work_folder_is_removed(facts: Path, tmp_path: Path) -> None:
    ran, work = Ran(), tmp_path / "work"
    for name in ("read.json", "join.json", "read.new"):
        (work / name / "something").mkdir(parents=True)
    for name in ("staged", "knowledge"):
        (work / name).write_text("no folder")
    knowledge_of(work, facts, ran)
    knowledge_of(work, facts, ran)
    assert ran == ["read", "join"]


def test_a_hidden_file_of_someone_else_begins_nothing_anew(facts: Path, tmp_path: Path) -> None:
    ran, work = Ran(), tmp_path / "work"
    knowledge_of(work, facts, ran)
    (work / "knowledge" / ".DS_Store").write_text("where the window was")
    knowledge_of(work, facts, ran)
    assert ran == ["read", "join"]


@pytest.mark.parametrize("left", [b"", b"PAR1", None])
def test_a_file_that_did_not_come_to_the_disk_whole_is_made_again(
    facts: Path, tmp_path: Path, left: bytes | None
) -> None:
    ran, work = Ran(), tmp_path / "work"
    whole = Path(knowledge_of(work, facts, ran).folder, "facts.parquet").read_bytes()
    cut = work / "knowledge" / "facts.parquet"
    cut.unlink() if left is None else cut.write_bytes(left)
    knowledge_of(work, facts, ran)
    assert ran == ["read", "join"] * 2
    assert cut.read_bytes() == whole


@pytest.mark.parametrize("by_word", [True, False])
def test_encoded_facts_are_opened_again_as_they_were(facts: Path, tmp_path: Path, by_word: bool) -> None:
    form = json.loads(tiny_tokenizer().backend_tokenizer.to_str())
    if not by_word:  # a tokenizer that looks across white space
        form["pre_tokenizer"] = {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": False,
        }
    tokenizer = FactTokenizer(json.dumps(form))
    knowledge = knowledge_of(tmp_path / "work", facts, Ran())
    steps = Steps(tmp_path / "work", inputs_of([facts], None, 2), Selection(), strict=False)
    done: list[str] = []
    first, again = (
        steps.encoded_facts(
            knowledge, tokenizer, tokenizer.fingerprint, "Fact:", progress=lambda step, *_: done.append(step), **LIMITS
        )
        for _ in range(2)
    )
    assert len(again) == len(first) == 2
    for one, other in zip(first.read_tokens(0, 2), again.read_tokens(0, 2), strict=True):
        assert one.tolist() == other.tolist()
    assert done.count("encode") == 1, "the second time nothing was encoded"


def test_standard_input_never_counts_as_read(tmp_path: Path) -> None:
    step = first_step("read", tmp_path, "staged", [Source(STANDARD_INPUT)])
    step.finish({})
    assert step.result() is None


def test_two_ingests_of_one_index_do_not_share_a_folder(tmp_path: Path) -> None:
    with work_folder(tmp_path, "host", "database", "kb") as folder:
        with (
            pytest.raises(IndexExistsError, match="another process is at work"),
            work_folder(tmp_path, "host", "database", "kb"),
        ):
            pass
        with work_folder(tmp_path, "host", "database", "other") as other:
            assert other != folder
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_a_finished_step_is_removed_and_one_with_is_kept(tmp_path: Path) -> None:
    for manifest, left in (("notes.txt", 0), ("read.json", 1)):
        with pytest.raises(ZeroDivisionError), work_folder(tmp_path, "kb") as folder:
            (folder / manifest).write_text("{}")
            _ = 1 / 0
        assert len(list(tmp_path.iterdir())) == left


def test_a_disk_that_is_too_small_is_told_before_anything_is_read(
    facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10, 9, 1))
    with pytest.raises(InputError, match=r"needs some 0\.\d MB in .*, where 0\.0 MB are free"):
        knowledge_of(tmp_path / "work", facts, Ran())
    assert disk.expected_bytes([Source(facts)]) == round(facts.stat().st_size * disk.BYTES_PER_TEXT_BYTE)


@pytest.mark.slow
@pytest.mark.parametrize("manifest", ["read", "join", "encode"])
def test_killed_behind_a_step_the_same_command_goes_on_there(
    db_url: str,
    smollm2_folder: Path,
    many_facts: Path,  # noqa: F811
    tmp_path: Path,
    manifest: str,
) -> None:
    work = tmp_path / "work"
    command = ("ingest", many_facts, "--tokenizer", smollm2_folder, "--db", db_url, "--work-dir", work, "--json")
    process = start(*command)
    wait_for(lambda: any(work.glob(f"*/{manifest}.json")) or process.poll() is not None)
    kill(process)

    def again() -> bool:  # the killed session holds the name until PostgreSQL notices
        nonlocal done
        done = run_refactx(*command)
        return done.returncode == 0

    done = None
    wait_for(again, 120)
    assert done is not None
    steps = json.loads(done.stdout)["seconds_by_step"]
    if manifest != "read":  # which is so short here that the kill may come behind the next one
        assert "read" not in steps
    assert run_refactx("index", "verify", "default", "--db", db_url).returncode == 0
    assert list(work.iterdir()) == []
