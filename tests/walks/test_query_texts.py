"""Texts with queries: after `Query:`, models write only queries that can be answered, in every mode and on any engine."""

import re

import pytest
import torch
from support.engines.twins import table_twins
from support.loop_runs import MODES
from support.query.memory_index import RowsIndex
from support.query.twin import with_inverse
from support.tiny_model import one_thread, prompts, tiny_model, tiny_tokenizer, token  # noqa: F401
from transformers import LogitsProcessor, LogitsProcessorList

from refactx.ask.grounded import GroundedModel, ground
from refactx.decoding.machine import Machine
from refactx.engines.scheduler import Job, Scheduler
from refactx.engines.writer import Capabilities, Hooks, Row, Sampler, Sampling, TextWriter
from refactx.errors import ModelError
from refactx.selection.plain import PlainChooser
from refactx.walks.decoding import QueryGrammar
from refactx.walks.evaluate import evaluate_walk
from refactx.walks.facts import TreeFacts
from refactx.walks.language import read_line

CLAIMS = frozenset(
    [("A", "p", "B"), ("B", "p", "C"), ("C", "p", "A"), ("A", "n", "7"), ("B", "t", "1990-05"), ("C", "q", "B")]
)
"""Each start has an object with facts, so any query has an answer."""
INDEX = RowsIndex([(1, with_inverse(CLAIMS))])
PROMPTS = ("a Query:", "Query: count <", "Fact: <A> <p> <B> .\nQuery: ", "hello")
TRIGGERS = ("Query:", "Fact:")


class Curious(LogitsProcessor):
    """Makes a model write triggers often: the letter that continues one is likely."""

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        scores = 0.1 * scores
        for row, numbers in enumerate(input_ids.tolist()):
            text = INDEX.tokenizer.decode(numbers[-len(TRIGGERS[0]) :])
            for trigger in TRIGGERS:
                begun = next(size for size in range(len(trigger), -1, -1) if text.endswith(trigger[:size]))
                if begun == 0:
                    scores[row, token(" ")] += 3.0
                if begun < len(trigger):
                    scores[row, token(trigger[begun])] += 12.0 if begun else 3.0
        scores[:, [0, tiny_tokenizer().eos_token_id]] -= 50.0
        return scores.log_softmax(-1)  # type: ignore[return-value]


def check_queries(text: str, prompt: str, written: list[str]) -> int:
    """Check that each trigger of the model's is followed by a query with an answer. Return their number."""
    begin = prompt.rfind("Query:") if re.search(r"Query:[^.]*\Z", prompt) else len(prompt) - 5
    found = re.split(r"(?<!\w)Query:(?=\s)", text[begin:])[1:]
    lines = [match[1] for part in found if (match := re.match(r"\s*(.*? \.)", part))]
    assert lines == written
    assert len(found) - len(lines) <= 1, "the last one may be cut off"
    for line in lines:
        evaluate_walk(read_line(line), TreeFacts(INDEX))
    return len(lines)


@pytest.fixture(scope="module")
def grounded() -> GroundedModel:
    return ground(tiny_model(), tiny_tokenizer(), INDEX, queries=True)


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_writes_only_queries_that_can_be_answered(mode: str, grounded: GroundedModel) -> None:
    inputs = prompts(*PROMPTS)
    torch.manual_seed(1)
    processors = LogitsProcessorList([Curious()])
    out = grounded.generate(**inputs, logits_processor=processors, max_new_tokens=110, **MODES[mode])
    copies, total = len(out) // len(PROMPTS), 0
    for number, (row, written) in enumerate(zip(out.tolist(), grounded.queries(out), strict=True)):
        text = INDEX.tokenizer.decode(row)
        total += check_queries(text, PROMPTS[number // copies], written)
    assert total >= len(out) / 2
    assert len(grounded.facts(out)) == len(out)


def test_facts_are_written_beside_queries(grounded: GroundedModel) -> None:
    torch.manual_seed(2)
    out = grounded.generate(
        **prompts("hello"), logits_processor=LogitsProcessorList([Curious()]), max_new_tokens=300, do_sample=True
    )
    assert grounded.facts(out)[0]
    assert len(grounded.queries(out)[0]) > 1
    assert grounded.queries(out[:, :-1], out.grounding.prompt_length)


def test_with_fact_beams(grounded: GroundedModel) -> None:
    inputs, processors = prompts(PROMPTS[0]), LogitsProcessorList([Curious()])
    out = grounded.generate(**inputs, logits_processor=processors, max_new_tokens=150, do_sample=True, fact_beams=2)
    assert check_queries(INDEX.tokenizer.decode(out[0].tolist()), PROMPTS[0], grounded.queries(out)[0])


def test_without_the_option_texts_are_as_before() -> None:
    plain = ground(tiny_model(), tiny_tokenizer(), INDEX)
    inputs, options = prompts(*PROMPTS[:2]), {"max_new_tokens": 40, "do_sample": False}
    out = plain.generate(**inputs, **options)
    assert torch.equal(out, tiny_model().generate(**inputs, **options))
    assert plain.queries(out) == [[], []]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_any_engine_writes_them(temperature: float, seed: int) -> None:
    machine = Machine(INDEX, queries=QueryGrammar(TreeFacts(INDEX), INDEX))
    engine = table_twins(len(machine.token_bytes) + 3, seed).engine

    def job(prompt: str, rows: list[Row]) -> Job:
        ids = machine.source.tokenizer.encode(prompt)
        row = Row(ids, machine.run(ids, len(ids)), capacity=200, unread=len(ids))
        rows.append(row)
        writer = TextWriter(
            row,
            constraint=machine,
            chooser=PlainChooser(machine),
            picker=Sampler(Sampling(temperature=temperature, seed=seed), machine.allowed),
            hooks=Hooks(lambda row: row.length >= 200 or len(machine.queries(row.written.tolist(), len(ids))) > 0),
            max_length=200,
            capabilities=Capabilities(trees=engine.trees, drafts=engine.can_forget),
        )
        return Job(steps=writer.write(), begin=lambda: engine.prefill(()))

    rows: list[Row] = []
    jobs = [job(prompt, rows) for prompt in PROMPTS[:3]]
    Scheduler(engine).run(jobs)
    assert [one.error for one in jobs] == [None] * 3
    for row, prompt in zip(rows, PROMPTS, strict=False):
        ids = row.written.tolist()
        written = machine.queries(ids, len(machine.source.tokenizer.encode(prompt)))
        check_queries(machine.source.tokenizer.decode(ids), prompt, written)


def test_another_trigger_of_facts_is_needed_if_it_is_that_of_queries() -> None:
    index = RowsIndex([(1, CLAIMS)])
    index.trigger = "Query:"  # type: ignore[misc]
    with pytest.raises(ModelError, match="Query:"):
        Machine(index, queries=QueryGrammar(TreeFacts(index), index))
