"""Training: lessons are texts that decoding writes, the loss is that of decisions, and runs continue."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.command import complains, run_refactx
from support.ingest.tiny import opened_tiny
from support.tiny_asker import LinkedIndex, chat_tokenizer, save_tiny
from support.tiny_model import one_thread, tiny_fact_tokenizer, tiny_tokenizer  # noqa: F401

import refactx
from refactx.ask.asker import Asker
from refactx.ask.prompt import TAUGHT_REPORT, Prompt, load_prompt, prompt_of
from refactx.ask.teach.lessons import Lessons, Taught, Teacher, TrainingOptions
from refactx.ask.teach.made_questions import make_questions
from refactx.cli.train import with_walk
from refactx.decoding.machine import Machine
from refactx.errors import InputError, ModelError, TokenizerMismatchError
from refactx.models.loading import load_chat_tokenizer, load_model
from refactx.walks.facts import TreeFacts

pytest.importorskip("peft")
pytest.importorskip("accelerate")
from refactx.ask.teach.training import Training, collate, decision_loss

GRAPH = {"Ann": ("b", "in"), "Bo": ("c", "b"), "Cy": ("d", "e"), "Di": ("in", "c")}
FACTS = [f"<{name}> <{p}> <{value}>" for name, values in GRAPH.items() for p, value in zip("pq", values, strict=True)]
QUESTIONS = [
    Taught(line=n, question=f"{p} of {name}?", answers=(value,), facts=(f"<{name}> <{p}> <{value}>",))
    for n, (name, p, value) in enumerate(
        ((name, p, value) for name, values in GRAPH.items() for p, value in zip("pq", values, strict=True)), 1
    )
]
TAUGHT = [replace(one, part="train") for one in QUESTIONS] + [replace(one, part="subjects") for one in QUESTIONS]
"""What is kept aside is what is learned: a tiny model learns by heart."""
PROMPT = Prompt(system="Be true.")
ASKED = replace(PROMPT, channel="Fact: <Ann> <p> Question: p of Ann?")
SHORT = 'system = "Be true."\n'
OPTIONS = TrainingOptions(epochs=2, learning_rate=0.02, rank=4, batch_size=4, device="cpu", max_length=300)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def index(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[refactx.Index]:
    source = tmp_path_factory.mktemp("facts") / "facts.txt"
    with opened_tiny(module_url, source, (f"{fact} ." for fact in FACTS)) as opened:
        yield opened


@pytest.fixture
def training(base: Path, index: refactx.Index, tmp_path: Path) -> Training:
    (tmp_path / "short.toml").write_text(SHORT)
    source = {"file": "made.jsonl", "sha256": "0", "prompt": str(tmp_path / "short.toml")}
    return Training(
        model=str(base),
        index=index.name,
        teach=taught_of(index),
        ids=index.tokenizer.plain_size,
        card="# Answers",
        out=tmp_path / "adapter",
        options=OPTIONS,
        source=source,
        say=len,
    )


def taught_of(
    index: refactx.Index, questions: Sequence[Taught] = TAUGHT, options: TrainingOptions = OPTIONS
) -> Callable[[Any, int], Lessons]:
    """What makes the lessons of some questions."""
    return lambda tokenizer, end: Teacher(index, PROMPT, tokenizer, end=end, options=options, asked=ASKED).lessons(
        questions
    )


def teacher(options: TrainingOptions = OPTIONS) -> Teacher:
    index = LinkedIndex(tiny_fact_tokenizer(), FACTS)
    return Teacher(index, PROMPT, chat_tokenizer(), end=tiny_tokenizer().eos_token_id, options=options)


def brute_force(logits: torch.Tensor, targets: list[int], allowed: list[list[int] | None]) -> torch.Tensor:
    """The cross-entropy of each place among the ids that may stand there, one place at a time."""
    found = []
    for row, target, may in zip(logits, targets, allowed, strict=True):
        among = list(range(len(row))) if may is None else may
        found.append(-row[among].log_softmax(0)[among.index(target)])
    return torch.stack(found)


places = st.lists(st.one_of(st.none(), st.sets(st.integers(0, 8), min_size=1)), min_size=1, max_size=6)


@given(places, st.integers(0, 10_000), st.sampled_from([1.0, 100.0]))
def test_the_loss_is_that_of_each_place_among_what_may_stand_there(
    sets: list[set[int] | None], seed: int, scale: float
) -> None:
    torch.manual_seed(seed)
    allowed = [None if one is None else sorted(one) for one in sets]
    targets = [3 if one is None else one[seed % len(one)] for one in allowed]
    logits = (torch.randn(len(allowed), 9) * scale).requires_grad_()
    sizes = torch.tensor([0 if one is None else len(one) for one in allowed])
    flat = torch.tensor([token for one in allowed for token in one or ()], dtype=torch.int64)
    loss = decision_loss(logits, torch.tensor(targets), flat, sizes)
    torch.testing.assert_close(loss, expected := brute_force(logits, targets, allowed))
    [found], [wanted] = (torch.autograd.grad(one.sum(), [logits]) for one in (loss, expected))
    torch.testing.assert_close(found, wanted)
    for row, one in zip(found, allowed, strict=True):
        assert one is None or not row[[token for token in range(9) if token not in one]].any()


def test_a_text_is_what_decoding_writes_and_its_decisions_are_what_the_tree_leaves_open() -> None:
    index = LinkedIndex(tiny_fact_tokenizer(), FACTS)
    machine = Machine(index)
    for one in QUESTIONS:
        lesson, prompt = teacher().lesson(one), PROMPT.ids(chat_tokenizer(), one.question)
        ids = lesson.ids.tolist()
        assert ids[: len(prompt)] == prompt
        assert index.tokenizer.decode(ids[len(prompt) :]) == f"Fact: {one.facts[0]} .\nAnswer: {one.answers[0]}"
        assert ids[-1] == tiny_tokenizer().eos_token_id
        assert [fact.text for fact in machine.facts(ids, len(prompt))] == [f"{one.facts[0]} ."]
        state, decided = machine.start(prompt), dict(zip(lesson.places.tolist(), lesson.allowed, strict=True))
        for place in range(len(prompt), len(ids)):
            may = machine.allowed(state)
            assert (place in decided) == (may is None or len(may) > 1)
            if place in decided:
                found = decided[place]
                assert (found is None) == (may is None)
                assert found is None or (may is not None and np.array_equal(found, may))
            state = machine.advance(state, ids[place], place)


def test_what_is_forced_and_what_was_asked_have_no_gradient() -> None:
    lesson = teacher().lesson(QUESTIONS[0])
    inputs = collate([lesson])
    logits = torch.randn(len(lesson.ids), 400, requires_grad=True)
    loss = decision_loss(logits[inputs["places"] - 1], inputs["targets"], inputs["allowed"], inputs["sizes"])
    [gradient] = torch.autograd.grad(loss.sum(), [logits])
    assert gradient.any(1).nonzero().flatten().tolist() == (lesson.places - 1).tolist()


def test_questions_without_an_answer_are_taught_the_words_for_it() -> None:
    lesson = teacher().lesson(Taught(line=1, question="z of Ann?", is_unanswerable=True))
    assert tiny_fact_tokenizer().decode(lesson.ids).endswith("Answer: I don't know.")


def test_what_is_left_out_is_counted_by_its_reason() -> None:
    others = [
        Taught(line=20, question="a?", answers=("z",), facts=("<Ann> <p> <z>",)),
        Taught(line=21, question="b?", answers=("z",)),
        Taught(line=22, question="c?", answers=("z",), facts=("Ann p z",)),
        Taught(line=23, question="d " * 200, answers=("b",), facts=("<Ann> <p> <b>",)),
    ]
    made = teacher().lessons([*QUESTIONS, *others])
    assert len(made.train) + len(made.aside) == len(QUESTIONS)
    found = {one["lines"][0]: (reason.split()[0], one["count"]) for reason, one in made.left_out_json().items()}
    assert found == {20: ("its", 1), 21: ("it", 1), 22: ("one", 1), 23: ("its", 1)}


def test_parts_decide_what_is_learned_and_a_seed_what_is_kept_aside_without_them() -> None:
    made = teacher(replace(OPTIONS, limit=3)).lessons(TAUGHT)
    assert (len(made.train), len(made.aside)) == (3, len(QUESTIONS))
    one, same, other = (teacher(replace(OPTIONS, seed=seed)).lessons(QUESTIONS) for seed in (0, 0, 4))
    assert (len(one.train), len(one.aside)) == (len(QUESTIONS) - 1, 1)
    ids, again, others = ([lesson.ids.tolist() for lesson in made.train] for made in (one, same, other))
    assert ids == again != others


@pytest.mark.long
def test_queries_are_taught_as_they_are_asked(sample_url: str, smollm2_folder: Path) -> None:
    tokenizer = load_chat_tokenizer(str(smollm2_folder))
    with refactx.open_index(db=sample_url) as index:
        prompt = refactx.load_prompt()
        options = replace(OPTIONS, max_length=2000)
        taught = Teacher(index, prompt, tokenizer, end=tokenizer.eos_token_id, options=options)
        kinds, by_sparql = set(), 0
        for one in make_questions(index, 30, kinds=("single", "count", "comparison")):
            known = Taught(line=1, question=one.question, answers=one.answers, facts=one.facts, walk=one.walk)
            lesson, prompt_ids = taught.lesson(known), prompt.ids(tokenizer, one.question)
            if one.sparql is not None and one.kind != "comparison":
                same = taught.lesson(with_walk(replace(known, facts=(), walk=""), one.sparql, TreeFacts(index)))
                assert same.ids.tolist() == lesson.ids.tolist()
                by_sparql += 1
            text = index.tokenizer.decode(lesson.ids[len(prompt_ids) :])
            answer = f"Answer: {'; '.join(one.answers)}"
            kinds.add(one.kind)
            if one.kind == "single":
                assert text == "".join(f"Fact: {fact} .\n" for fact in one.facts) + answer
                assert lesson.places[-1] == len(lesson.ids) - 1
            else:
                assert text == f"Query: {one.walk} .\n{answer}"
                after = index.tokenizer.decode(lesson.ids[lesson.places[-1] + 1 :])
                assert after.strip() == answer, "the answer is the query's: the model has no part in it"
        assert kinds == {"single", "count", "comparison"}
        assert by_sparql > 5
        beyond = with_walk(Taught(line=1, question="?"), "SELECT ?x { ?x ?p ?y }", TreeFacts(index))
        with pytest.raises(Exception, match="nor a query that is a chain of facts"):
            taught.lesson(beyond)


def first_facts(base: Path, index: refactx.Index, adapter: Path | None) -> list[str]:
    model, tokenizer = load_model(str(base), adapter=adapter, device="cpu")
    asker = Asker(model, tokenizer, index, PROMPT)
    found = [asker.ask(one.question, max_new_tokens=60, channel=False) for one in QUESTIONS]
    return [one.facts[0].text if one.facts else "" for one in found]


@pytest.mark.long
def test_a_model_learns_the_facts_that_answer(
    base: Path, index: refactx.Index, training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refactx.ask.teach.training.EVALUATIONS", 1)
    monkeypatch.setattr("refactx.ask.teach.training.EVALUATIONS_WITHOUT_GAIN", 100)  # so few weights learn by leaps
    options = replace(OPTIONS, epochs=100, rank=16, learning_rate=0.01, candidates=0)
    teach = taught_of(index, TAUGHT[: len(QUESTIONS) + 2], options)
    report = replace(training, options=options, teach=teach).run()
    assert report["loss"] < 0.2 * report["loss_before"]
    taught, untaught = (
        sum(
            found == f"{one.facts[0]} ."
            for found, one in zip(first_facts(base, index, adapter), QUESTIONS, strict=True)
        )
        for adapter in (training.out, None)
    )
    # One of the eight may be another on another processor, whose sums differ in their last digits.
    assert taught >= len(QUESTIONS) - 2 > untaught


def test_an_adapter_has_a_report_and_nothing_else_is_left(training: Training) -> None:
    report = training.run()
    assert json.loads((training.out / TAUGHT_REPORT).read_text()) == report
    assert report["run"]["learning_rate"] == OPTIONS.learning_rate
    assert report["choices"] == report["trained_on"] == len(QUESTIONS), "each subject has two properties"
    assert {one["step"] for one in report["curve"] if "eval_loss" in one} == {0, 1, 2, 3, 4}
    assert report["loss"] == min(one["eval_loss"] for one in report["curve"] if "eval_loss" in one)
    card = (training.out / "README.md").read_text()
    assert "base_model:" in card
    assert load_prompt(prompt_of(training.out) or "") == PROMPT
    assert sorted(path.name for path in training.out.parent.iterdir()) == ["adapter", "short.toml"]
    assert training.run() == report, "what is done is not done again"
    with pytest.raises(InputError, match="another adapter"):
        replace(training, options=replace(OPTIONS, seed=9)).run()


class KilledError(Exception):
    """The end of a process."""


@pytest.mark.long
def test_a_run_that_was_killed_continues_and_gives_the_same(training: Training, tmp_path: Path) -> None:
    whole = replace(training, out=tmp_path / "whole")
    expected = whole.run()

    def say(line: str) -> None:
        if line.startswith("step 3 of") and "aside" not in line:
            raise KilledError

    with pytest.raises(KilledError):
        replace(training, say=say).run()
    assert not training.out.exists()
    half = training.folder / "checkpoint-9"  # a kill while it was written
    half.mkdir()
    (half / "trainer_state.json").write_text('{"global_step"')
    with pytest.raises(InputError, match=r"adapter\.partial has a run with other learning_rate"):
        replace(training, options=replace(OPTIONS, learning_rate=0.1)).run()
    lines = list[str]()
    assert replace(training, say=lines.append).run() == expected
    assert not any(line.startswith("step 1 of") for line in lines)
    found, wanted = ((one.out / "adapter_model.safetensors").read_bytes() for one in (training, whole))
    assert found == wanted


@pytest.mark.long
def test_a_run_that_is_interrupted_says_where_it_continues(
    training: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its evaluations, after steps 1 and 3, too."""
    training = replace(training, options=replace(OPTIONS, batch_size=1, epochs=1))
    whole, lines = replace(training, out=tmp_path / "whole"), list[str]()
    expected = whole.run()
    assert {one["step"] for one in expected["curve"] if "eval_loss" in one} & {1, 3} == set()

    def say(line: str) -> None:
        lines.append(line)
        if line.startswith(f"step {kept + 1} of") and "aside" not in line:
            raise KeyboardInterrupt

    monkeypatch.setattr("refactx.ask.teach.training.SAVED_EACH", 0)
    for before, kept in ((0, 0), (0, 1), (1, 3)):
        lines.clear()
        with pytest.raises(KeyboardInterrupt):
            replace(training, say=say).run()
        assert lines[-1] == f"stopped: the same command {f'continues after step {kept}' if kept else 'begins anew'}"
        assert (f"continuing after step {before}" in lines) == (before > 0)
    assert training.run() == expected
    found, wanted = ((one.out / "adapter_model.safetensors").read_bytes() for one in (training, whole))
    assert found == wanted


