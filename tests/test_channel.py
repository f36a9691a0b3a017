"""Facts chosen by the question: what is written is still of the index, and is what plain forward passes would choose."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_runs import Streamer
from tiny_model import (
    MemoryIndex,
    Passes,
    check_text,
    eager,
    log_probabilities,
    one_thread,  # noqa: F401
    prompts,
    read_as,  # noqa: F401
    tiny_index,
    tiny_model,
    tiny_tokenizer,
)

from refactx.candidates import Limits
from refactx.channel import Channel, ChannelOptions, usual_id
from refactx.channel_lines import Lines, after
from refactx.grounded import ground
from refactx.loop import _Run
from refactx.prefix import prefill
from refactx.state import Free, InFact, Machine

GRAPH = (
    "<Ann> <p> <b>",
    "<Ann> <p> <c>",
    "<Ann> <p> <bb>",
    "<Ann> <q> <b>",
    "<Ann> <pin> <Bo>",
    "<Ann> <qq> <c>",
    "<Ann> <description> <x>",
    "<Bé> <p> <in>",
    "<Bé> <r> <Ann>",
    "<Bé> <r> <‹i›>",
    "<Bo> <p> <.>",
    "<Bo> <‹p›> <b>",
    "<Bo> <q> <Ann>",
    "<Bo> <description> <y>",
)
NAMESAKES = (
    "<Bo (n)> <p> <b>",
    "<Bo (n)> <p> <c>",
    "<Bo (n)> <q> <b>",
    "<Bo (b)> <p> <b>",
    "<Bo> <in> <b>",
    *(f"<Ann (n)> <p> <{letter}>" for letter in "bcd"),
)
EXAMPLES = "Fact: <x> <y> Question: z?\n"
QUESTIONS = ("who is Ann?", "in p", "b", "when was it that Bo was where Ann had been?")
ALWAYS = -math.inf
"""For `again`: another fact for as long as there is one."""
EVERY = {
    "candidates": Limits(99, 99, math.inf),
    "meant": 99,
    "within": math.inf,
    "properties": 9999,
    "unlikely": math.inf,
    "hopeless": math.inf,
    "tie": 0.0,
    "doubtful": math.inf,
}
"""So many candidates that none is left out, and each compared once."""


def channel(
    model: Any,
    index: MemoryIndex,
    question: str = QUESTIONS[0],
    marker: str = "Answer:",
    unknown: str = "",
    **options: Any,
) -> Channel:
    encode = index.tokenizer.encode
    lead = encode(" Question:")
    examples = prefill(model, [encode(EXAMPLES)])
    return Channel(
        model, examples, [*lead, *encode(f" {question}")], len(lead), marker, ChannelOptions(**options), unknown
    )


@cache
def llama(seed: int = 0) -> Any:
    return tiny_model(seed)


def write(
    index: MemoryIndex,
    text: str = "a Fact:",
    seed: int = 0,
    budget: int = 120,
    facts: dict[str, Any] | None = None,
    **options: Any,
) -> tuple[list[int], int, list[Any]]:
    """Ids, the prompt's length and facts of a text with a channel. `facts`: arguments of `generate`."""
    grounded, inputs = ground(llama(seed), tiny_tokenizer(), index), prompts(text)
    chosen = channel(llama(seed), index, **options)
    out = grounded.generate(
        **inputs, channel=chosen, logits_processor=eager(), max_new_tokens=budget, do_sample=False, **(facts or {})
    )
    return out[0].tolist(), inputs["input_ids"].shape[1], grounded.facts(out)[0]


def parts(text: str) -> list[str]:
    return text.removesuffix(" .").strip().removeprefix("<").removesuffix(">").split("> <")


def until_closed(index: MemoryIndex, ids: Sequence[int], brackets: int) -> tuple[int, ...]:
    """The first ids up to that closing bracket."""
    count = next(n for n in range(len(ids) + 1) if index.tokenizer.decode_bytes(ids[:n]).count(b">") >= brackets)
    return tuple(ids[:count])


