"""Training: an adapter of LoRA that decides and chooses as lessons do, by Transformers' `Trainer`.

The loss of a text is the mean, over what a model decides, of the cross-entropy over the ids that may stand there: those that
the tree of facts allows, or any in free text; that of a choice is the cross-entropy of its right text by the likelihoods of
the question. A CPU reads a lesson by itself, and only what is scored has logits, so memory grows neither with the batch nor
with the number of facts.

A run has a folder of its own, `ADAPTER.partial`, with checkpoints, from which the same run goes on. Its adapter is moved to
its place when it is whole.
"""

import json
import math
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from inspect import signature
from itertools import groupby
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
import torch
from transformers import (
    DynamicCache,
    EarlyStoppingCallback,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from refactx.ask.prompt import TAUGHT_PROMPT, TAUGHT_REPORT
from refactx.ask.teach.choices import TextChoice
from refactx.ask.teach.lessons import Lesson, Lessons, TrainingOptions
from refactx.engines.engine import free_memory
from refactx.engines.transformers.internals import CACHE, use_one_gpu
from refactx.engines.transformers.processor import check_model, rows_of
from refactx.engines.transformers.rows import WITH_CELLS, TransformersModel, copy_cache
from refactx.errors import InputError, ModelError
from refactx.fact import counted
from refactx.lazy import require
from refactx.models.loading import FLOAT32_PARAMETERS, gguf_of, load_chat_tokenizer, load_model, quiet, skeleton
from refactx.paths import share_weights

ALPHA = 2
"""The factor of an adapter: its alpha is that many times its rank."""
DROPOUT = 0.05
EVALUATIONS = 4
"""How often a run is evaluated, and has a checkpoint, in an epoch."""
EVALUATIONS_WITHOUT_GAIN = 4
"""A run ends early after so many evaluations that are no better than the best."""
LOGGED = 5
"""How many lines of progress there are for each evaluation."""
SAVED_EACH = 60.0
"""The seconds after which a run has another checkpoint, at the next line of progress with the loss of a step."""
AT_ONCE = 8
"""How many lessons a GPU reads at once; a CPU reads one."""
_ADAPTER, _RUN, _STATE = "adapter", "run.json", "trainer_state.json"
_NO_LABEL = -100
"""The label of padding, for Transformers."""


class ReadExamples:
    """The keys and values of examples, without gradients: they are read once for the same weights, those of one `step`."""

    def __init__(self) -> None:
        self._step, self._read = -1, dict[tuple[int, ...], DynamicCache | None]()

    def of(self, model: Any, examples: torch.Tensor, rows: int, step: int) -> DynamicCache | None:
        """Return those of examples, int64[1, n], for each of some rows; None if the model has states of other kinds."""
        if step != self._step:
            self._step, self._read = step, {}
        ids = tuple(examples[0].tolist())
        if ids not in self._read:
            trains = model.training
            model.eval()
            with torch.no_grad():
                past = getattr(model(input_ids=examples, use_cache=True), CACHE, None)
            model.train(trains)
            fits = isinstance(past, DynamicCache) and all(type(layer) in WITH_CELLS for layer in past.layers)
            self._read[ids] = past if fits else None
        if (past := self._read[ids]) is None:
            return None
        copied = copy_cache(past)
        copied.batch_repeat_interleave(rows)
        return copied


def lesson_loss(model: Any, inputs: dict[str, Any], read: ReadExamples, step: int) -> tuple[torch.Tensor, Any]:
    """Return the loss of lessons, as `collate` returns them, by a model with an adapter: the mean of theirs, each the mean of
    its decisions and the sum of its choices. Also return the outputs of the model for their texts.

    `read`: the examples that were read before; `step`: the number of the weights.
    """
    logits, outputs = _logits(model, inputs["input_ids"], inputs["rows"], inputs["places"] - 1)
    loss = (decision_loss(logits, inputs["targets"], inputs["allowed"], inputs["sizes"]) * inputs["weights"]).sum()
    for some in inputs["choices"]:
        ids, places, past = (
            some["input_ids"],
            some["places"],
            read.of(model, some["examples"], len(some["input_ids"]), step),
        )
        if past is None:
            before = some["examples"].expand(len(ids), -1)
            ids, places = torch.cat([before, ids], 1), places + before.shape[1]
        logits, _ = _logits(model, ids, some["rows"], places - 1, past)
        losses = choice_loss(logits, some["targets"], some["rows"], some["groups"])
        loss = loss + losses.sum() / len(inputs["input_ids"])
    return loss, outputs


def _logits(
    model: Any, ids: torch.Tensor, rows: torch.Tensor, places: torch.Tensor, past: Any = None
) -> tuple[torch.Tensor, Any]:
    """Return the logits at `places` of `rows`, float[n, vocabulary], and the model's outputs; `past`: what it has read before.

    Padding needs no mask: it follows what is read.
    """
    more: dict[str, Any] = {"use_cache": False} if past is None else {CACHE: past, "use_cache": True}
    if "logits_to_keep" not in signature(getattr(model, "get_base_model", lambda: model)().forward).parameters:
        outputs = model(input_ids=ids, **more)
        return outputs.logits[rows, places], outputs
    columns, numbers = torch.unique(places, return_inverse=True)
    outputs = model(input_ids=ids, logits_to_keep=columns, **more)
    return outputs.logits[rows, numbers], outputs


def decision_loss(
    logits: torch.Tensor, targets: torch.Tensor, allowed: torch.Tensor, sizes: torch.Tensor
) -> torch.Tensor:
    """Return the cross-entropy of each decision, float32[n].

    `logits`: float[n, vocabulary]; `targets`: int64[n]; `sizes`: int64[n], how many ids may stand at each place, 0: any;
    `allowed`: those ids, of one place after the other, int64[sizes.sum()].

    >>> logits = torch.tensor([[0.0, 0.0, 9.0], [0.0, 0.0, 0.0]])
    >>> decision_loss(logits, torch.tensor([0, 1]), torch.tensor([0, 1]), torch.tensor([2, 0])).exp()
    tensor([2., 3.])
    """
    logits = logits.float()
    rows = torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)
    few = logits[rows, allowed]
    highest = torch.zeros_like(logits[:, 0]).scatter_reduce(0, rows, few.detach(), "amax", include_self=False)
    sums = torch.zeros_like(highest).index_add(0, rows, (few - highest[rows]).exp())
    among = highest + sums.clamp_min(torch.finfo(sums.dtype).tiny).log()  # 0 where any id may stand
    totals = torch.where(sizes > 0, among, logits.logsumexp(1))
    return totals - logits.gather(1, targets[:, None])[:, 0]


