"""An ingest that was stopped continues after the last finished step, if its input is the same."""

import json
import os
import shutil
from collections import namedtuple
from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.command import run_refactx
from support.crashes import kill, start, wait_for
from support.tiny_model import tiny_fact_tokenizer, tiny_tokenizer

from refactx.errors import IndexExistsError, InputError
from refactx.ingest import new_index as pipeline
from refactx.ingest.build import Build
from refactx.ingest.knowledge.knowledge_base import KnowledgeBase
from refactx.ingest.new_index import IngestSteps, first_step
from refactx.ingest.report import Clock
from refactx.ingest.sources import STANDARD_INPUT, Source
from refactx.ingest.work import Resources, work_folder
from refactx.tokenizer import FactTokenizer

RESOURCES = Resources("200MB", workers=2, progress=False)


class Ran(Clock):
    """A clock that lists the steps that it measured."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []

    def step(self, name: str) -> AbstractContextManager[None]:
        self.steps.append(name)
        return super().step(name)


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    path = tmp_path / "facts.txt"
    path.write_text("<a> <is> <b> .\n<b> <is> <c> .\nnonsense\n")
    return path


def steps_of(
    folder: Path, path: Path, clock: Clock, *, tokenizer: FactTokenizer | None = None, strict: bool = False
) -> IngestSteps:
    build = Build(
        index="kb",
        work=folder,
        tokenizer=tokenizer or tiny_fact_tokenizer(),
        tokenizer_name="tiny",
        strict=strict,
        resources=RESOURCES,
        clock=clock,
    )
    return IngestSteps(build, build.inputs([path]))


def knowledge_of(folder: Path, path: Path, ran: Ran, strict: bool = False) -> KnowledgeBase:
    folder.mkdir(exist_ok=True)
    return steps_of(folder, path, ran, strict=strict).knowledge_base()


def test_a_finished_step_is_not_done_again(facts: Path, tmp_path: Path) -> None:
    ran = Ran()
    first = knowledge_of(tmp_path / "work", facts, ran)
    assert ran.steps == ["read", "join"]
    again = knowledge_of(tmp_path / "work", facts, ran)
    assert ran.steps == ["read", "join"]
    assert again == first
    assert first.report.malformed == (f"{facts}:3: not <subject> <predicate> <object> .: nonsense",)


def test_stopped_between_reading_and_joining_it_continues_with_joining(facts: Path, tmp_path: Path) -> None:
    class Stopped(Ran):
        def step(self, name: str) -> AbstractContextManager[None]:
            if name == "join":
                raise KeyboardInterrupt
            return super().step(name)

    ran, work = Ran(), tmp_path / "work"
    with pytest.raises(KeyboardInterrupt):
        knowledge_of(work, facts, Stopped())
    built = knowledge_of(work, facts, ran)
    assert ran.steps == ["join"]
    assert built.report.lines_read == 3
    assert built.report.facts == 2
    assert not (work / "staged").exists(), "the input of the finished step is removed"


@pytest.mark.parametrize("change", ["content", "time", "option", "version"])
def test_a_changed_input_option_or_version_restarts_the_ingest(facts: Path, tmp_path: Path, change: str) -> None:
    ran, work = Ran(), tmp_path / "work"
    knowledge_of(work, facts, ran)
    ran.steps.clear()
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
        assert ran.steps == ["read"]
    else:
        built = knowledge_of(work, facts, ran)
        assert ran.steps == ["read", "join"]
        texts = pq.read_table(built.folder / "units.parquet")["text"].to_pylist()
        assert ("z" in texts) == (change == "content")


@pytest.mark.parametrize("left", ['{"step": "jo', "null", "[]", "no result", "another's"])
def test_a_truncated_manifest_is_ignored(facts: Path, tmp_path: Path, left: str) -> None:
    ran, work = Ran(), tmp_path / "work"
    knowledge_of(work, facts, ran)
    whole = json.loads((work / "join.json").read_text())
    result = {"no result": {}, "another's": {"result": "done"}}.get(left)
    if result is not None:
        del whole["result"]
        left = json.dumps({**whole, **result})
    (work / "join.json").write_text(left)
    knowledge_of(work, facts, ran)
    assert ran.steps == ["read", "join"] * 2


@pytest.mark.parametrize("size", [-1, 0])
def test_a_file_that_was_damaged_after_its_step_restarts_it(facts: Path, tmp_path: Path, size: int) -> None:
    """A power failure may leave it truncated, or with zeros."""
    ran, work = Ran(), tmp_path / "work"
    built = knowledge_of(work, facts, ran)
    good = (built.folder / "facts.parquet").read_bytes()
    (built.folder / "facts.parquet").write_bytes(bytes(len(good) + size))
    assert (knowledge_of(work, facts, ran).folder / "facts.parquet").read_bytes() == good
    assert ran.steps == ["read", "join"] * 2


def test_files_and_folders_of_these_names_in_the_work_folder_are_removed(facts: Path, tmp_path: Path) -> None:
    ran, work = Ran(), tmp_path / "work"
    for name in ("read.json", "join.json", "read.new"):
        (work / name / "something").mkdir(parents=True)
    for name in ("staged", "knowledge"):
        (work / name).write_text("no folder")
    knowledge_of(work, facts, ran)
    knowledge_of(work, facts, ran)
    assert ran.steps == ["read", "join"]


def test_a_hidden_file_of_another_program_restarts_nothing(facts: Path, tmp_path: Path) -> None:
    ran, work = Ran(), tmp_path / "work"
    knowledge_of(work, facts, ran)
    (work / "knowledge" / ".DS_Store").write_text("where the window was")
    knowledge_of(work, facts, ran)
    assert ran.steps == ["read", "join"]


@pytest.mark.parametrize("left", [b"", b"PAR1", None])
def test_a_file_that_did_not_reach_the_disk_completely_is_made_again(
    facts: Path, tmp_path: Path, left: bytes | None
) -> None:
    ran, work = Ran(), tmp_path / "work"
    whole = Path(knowledge_of(work, facts, ran).folder, "facts.parquet").read_bytes()
    cut = work / "knowledge" / "facts.parquet"
    cut.unlink() if left is None else cut.write_bytes(left)
    knowledge_of(work, facts, ran)
    assert ran.steps == ["read", "join"] * 2
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
    steps = steps_of(tmp_path / "work", facts, Clock(), tokenizer=tokenizer)
    first = steps.encoded_facts(knowledge)
    (knowledge.folder / "facts.parquet").unlink()
    again = steps.encoded_facts(knowledge)  # nothing is encoded anew
    assert len(again) == len(first) == 2
    for one, other in zip(first.read_tokens(0, 2), again.read_tokens(0, 2), strict=True):
        assert one.tolist() == other.tolist()


def test_standard_input_never_counts_as_read(tmp_path: Path) -> None:
    step = first_step("read", tmp_path, "staged", [Source(STANDARD_INPUT)])
    step.finish({})
    assert step.result() is None


def test_two_ingests_of_one_index_do_not_share_a_folder(tmp_path: Path) -> None:
    with work_folder(tmp_path, "host", "database", "kb") as folder:
        with (
            pytest.raises(IndexExistsError, match="another process is using"),
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


def test_a_disk_that_is_too_small_is_an_error_before_anything_is_read(
    facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10, 9, 1))
    with pytest.raises(InputError, match=r"needs about [\d.]+ kB in .*, where 0\.0 kB are free"):
        knowledge_of(tmp_path / "work", facts, Ran())
    assert pipeline.expected_bytes([Source(facts)]) == round(facts.stat().st_size * pipeline.BYTES_PER_TEXT_BYTE)


@pytest.mark.slow
@pytest.mark.parametrize("manifest", ["read", "join", "encode"])
def test_killed_after_a_step_the_same_command_continues_there(
    db_url: str,
    smollm2_folder: Path,
    many_facts: Path,
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
    if manifest != "read":  # reading is so short here that the kill may come after the next step
        assert "read" not in steps
    assert run_refactx("index", "verify", "default", "--db", db_url).returncode == 0
    assert list(work.iterdir()) == []