def texts_of_properties(
    index: MemoryIndex, left: Iterable[Sequence[int]], prefix: Sequence[int]
) -> set[tuple[int, ...]]:
    """The ids of each property of a subject, by brute force over the facts that are left."""
    brackets = index.tokenizer.decode_bytes(prefix).count(b">") + 1
    begin = tuple(prefix)
    return {until_closed(index, fact, brackets)[len(begin) :] for fact in left if tuple(fact[: len(begin)]) == begin}


def an_object(index: MemoryIndex, left: Iterable[Sequence[int]], begin: Sequence[int]) -> list[int]:
    """Behind a property, to the end of the name: each step to the most facts, of as many to the lowest id."""
    path: list[int] = []
    while not any(end in index.tokenizer.decode_bytes(path) for end in (b">", b" (")):
        depth = len(begin) + len(path)
        counts = Counter(fact[depth] for fact in left if tuple(fact[:depth]) == (*begin, *path))
        path.append(min(counts, key=lambda number: (-counts[number], number)))
    return path


class TestWhatIsWritten:
    @pytest.mark.parametrize("question", QUESTIONS[1:])
    @pytest.mark.parametrize("seed", range(2))
    def test_is_facts_and_none_twice(self, seed: int, question: str) -> None:
        index = tiny_index(GRAPH)
        row, length, facts = write(index, seed=seed, question=question, again=ALWAYS)
        check_text(index, row, length, facts)
        assert len(facts) > 3

    @settings(max_examples=15, deadline=None, derandomize=True)
    @given(
        facts=st.sets(
            st.tuples(
                st.sampled_from(["Ann", "An", "Bo", "Bé"]),
                st.sampled_from(["p", "pp", "in", "description", "‹p"]),
                st.sampled_from(["b", "bb", "Ann", ".", "Bo"]),
            ),
            min_size=1,
            max_size=9,
        ),
        text=st.sampled_from(["a Fact:", "hello", "so Fact:\n", "Fact"]),
        again=st.sampled_from([ALWAYS, 0.0, 4.0]),
        values=st.integers(0, 3),
        marker=st.sampled_from(["Answer:", "", "Fact: no", "Fa"]),
        unknown=st.sampled_from(["", "no", "Fact:"]),
        tells=st.sampled_from([-math.inf, 0.0, math.inf]),
        seed=st.integers(0, 3),
        budget=st.integers(1, 90),
        most=st.sampled_from([None, 1, 2]),
        behind=st.sampled_from(["", "Answer:"]),
    )
    def test_of_any_small_graph(
        self,
        facts: set[tuple[str, str, str]],
        text: str,
        seed: int,
        budget: int,
        most: int | None,
        behind: str,
        **options: Any,
    ) -> None:
        index = tiny_index("<{}> <{}> <{}>".format(*fact) for fact in facts)
        limit = {"max_facts": most, "after_facts": behind}
        row, length, found = write(index, text, seed, budget, limit, **options)
        assert most is None or len(found) <= most
        if most is None:
            check_text(index, row, length, found)

    def test_at_every_budget_is_the_same_as_far_as_it_goes(self) -> None:
        index = tiny_index(GRAPH)
        longest, length, _ = write(index, budget=60)
        for budget in range(1, 60, 7):
            row, _, facts = write(index, budget=budget)
            assert row == longest[: length + budget]
            check_text(index, row, length, facts)

    @pytest.mark.parametrize("cut", range(1, 10))
    def test_goes_on_with_a_fact_that_the_prompt_left_unfinished(self, cut: int) -> None:
        index = tiny_index(GRAPH)
        whole = "a Fact: <Bo> <q> <Ann>"
        text = tiny_tokenizer().decode(tiny_tokenizer()(whole)["input_ids"][: 2 + cut])
        row, length, facts = write(index, text, budget=40)
        assert index.tokenizer.decode(row[:length]) in whole
        check_text(index, row, length, facts)
        assert facts

    def test_of_an_index_with_one_fact_ends_in_the_answer(self) -> None:
        index = tiny_index(GRAPH[:1])
        row, length, facts = write(index, again=ALWAYS)
        assert [fact.text for fact in facts] == ["<Ann> <p> <b> ."]
        assert index.tokenizer.decode(row[length:]).split("\n")[1].startswith("Answer:")

    def test_is_streamed_id_by_id(self) -> None:
        index, streamer = tiny_index(GRAPH), Streamer()
        row, length, _ = write(index, facts={"streamer": streamer})
        assert [number for seen in streamer.seen[1:-1] for number in seen] == row[length:]
        assert streamer.seen[-1] == "end"

    @pytest.mark.parametrize("behind", ["", "Answer:"])
    @pytest.mark.parametrize("seed", range(2))
    def test_keeps_to_a_limit_of_facts(self, behind: str, seed: int) -> None:
        """Without `after_facts` nothing that looks like a fact follows the last one either."""
        index = tiny_index(GRAPH)
        row, _, facts = write(
            index, seed=seed, budget=60, facts={"max_facts": 2, "after_facts": behind}, marker=behind, again=ALWAYS
        )
        assert len(facts) == 2
        text = index.tokenizer.decode(row[facts[-1].token_span[1] :])
        assert "Fact: <" not in text
        assert not behind or text.strip().startswith(behind)

    def test_a_guess_ends_where_the_channel_chooses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What would follow there, but for what nearly all facts begin with, has to be read again: it is chosen, and not by
        what stood there before.
        """
        index, seen, guess_of = tiny_index(GRAPH), [], _Run._guess

        def spy(run: _Run, rows: Any) -> list[int]:
            seen.append((rows[0].state, guess_of(run, rows)))
            return seen[-1][1]

        monkeypatch.setattr(_Run, "_guess", spy)
        begin = " hello in hello in hello in"
        row, length, _ = write(index, begin, budget=20)
        trigger = index.tokenizer.decode(row[length:]).partition(" <")[0]  # with what this model writes before it
        seen.clear()
        write(index, f"{begin}{trigger} <Bo> <q> <Ann> .\n{begin}", budget=40)
        machine, chosen = Machine(index), channel(llama(), index)
        cut = 0
        for state, guessed in seen:
            for count in range(len(guessed) + 1) if isinstance(state, Free | InFact) else ():
                behind = after(machine, state, guessed[:count])
                if isinstance(behind, InFact) and chosen.decides(machine, behind):
                    assert guessed[count:] == usual_id(behind)
                    cut += count > 0
                if not isinstance(behind, Free):
                    break
        assert cut, [(type(state).__name__, index.tokenizer.decode(guessed)) for state, guessed in seen]

    @pytest.mark.parametrize("question", QUESTIONS)
    @pytest.mark.parametrize("seed", range(2))
    def test_is_the_same_whatever_is_guessed(self, seed: int, question: str, monkeypatch: pytest.MonkeyPatch) -> None:
        index, rows = tiny_index(GRAPH), []
        wrong = index.tokenizer.encode(" .\nFact: <Bo> <q> <in")
        for drafts in (Lines.draft, lambda *given: [], lambda *given: wrong):
            monkeypatch.setattr(Lines, "draft", drafts)
            rows.append(write(index, seed=seed, question=question, again=0.0, values=2)[0])
        assert rows[0] == rows[1] == rows[2]


class TestTheChoice:
    def expected(
        self, index: MemoryIndex, seed: int, row: Sequence[int], at: int, question: str, options: ChannelOptions
    ) -> dict[tuple[tuple[int, ...], tuple[int, ...]], float]:
        """The score of each subject with each of its properties, by plain passes over whole texts. `row[:at]`: the text
        before the fact.
        """
        encode, model = index.tokenizer.encode, llama(seed)
        written = ground(model, tiny_tokenizer(), index).facts([list(row[:at])], self.length)[0]
        done = {tuple(row[f.token_span[0] : f.token_span[1]]) for f in written}
        left = [fact for fact in index.sequences if not any(fact == ids[: len(fact)] for ids in done)]
        lead, asked = encode(" Question:"), encode(f" {question}")
        scores, before = {}, {}
        begun = Counter(until_closed(index, row[f.token_span[0] :], 2) for f in written)
        fresh = {full for fact in left if begun[full := until_closed(index, fact, 2)] < options.values}
        fresh = fresh or {until_closed(index, fact, 2) for fact in left}
        for subject in {until_closed(index, begin, 1) for begin in fresh}:
            name, share = self.name_of(index, left, subject)
            steps = log_probabilities(model, [*row[:at], *name])[at - 1 :]
            own_name = sum(
                float(steps[depth, number])
                for depth, number in enumerate(name)
                if len({fact[depth] for fact in left if fact[:depth] == name[:depth]}) > 1
            )
            before[subject] = options.name * own_name + options.prior * math.log(share)
            every = {path for path in texts_of_properties(index, left, subject) if (*subject, *path) in fresh}
            paths = {path for path in every if index.tokenizer.decode(path) != " <description>"} or every
            reasons = [fact for fact in written if f"<{fact.object}>" == index.tokenizer.decode(subject).strip()]
            reason = encode("Fact:") + encode(" " + reasons[-1].text) + encode("\n") if reasons else []
            self.reasons += len(reasons)

            def likely(
                path: Sequence[int], begin: Sequence[int] = (*encode(EXAMPLES), *reason, *encode("Fact:"), *subject)
            ) -> float:
                of_asked = log_probabilities(model, [*begin, *path, *lead, *asked])[-len(asked) - 1 : -1]
                return float(of_asked.gather(1, torch.tensor(asked)[:, None]).sum())

            for path in paths:
                score = likely(path)
                if options.tie:  # all of them are as near as that
                    score = (score + likely((*path, *an_object(index, left, (*subject, *path))))) / 2
                steps = log_probabilities(model, [*row[:at], *subject, *path])[at + len(subject) - 1 :]
                for depth, number in enumerate(path):
                    others = {other[depth] for other in every if other[:depth] == path[:depth]}
                    score += options.own * float(steps[depth, number] - steps[depth, sorted(others)].logsumexp(0))
                scores[subject, path] = score + before[subject]
        least = max(before.values()) - options.doubtful
        self.doubtful += sum(score < least for score in before.values())
        return {(subject, path): score for (subject, path), score in scores.items() if before[subject] >= least}

    def name_of(
        self, index: MemoryIndex, left: Sequence[tuple[int, ...]], subject: tuple[int, ...]
    ) -> tuple[tuple[int, ...], float]:
        """The ids of a subject's name, and its share of the facts of all of that name."""
        texts = (index.tokenizer.decode_bytes(subject[:length]) for length in range(len(subject) + 1))
        name = subject[: next(length for length, text in enumerate(texts) if b" (" in text or b">" in text)]
        of_name, own = ([fact for fact in left if fact[: len(ids)] == ids] for ids in (name, subject))
        return name, len(own) / len(of_name)

    @pytest.mark.usefixtures("read_as")
    @pytest.mark.parametrize(
        ("question", "options", "sizes"),
        [
            (QUESTIONS[0], {}, (256, 16)),
            (QUESTIONS[3], {"name": 1.0}, (256, 16)),
            (QUESTIONS[0], {"own": 2.0}, (1, 1)),
            (QUESTIONS[0], {"tie": math.inf}, (256, 16)),
            (QUESTIONS[3], {"tie": math.inf}, (256, 16)),
            (QUESTIONS[1], {"own": 0.0, "prior": 3.0}, (40, 3)),
        ],
    )
    @pytest.mark.parametrize("graph", [GRAPH, NAMESAKES])
    def test_is_that_of_plain_passes_over_whole_texts(
        self,
        graph: Sequence[str],
        question: str,
        options: dict[str, float],
        sizes: tuple[int, int],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        for module in ("chunks", "continuations"):
            monkeypatch.setattr(f"refactx.{module}.IDS_A_PASS", sizes[0])
        monkeypatch.setattr("refactx.chunks.ROWS_A_PASS", sizes[1])
        assert self.compared(graph, "a Fact:", range(2), question, options) > 2

    def test_asks_for_both_steps_where_a_fact_led_to_the_subject(self) -> None:
        chain = ("<Bé> <r> <Ann>", "<Ann> <p> <b>", "<Ann> <q> <c>", "<Ann> <pin> <Bo>", "<Bo> <q> <b>", "<Bo> <p> <c>")
        assert self.compared(chain, "a Fact: <Bé", range(3), QUESTIONS[0], {}) > 2
        assert self.reasons > 2

    def test_reads_no_subject_that_is_worse_than_the_best_before_the_question(self) -> None:
        assert self.compared(NAMESAKES, "a Fact:", range(2), QUESTIONS[0], {"doubtful": 2.0}) > 2
        assert self.doubtful > 2

    reasons = doubtful = 0

    def compared(
        self, graph: Sequence[str], text: str, seeds: Iterable[int], question: str, weights: dict[str, float]
    ) -> int:
        """How many choices were made, each of which has to be the brute-force twin's."""
        index, chosen = tiny_index(graph), 0
        options = ChannelOptions(**(EVERY | weights), values=1, again=ALWAYS)  # type: ignore[arg-type]
        for seed in seeds:
            row, self.length, facts = write(
                index,
                text,
                seed,
                question=question,
                **{field.name: getattr(options, field.name) for field in fields(options)},
            )
            for fact in facts:
                start, stop = fact.token_span
                tokens = row[start:stop]
                if start < self.length:  # begun by the prompt
                    continue
                subject = until_closed(index, tokens, 1)
                path = until_closed(index, tokens, 2)[len(subject) :]
                scores = self.expected(index, seed, row, start, question, options)
                assert scores[subject, path] >= max(scores.values()) - 1e-3
                chosen += len(scores) > 1
        return chosen

    @pytest.mark.parametrize(("prior", "subject"), [(0.5, "Bo (n)"), (-0.5, "Bo (b)")])
    def test_of_the_subjects_of_a_name_is_that_with_more_facts_where_the_model_is_indifferent(
        self, prior: float, subject: str
    ) -> None:
        model = tiny_model()
        model.get_output_embeddings().weight.data.zero_()
        index = tiny_index(NAMESAKES)
        chosen = channel(model, index, prior=prior, again=math.inf)
        grounded = ground(model, tiny_tokenizer(), index)
        out = grounded.generate(**prompts("a Fact: <Bo ("), channel=chosen, max_new_tokens=40, do_sample=False)
        assert parts(grounded.facts(out)[0][0].text)[0] == subject

    @pytest.mark.parametrize(
        "limit",
        [
            {"candidates": Limits(1, 1)},
            {"candidates": Limits(unlikely=0.0)},
            {"meant": 1},
            {"within": 0.0},
            {"properties": 1},
        ],
    )
    def test_with_fewer_candidates_is_still_a_fact(self, limit: dict[str, Any]) -> None:
        index = tiny_index(NAMESAKES)
        row, length, facts = write(index, budget=250, again=ALWAYS, **limit)
        check_text(index, row, length, facts)
        assert len(facts) == len(NAMESAKES)


class TestBehindAFact:
    @pytest.mark.parametrize("values", [1, 2, 3, 6])
    def test_all_values_of_its_property_follow(self, values: int) -> None:
        index = tiny_index([f"<Ann> <p> <{letter}>" for letter in "bcdefgh"] + ["<Ann> <q> <b>", "<Bo> <p> <b>"])
        row, _, facts = write(index, "a Fact: <Ann> <p", values=values, again=math.inf)
        assert [parts(fact.text)[:2] for fact in facts[:values]] == [["Ann", "p"]] * values
        assert len({fact.text for fact in facts}) == len(facts)
        assert index.tokenizer.decode(row[facts[values - 1].token_span[1] :]).strip().startswith("Answer:")

    def test_neither_the_terminator_nor_the_next_line_takes_a_pass(self) -> None:
        """But for the choice of each object, which is one id here, and the channel's own."""
        index = tiny_index([f"<Ann> <p> <{letter}>" for letter in "bcdefgh"])
        begin, lines = "a Fact: <Ann> <p> <", index.tokenizer.encode("> .\nFact:")
        row, length, facts = write(index, begin, again=math.inf)
        of_channel = facts[:6]
        text = index.tokenizer.decode(row)
        assert text.startswith("\n".join(f"{'a ' * (n == 0)}Fact: {fact.text}" for n, fact in enumerate(of_channel)))
        assert sum(row[n : n + len(lines)] == lines for n in range(len(row))) >= 5, "as the tokenizer writes them"
        with Passes(llama()) as passes:
            write(index, begin, budget=of_channel[-1].token_span[1] - length)
        assert passes.number <= len(of_channel) + 2, "the examples, the prompt, and the objects behind the first"

    @pytest.mark.parametrize("seed", range(3))
    def test_a_property_that_had_its_facts_is_not_chosen_again_while_there_are_others(self, seed: int) -> None:
        """Else lists would fill the text to its end, a few facts at a time."""
        index = tiny_index([f"<Ann> <p> <{letter}>" for letter in "bcdefghi"] + ["<Ann> <q> <b>", "<Bo> <p> <b>"])
        _, _, facts = write(index, seed=seed, values=2, again=ALWAYS, budget=250)
        of_ann = [fact.text.startswith("<Ann> <p>") for fact in facts]
        assert len(facts) == len(index.sequences)
        assert sum(of_ann[:4]) == 2, "two, and the others, before more of them"

    @pytest.mark.parametrize(("again", "next_"), [(ALWAYS, "Fact:"), (math.inf, "Answer:")])
    @pytest.mark.parametrize("seed", range(2))
    def test_the_line_begins_with_another_or_the_answer(self, again: float, next_: str, seed: int) -> None:
        index = tiny_index(GRAPH)
        row, length, facts = write(index, seed=seed, values=1, again=again, budget=60)
        behind = index.tokenizer.decode(row[facts[0].token_span[1] :])
        assert behind.lstrip().startswith(next_)
        assert index.tokenizer.decode(row[length : facts[0].token_span[1]]).strip() == facts[0].text

    def test_the_model_chooses_by_the_difference(self) -> None:
        index = tiny_index(GRAPH)
        machine, encode = Machine(index), index.tokenizer.encode
        ids = encode("Fact: <Ann> <p> <b> .\n")
        state = machine.run(ids, 0)
        logits = torch.zeros(1, 1, llama().config.vocab_size)
        logits[0, 0, encode("Fact:")[0]] = 4.0
        for again, line in ((3.9, "Fact:"), (4.1, "Answer:")):
            assert channel(llama(), index, again=again).lines.next_line(machine, state, logits) == encode(line)

    def test_elsewhere_lines_are_free(self) -> None:
        index = tiny_index(GRAPH)
        machine, encode, logits = Machine(index), index.tokenizer.encode, torch.zeros(1, 1, 999)
        for text in (
            "a\n",
            "Fact: <Ann> <p> <b> .\nAnswer: b\n",
            "Fact: <Ann> <p> <b> .\na" + "\n" * 12,
            "Fact: <Ann> <p> <b> . ",
        ):
            ids = encode(text)
            assert not channel(llama(), index).lines.next_line(machine, machine.run(ids, 0), logits)