def choice_loss(logits: torch.Tensor, targets: torch.Tensor, rows: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """Return the cross-entropy of each choice: of its first text, by the likelihoods of the question after all, float32[n].

    `logits`: float[ids, vocabulary]; `targets`, `rows`: int64[ids], the questions' ids and the number of the text of each;
    `groups`: int64[texts], the number of the choice of each text, ascending.

    >>> logits = torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    >>> choice_loss(logits, torch.tensor([0, 1, 0]), torch.tensor([0, 1, 1]), torch.tensor([0, 0])).exp()
    tensor([1.5000])
    """
    scores = logits.float().log_softmax(-1).gather(1, targets[:, None])[:, 0]
    likelihoods = torch.zeros(len(groups), device=scores.device).index_add(0, rows, scores)
    each = torch.split(likelihoods, groups.bincount().tolist())
    return torch.stack([one.logsumexp(0) - one[0] for one in each])


def collate(lessons: Sequence[Lesson]) -> dict[str, Any]:
    """Return lessons as tensors: `input_ids`, int64[lessons, length], padded at the end; for their decisions, `rows` and
    `places`, int64[n], `weights`, float32[n], by which each lesson counts the same, and what `decision_loss` takes. `choices`:
    of those with the same examples, what `stack_choices` returns."""
    ids = torch.zeros(len(lessons), max(len(one.ids) for one in lessons), dtype=torch.int64)
    for number, lesson in enumerate(lessons):
        ids[number, : len(lesson.ids)] = torch.from_numpy(lesson.ids)
    counts = torch.tensor([len(one.places) for one in lessons])
    rows = torch.arange(len(lessons)).repeat_interleave(counts)
    places = torch.from_numpy(np.concatenate([one.places for one in lessons])).long()
    allowed = [np.empty(0, np.int32) if few is None else few for one in lessons for few in one.allowed]
    choices = sorted((one for lesson in lessons for one in lesson.choices), key=lambda one: one.examples)
    return {
        "input_ids": ids,
        "rows": rows,
        "places": places,
        "weights": (1 / counts / len(lessons))[rows],
        "targets": ids[rows, places],
        "allowed": torch.from_numpy(np.concatenate(allowed)).long(),
        "sizes": torch.tensor([len(few) for few in allowed]),
        "choices": [stack_choices(list(some)) for _, some in groupby(choices, lambda one: one.examples)],
    }


def collate_pairs(lessons: Sequence[Lesson], pad: int) -> dict[str, torch.Tensor]:
    """Return lessons for a model that reads one sequence and writes another: int64[lessons, length], padded at the end.

    `input_ids` with `attention_mask`: what stands before the first decision; `labels`: the rest. `pad`: the id of padding.
    """
    read = [lesson.ids[: lesson.places[0]].tolist() for lesson in lessons]
    written = [lesson.ids[lesson.places[0] :].tolist() for lesson in lessons]
    width, long = max(map(len, read)), max(map(len, written))
    return {
        "input_ids": torch.tensor([ids + [pad] * (width - len(ids)) for ids in read]),
        "attention_mask": torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids in read]),
        "labels": torch.tensor([ids + [_NO_LABEL] * (long - len(ids)) for ids in written]),
    }