def refused(call: Callable[[], object], kind: type[Exception] = InputError) -> str:
    with pytest.raises(kind) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_questions_of_another_index_are_refused(training: Training, index: refactx.Index) -> None:
    def taught(questions: Sequence[Taught]) -> str:
        return refused(lambda: replace(training, teach=taught_of(index, questions)).run())

    others = [replace(one, facts=(f"<{one.line}> <p> <z>",)) for one in TAUGHT]
    assert "the facts of 16 of 16 questions are not in the index" in taught(others)
    assert "both are needed" in taught(QUESTIONS[:1])
    assert not training.folder.exists()


def test_a_folder_with_something_else_is_left_alone(training: Training) -> None:
    for folder in (training.out, training.folder):
        folder.mkdir()
        (folder / "novel.txt").touch()
        assert "give another --out" in refused(training.run)
        assert [path.name for path in folder.iterdir()] == ["novel.txt"]
        (folder / "novel.txt").unlink()
        folder.rmdir()


def test_models_that_cannot_be_trained_are_refused(
    training: Training, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gguf = tmp_path / "model.gguf"
    gguf.touch()
    assert "which is not trained" in refused(lambda: replace(training, model=str(gguf)).run(), ModelError)
    other = tmp_path / "other"
    save_tiny(other)
    form = json.loads((other / "tokenizer.json").read_text())
    form["model"]["merges"].pop()
    (other / "tokenizer.json").write_text(json.dumps(form))
    refused(lambda: replace(training, model=str(other)).run(), TokenizerMismatchError)
    short = save_tiny(tmp_path / "short", 20)
    assert "takes at most 20" in refused(lambda: replace(training, model=str(short)).run())
    assert not list(training.folder.glob("checkpoint-*"))
    shutil.rmtree(training.folder)
    monkeypatch.setattr("refactx.ask.teach.training.free_memory", lambda: 1000)
    assert "0.0 GB are free" in refused(training.run, ModelError)
    for package in ("accelerate", "peft"):
        monkeypatch.setitem(sys.modules, package, None)
        assert refused(training.run).endswith("pip install 'refactx[train]'")


def test_a_loss_that_is_no_number_ends_the_run(training: Training) -> None:
    message = refused(lambda: replace(training, options=replace(OPTIONS, learning_rate=1e30)).run(), ModelError)
    assert message.startswith("the loss is nan in step ") and "learning rate of " in message
    assert not training.out.exists()


@pytest.mark.long
def test_the_command_trains_and_ask_takes_the_adapter(
    base: Path, index: refactx.Index, module_url: str, tmp_path: Path
) -> None:
    file, prompt, out = tmp_path / "made.jsonl", tmp_path / "short.toml", tmp_path / "adapter"
    prompt.write_text(SHORT)
    lines = [{"question": one.question, "answers": one.answers, "facts": one.facts} for one in QUESTIONS]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    options = ("--model", base, "--db", module_url)
    train = ("train", file, *options, "--prompt", prompt, "--out", out, "--device", "cpu", "--epochs", 1)
    done = run_refactx(*train)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{out}: learned from 7 questions; loss ")
    assert "7 questions to learn from, 1 kept aside, 0 left out" in done.stderr
    ask = ("ask", "p of Ann?", "--max-new-tokens", 20, *options[2:])
    asked = run_refactx(*ask, "--model", base, "--adapter", out)
    assert asked.returncode == 0, asked.stderr
    merged = tmp_path / "merged"
    again = run_refactx(*train, "--merged", merged)
    assert again.stdout.splitlines()[-1] == f"{merged}: the model with this adapter"
    for folder in (out, merged):
        modes = {path.stat().st_mode for path in folder.iterdir()}
        assert len(modes) == 1, "other users may read a part of it"
    assert "merged is there already" in complains(*train, "--merged", merged)
    prompt.unlink()  # what is taught has a copy of it
    again = run_refactx(*ask, "--model", merged)
    assert (again.stdout, again.stderr) == (asked.stdout, ""), again.stderr
    assert run_refactx(*ask, "--model", base, "--adapter", out).stdout == asked.stdout


@pytest.mark.long
def test_files_without_lessons_are_refused(module_url: str, base: Path, tmp_path: Path) -> None:
    file = tmp_path / "made.jsonl"
    file.touch()
    train = ("train", file, "--model", base, "--db", module_url, "--out", tmp_path / "adapter")
    assert "is empty" in complains(*train)
    file.write_text('{"question": "Who?", "answers": ["I"]}\n')
    assert "no questions with `facts`, a `walk` or SPARQL" in complains(*train)
    assert not (tmp_path / "adapter").exists()