def stack_choices(choices: Sequence[TextChoice]) -> dict[str, torch.Tensor]:
    """Return the texts of choices, after the same examples, with their questions as `choice_loss` needs them.

    `examples`: int64[1, n]; `input_ids`: int64[texts, length], padded at the end; `groups`: int64[texts], the number of the
    choice of each; `rows`, `places`, `targets`: int64[ids], where ids of questions stand, and these.
    """
    texts = [(number, one, text) for number, one in enumerate(choices) for text in one.texts]
    ids = torch.zeros(len(texts), max(len(text) + len(one.question) for _, one, text in texts), dtype=torch.int64)
    rows, places = list[int](), list[int]()
    for row, (_, one, text) in enumerate(texts):
        whole = torch.tensor([*text, *one.question])
        ids[row, : len(whole)] = whole
        scored = range(len(text) + one.lead, len(whole))
        rows += [row] * len(scored)
        places += scored
    return {
        "examples": torch.tensor([choices[0].examples]),
        "input_ids": ids,
        "groups": torch.tensor([number for number, _, _ in texts]),
        "rows": torch.tensor(rows),
        "places": torch.tensor(places),
        "targets": ids[rows, places],
    }


class DecisionTrainer(Trainer):
    """A Trainer with the loss of decisions and choices. Raises ModelError for a loss that is no number."""

    loss_is_scaled_for_ga = False

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._read = ReadExamples()

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return the loss of some lessons, see `Trainer.compute_loss`."""
        if "labels" in inputs:
            outputs = model(**inputs)
            loss = outputs.loss
        else:
            loss, outputs = lesson_loss(model, inputs, self._read, self.state.global_step)
        if not torch.isfinite(loss):
            rate = self.args.learning_rate if self.lr_scheduler is None else self._get_learning_rate()
            raise ModelError(
                f"the loss is {loss.item()} in step {self.state.global_step + 1}, with a learning rate of {rate:.3g}: delete "
                f"{self.args.output_dir}, and give a smaller --learning-rate"
            )
        return (loss, outputs) if return_outputs else loss


class _Progress(TrainerCallback):
    """Says how a run goes on, and lets it have checkpoints between its evaluations."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say, self._saved = say, time.monotonic()
        self._begun: tuple[float, int] | None = None

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Note when the first step of this process began."""
        self._begun = self._begun or (time.monotonic(), state.global_step)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Note when a checkpoint was written."""
        self._saved = time.monotonic()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Say the losses of a step."""
        control.should_save |= "loss" in logs and time.monotonic() - self._saved >= SAVED_EACH
        at = f"step {state.global_step} of {state.max_steps}"
        if "eval_loss" in logs:
            self._say(f"{at}: loss {logs['eval_loss']:.4f} of the questions kept aside")
        elif "loss" in logs:
            begun, first = self._begun or (time.monotonic(), 0)
            each = (time.monotonic() - begun) / max(1, state.global_step - first)
            minutes = counted(math.ceil(each * (state.max_steps - state.global_step) / 60), "minute")
            self._say(f"{at}: loss {float(logs['loss']):.4f}, {minutes} left")


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A training of the model called `model` on the index of a name, whose adapter is to be `out`.

    `teach`: returns the lessons for a tokenizer of Transformers and the id after an answer; `ids`: how many ids the model has
    to write; `source`: what a report says of the questions: their `file`, its `sha256`, and the name or file of the `prompt`
    that is asked with, None: that of the index; `card`: what the adapter does, and how it is used. `say`: called with lines
    of progress.
    """

    model: str
    index: str
    teach: Callable[[Any, int], Lessons]
    ids: int
    card: str
    out: Path
    options: TrainingOptions
    source: dict[str, Any]
    say: Callable[[str], object] = print

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.out.with_name(f"{self.out.name}.partial")

    def run(self) -> dict[str, Any]:
        """Train an adapter, and return its report; continue a run that was stopped.

        Raises InputError for a package that is not installed, for folders that hold something else, and as `teach` does;
        ModelError for a model that cannot be loaded or trained, or has no memory.
        """
        for package in ("peft", "accelerate"):
            require(package, "train")
        done = self._report()
        if (gguf := gguf_of(self.model)) is not None:
            raise ModelError(
                f"{gguf} is a GGUF file, which is not trained: give the model that it was made of, as --model"
            )
        tokenizer = load_chat_tokenizer(self.model)
        end, options = _end_of_turn(tokenizer), self.options
        self.say("making the texts")
        lessons = self.teach(tokenizer, end)
        run = self._described(lessons)
        if done is not None:
            if done["run"] != run:
                raise InputError(f"{self.out} has another adapter: give another --out, or delete it")
            shutil.rmtree(self.folder, ignore_errors=True)
            return done
        self._begin(run)
        self.say(
            f"{counted(len(lessons.train), 'question')} to learn from, {len(lessons.aside):,} kept aside, "
            f"{sum(map(len, lessons.left_out.values())):,} left out"
        )
        self._check_memory()
        model, _ = load_model(self.model, device=options.device)
        if len(tokenizer) > rows_of(model):  # `teach` may add tokens
            model.resize_token_embeddings(len(tokenizer))
        with _out_of_memory(options), quiet(bars=False), catch_warnings():
            simplefilter("ignore", FutureWarning)  # Transformers warns of its own calls
            trainer, last = self._trainer(model, tokenizer, end, lessons), _last_checkpoint(self.folder)
            if last is not None:
                self.say(f"continuing after {_step(last)}")
            try:
                trainer.train(resume_from_checkpoint=None if last is None else str(last))
            except KeyboardInterrupt:
                last = _last_checkpoint(self.folder)
                kept = "begins anew" if last is None else f"continues after {_step(last)}"
                self.say(f"stopped: the same command {kept}")
                raise
        return self._finish(trainer, tokenizer, run, lessons)

    def _report(self) -> dict[str, Any] | None:
        """Return the report of an adapter that is in its place; None if nothing is. Raise InputError for something else."""
        out = self.out
        try:
            if not out.exists() or (out.is_dir() and not any(out.iterdir())):
                return None
            report: dict[str, Any] = json.loads((out / TAUGHT_REPORT).read_text(encoding="utf-8"))
            return report if report["run"]["texts"] else None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{out} is there, and holds no adapter of this command: give another --out") from error

    def _described(self, lessons: Lessons) -> dict[str, Any]:
        """Return what tells a run from others: the same one is continued."""
        digest = sha256()
        for lesson in (*lessons.train, *lessons.aside):
            sizes = [len(lesson.ids), *(0 if one is None else len(one) for one in lesson.allowed)]
            digest.update(np.array(sizes, np.int32).tobytes() + lesson.ids.tobytes() + lesson.places.tobytes())
            digest.update(repr(lesson.choices).encode())
        options = {name: value for name, value in asdict(self.options).items() if name != "device"}
        return {"model": self.model, "index": self.index, "texts": digest.hexdigest(), **options}

    def _begin(self, run: dict[str, Any]) -> None:
        """Make the folder of a run. Raise InputError if it has another run."""
        file = self.folder / _RUN
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not file.exists() and any(self.folder.iterdir()):
                raise InputError(f"{self.folder} is there, and holds no run of this command: give another --out")
            if not file.exists():
                file.write_text(json.dumps(run), encoding="utf-8")
            if (own := str(self.source["prompt"])).endswith(".toml"):
                shutil.copy(own, self.folder / TAUGHT_PROMPT)
            before = json.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"cannot write {self.folder} ({error.strerror}): give another --out") from error
        except ValueError:
            before = {}
        changed = [name for name in run if before.get(name) != run[name]]
        if changed:
            raise InputError(
                f"{self.folder} has a run with other {', '.join(changed)}: give what it was begun with, or delete it"
            )

    def _check_memory(self) -> None:
        """Raise ModelError if weights, adapter and optimizer need more memory than is free."""
        try:
            device, model = self.options.device, skeleton(self.model)
        except ModelError:  # of a kind that cannot be made without weights
            return
        on_gpu = device in ("auto", "cuda") and torch.cuda.is_available()
        weights, last = model.num_parameters(), model.get_output_embeddings()  # which gets no adapter
        layers = [one for one in model.modules() if isinstance(one, torch.nn.Linear) and one is not last]
        size = 4.0 if not on_gpu and weights <= FLOAT32_PARAMETERS else 2.0
        if getattr(model.config, "quantization_config", None) is not None:
            size = 0.5
        adapter = self.options.rank * sum(one.in_features + one.out_features for one in layers) or weights
        needed = size * weights + 16 * adapter  # float32: weights, gradients, two moments
        free = torch.cuda.mem_get_info()[0] if on_gpu else free_memory()
        if free is not None and needed > free:
            raise ModelError(
                f"training {self.model} takes at least {needed / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free: "
                "give a smaller model or a smaller --rank"
            )

    def _trainer(self, model: Any, tokenizer: Any, end: int, lessons: Lessons) -> DecisionTrainer:
        check_model(model, tokenizer, self.ids)
        options, folder, is_pair = self.options, self.folder, model.config.is_encoder_decoder
        if not is_pair:
            self._check_texts(TransformersModel(model, tokenizer), end, lessons)
        torch.manual_seed(options.seed)
        pad = tokenizer.pad_token_id or 0
        each = max(1, -(-len(lessons.train) // options.batch_size) // EVALUATIONS)
        trainer = DecisionTrainer(
            model=self._adapted(model) if options.rank else model,
            args=_arguments(options, folder, each, "labels" if is_pair else "targets"),
            train_dataset=lessons.train,
            eval_dataset=lessons.aside,
            data_collator=partial(collate_pairs, pad=pad) if is_pair else collate,
            callbacks=[EarlyStoppingCallback(EVALUATIONS_WITHOUT_GAIN), _Progress(self.say)],
        )
        trainer.model_accepts_loss_kwargs = False
        trainer.remove_callback(PrinterCallback)  # it would print losses as dictionaries
        return trainer

    def _check_texts(self, loaded: TransformersModel, end: int, lessons: Lessons) -> None:
        """Raise an error if a model does not end its texts as lessons do, or has no room for them."""
        if end not in loaded.ends:
            raise ModelError(f"{self.model} does not end its texts as its chat template does: give an instruct model")
        longest = max(len(lesson.ids) for lesson in (*lessons.train, *lessons.aside))
        if loaded.room is not None and longest > loaded.room:
            raise InputError(
                f"texts have up to {longest} tokens, but {self.model} takes at most {loaded.room}: give a shorter --prompt, or "
                f"--max-length {loaded.room}"
            )

    def _adapted(self, model: Any) -> Any:
        """Return a model with a new adapter of LoRA."""
        from peft import LoraConfig, get_peft_model

        config = LoraConfig(
            r=self.options.rank,
            lora_alpha=ALPHA * self.options.rank,
            lora_dropout=DROPOUT,
            target_modules="all-linear",
            task_type="SEQ_2_SEQ_LM" if model.config.is_encoder_decoder else "CAUSAL_LM",
        )
        try:
            return get_peft_model(model, config)
        except Exception as error:  # peft raises ValueError and others
            raise ModelError(f"{self.model} takes no adapter of LoRA: {' '.join(str(error).split())[:200]}") from error

    def _finish(
        self, trainer: DecisionTrainer, tokenizer: Any, run: dict[str, Any], lessons: Lessons
    ) -> dict[str, Any]:
        """Write the best adapter with its report, and move them to their place."""
        state, folder = trainer.state, self.folder / _ADAPTER
        shutil.rmtree(folder, ignore_errors=True)
        adapted: Any = trainer.model  # the best one
        adapted.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        share_weights(folder)
        kept = ("step", "epoch", "loss", "eval_loss", "learning_rate")
        curve = [{name: one[name] for name in kept if name in one} for one in state.log_history]
        curve = [one for one in curve if one.keys() & {"loss", "eval_loss"}]
        first = next((one["eval_loss"] for one in curve if "eval_loss" in one), None)
        report = {
            "run": run,
            "questions": self.source,
            "trained_on": len(lessons.train),
            "kept_aside": len(lessons.aside),
            "choices": sum(len(lesson.choices) for lesson in lessons.train),
            "left_out": lessons.left_out_json(),
            "loss_before": first,
            "loss": state.best_metric,
            "best_step": state.best_global_step,
            "curve": curve,
            "versions": {name: version(name) for name in ("refactx", "torch", "transformers", "peft")},
        }
        (folder / TAUGHT_REPORT).write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        if (own := self.folder / TAUGHT_PROMPT).is_file():
            shutil.copy(own, folder)
        (folder / "README.md").write_text(_card(report, self.card), encoding="utf-8")
        folder.replace(self.out)
        shutil.rmtree(self.folder)
        return report


def _arguments(options: TrainingOptions, folder: Path, each: int, label: str) -> TrainingArguments:
    """Return the arguments of a Trainer that evaluates, and writes a checkpoint, after `each` steps. `label`: the name of what
    has a loss."""
    use_cpu = options.device == "cpu" or (options.device == "auto" and not torch.cuda.is_available())
    at_once = 1 if use_cpu else min(AT_ONCE, options.batch_size)
    arguments = TrainingArguments(
        output_dir=str(folder.resolve()),
        num_train_epochs=options.epochs,
        learning_rate=options.learning_rate,
        per_device_train_batch_size=at_once,
        per_device_eval_batch_size=at_once,
        gradient_accumulation_steps=-(-options.batch_size // at_once),
        eval_on_start=_last_checkpoint(folder) is None,
        eval_strategy="steps",
        eval_steps=each,
        save_strategy="steps",
        save_steps=each,
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        greater_is_better=False,
        restore_callback_states_from_checkpoint=True,
        logging_steps=max(1, each // LOGGED),
        label_names=[label],
        prediction_loss_only=True,
        remove_unused_columns=False,
        disable_tqdm=True,
        report_to=[],
        seed=options.seed,
        use_cpu=use_cpu,
        dataloader_pin_memory=False,
    )
    use_one_gpu(arguments)  # a lesson is not divided
    return arguments


def _step(checkpoint: Path) -> str:
    return checkpoint.name.replace("checkpoint-", "step ")


def _last_checkpoint(folder: Path) -> Path | None:
    """Return the last whole checkpoint of a run, and remove those that are not whole: their state is written last."""
    whole: list[tuple[int, Path]] = []
    for path in folder.glob("checkpoint-*"):
        try:
            whole.append((json.loads((path / _STATE).read_text(encoding="utf-8"))["global_step"], path))
        except (OSError, ValueError):
            shutil.rmtree(path)
    return max(whole)[1].resolve() if whole else None


def _end_of_turn(tokenizer: Any) -> int:
    """Return the id that ends an answer by the chat template; by default, a text."""
    turns, ends = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], tokenizer.all_special_ids
    try:
        said = tokenizer.apply_chat_template(turns, return_dict=False)
    except Exception:  # a template may raise anything
        said = []
    for token in reversed(said):
        if token in ends:
            return int(token)
        if tokenizer.decode([token]).strip():
            break
    if tokenizer.eos_token_id is None:
        raise ModelError("the model's tokenizer has no end of text: give another model")
    return int(tokenizer.eos_token_id)


@contextmanager
def _out_of_memory(options: TrainingOptions) -> Iterator[None]:
    """Raise the errors of a machine or a GPU without memory as ModelError."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise ModelError(
            f"there is no memory for texts of up to {options.max_length} tokens: give a smaller --max-length or model"
        ) from error


def _card(report: dict[str, Any], text: str) -> str:
    """Return the model card of an adapter. `text`: what it does."""
    run, before, now = report["run"], report["loss_before"], report["loss"]
    asked = report["questions"]
    settings = "\n".join(f"| {name} | {run[name]} |" for name in run)
    return f"""---
base_model: {run["model"]}
library_name: {"peft" if run["rank"] else "transformers"}
tags: [{"lora, " if run["rank"] else ""}refactx]
---

{text}

Trained on {counted(report["trained_on"], "question")} of {asked["file"]} (SHA-256 {asked["sha256"]}). The loss on
{counted(report["kept_aside"], "question")} kept aside was {before:.4f} before, and is {now:.4f}. `{TAUGHT_REPORT}` has
all losses.

| setting | |
|---|---|
{settings}
"""
