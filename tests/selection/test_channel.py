"""Facts chosen by the question: they are facts of the index, and lines have the right form."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.channel_runs import (
    ALWAYS,
    GRAPH,
    NAMESAKES,
    QUESTIONS,
    channel,
    chooser,
    llama,
    parts,
    write,
)
from support.loop_runs import Streamer
from support.tiny_model import (
    Passes,
    check_text,
    one_thread,  # noqa: F401
    read_as,  # noqa: F401
    tiny_index,
    tiny_tokenizer,
)

from refactx.decoding.machine import Machine
from refactx.decoding.states import Free, InFact
from refactx.engines.engine import ScoreReading
from refactx.selection.answer_lines import AnswerLines
from refactx.selection.chooser import ChannelChooser, usual_id
from refactx.selection.scores import ScoredContinuations


class TestWhatIsWritten:
    @pytest.mark.parametrize("question", QUESTIONS[1:])
    @pytest.mark.parametrize("seed", range(2))
    def test_is_facts_and_none_twice(self, seed: int, question: str) -> None:
        index = tiny_index(GRAPH)
        row, length, facts = write(index, seed=seed, question=question, another_fact_gain=ALWAYS)
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
        another_fact_gain=st.sampled_from([ALWAYS, 0.0, 4.0]),
        facts_of_property=st.integers(0, 3),
        marker=st.sampled_from(["Answer:", "", "Fact: no", "Fa"]),
        unknown=st.sampled_from(["", "no", "Fact:"]),
        min_confidence=st.sampled_from([-math.inf, 0.0, math.inf]),
        seed=st.integers(0, 3),
        budget=st.integers(1, 90),
        most=st.sampled_from([None, 1, 2]),
        following=st.sampled_from(["", "Answer:"]),
    )
    def test_of_any_small_graph(
        self,
        facts: set[tuple[str, str, str]],
        text: str,
        seed: int,
        budget: int,
        most: int | None,
        following: str,
        **options: Any,
    ) -> None:
        index = tiny_index("<{}> <{}> <{}>".format(*fact) for fact in facts)
        limit = {"max_facts": most, "after_facts": following}
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
    def test_continues_a_fact_that_the_prompt_left_unfinished(self, cut: int) -> None:
        index = tiny_index(GRAPH)
        whole = "a Fact: <Bo> <q> <Ann>"
        text = tiny_tokenizer().decode(tiny_tokenizer()(whole)["input_ids"][: 2 + cut])
        row, length, facts = write(index, text, budget=40)
        assert index.tokenizer.decode(row[:length]) in whole
        check_text(index, row, length, facts)
        assert facts

    def test_of_an_index_with_one_fact_ends_in_the_answer(self) -> None:
        index = tiny_index(GRAPH[:1])
        row, length, facts = write(index, another_fact_gain=ALWAYS)
        assert [fact.text for fact in facts] == ["<Ann> <p> <b> ."]
        assert index.tokenizer.decode(row[length:]).split("\n")[1].startswith("Answer:")

    def test_is_streamed_id_by_id(self) -> None:
        index, streamer = tiny_index(GRAPH), Streamer()
        row, length, _ = write(index, facts={"streamer": streamer})
        assert [number for seen in streamer.seen[1:-1] for number in seen] == row[length:]
        assert streamer.seen[-1] == "end"

    @pytest.mark.parametrize("following", ["", "Answer:"])
    @pytest.mark.parametrize("seed", range(2))
    def test_keeps_to_a_limit_of_facts(self, following: str, seed: int) -> None:
        """Without `after_facts`, no text that looks like a fact follows the last one either."""
        index = tiny_index(GRAPH)
        row, _, facts = write(
            index,
            seed=seed,
            budget=60,
            facts={"max_facts": 2, "after_facts": following},
            marker=following,
            another_fact_gain=ALWAYS,
        )
        assert len(facts) == 2
        text = index.tokenizer.decode(row[facts[-1].token_span[1] :])
        assert "Fact: <" not in text
        assert not following or text.strip().startswith(following)

    def test_a_draft_ends_where_the_channel_chooses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The channel chooses the ids after that, so a draft of them would be wrong, except for an id with which nearly
        all facts begin.
        """
        index, seen, draft_of = tiny_index(GRAPH), [], ChannelChooser.draft

        def spy(chooser: ChannelChooser, state: Any, *given: Any) -> Any:
            seen.append((state, list(draft_of(chooser, state, *given))))
            return seen[-1][1]

        monkeypatch.setattr(ChannelChooser, "draft", spy)
        begin = " hello in hello in hello in"
        row, length, _ = write(index, begin, budget=20)
        trigger = index.tokenizer.decode(row[length:]).partition(" <")[
            0
        ]  # with the text that this model writes before it
        seen.clear()
        write(index, f"{begin}{trigger} <Bo> <q> <Ann> .\n{begin}", budget=40)
        machine = Machine(index)
        chosen = chooser(machine)
        cut = 0
        for state, drafted in seen:
            for count in range(len(drafted) + 1) if isinstance(state, Free | InFact) else ():
                following = machine.follow(state, drafted[:count])
                if isinstance(following, InFact) and chosen.decides(following):
                    assert drafted[count:] == usual_id(following)
                    cut += count > 0
                if not isinstance(following, Free):
                    break
        assert cut, [(type(state).__name__, index.tokenizer.decode(drafted)) for state, drafted in seen]

    @pytest.mark.parametrize("question", QUESTIONS)
    @pytest.mark.parametrize("seed", range(2))
    def test_is_the_same_with_any_draft_tokens(self, seed: int, question: str, monkeypatch: pytest.MonkeyPatch) -> None:
        index, rows = tiny_index(GRAPH), []
        wrong = index.tokenizer.encode(" .\nFact: <Bo> <q> <in")
        for drafts in (AnswerLines.draft, lambda *given: [], lambda *given: wrong):
            monkeypatch.setattr(AnswerLines, "draft", drafts)
            rows.append(write(index, seed=seed, question=question, another_fact_gain=0.0, facts_of_property=2)[0])
        assert rows[0] == rows[1] == rows[2]

    @pytest.mark.parametrize("question", QUESTIONS)
    def test_is_the_same_with_any_ids_read_ahead_of_a_choice(
        self, question: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        index, rows, passes, drafted = tiny_index([*GRAPH, *NAMESAKES]), [], [], 0

        of = ScoredContinuations.of

        def ahead_and_earlier(reading: ScoreReading, earlier: Any) -> ScoredContinuations:
            nonlocal drafted
            drafted += len(reading.ahead)
            return of(reading, earlier)

        def ahead_alone(reading: ScoreReading, earlier: Any) -> ScoredContinuations:
            return of(reading)

        for usual, way in ((0.99, ahead_and_earlier), (0.99, ahead_alone), (0.3, ahead_and_earlier)):
            monkeypatch.setattr(
                "refactx.selection.chooser.USUAL", usual
            )  # at 0.3, an id of many that is right or wrong
            monkeypatch.setattr(ScoredContinuations, "of", way)
            with Passes(llama(0)) as counted:
                rows.append(
                    write(index, question=question, another_fact_gain=ALWAYS, facts_of_property=1, compared_subjects=1)[
                        0
                    ]
                )
            passes.append(counted.number)
        assert rows[0] == rows[1] == rows[2]
        assert passes[0] < passes[1], "what the last choice asked for is read in one pass"
        assert drafted


class TestAfterAFact:
    @pytest.mark.parametrize("values", [1, 2, 3, 6])
    def test_all_values_of_its_property_follow(self, values: int) -> None:
        index = tiny_index([f"<Ann> <p> <{letter}>" for letter in "bcdefgh"] + ["<Ann> <q> <b>", "<Bo> <p> <b>"])
        row, _, facts = write(index, "a Fact: <Ann> <p", facts_of_property=values, another_fact_gain=math.inf)
        assert [parts(fact.text)[:2] for fact in facts[:values]] == [["Ann", "p"]] * values
        assert len({fact.text for fact in facts}) == len(facts)
        assert index.tokenizer.decode(row[facts[values - 1].token_span[1] :]).strip().startswith("Answer:")

    def test_the_terminator_and_the_next_line_take_no_passes(self) -> None:
        """Passes are for the choice of each object, which is one id here, and for the channel's own."""
        index = tiny_index([f"<Ann> <p> <{letter}>" for letter in "bcdefgh"])
        begin, lines = "a Fact: <Ann> <p> <", index.tokenizer.encode("> .\nFact:")
        row, length, facts = write(index, begin, another_fact_gain=math.inf)
        of_channel = facts[:6]
        text = index.tokenizer.decode(row)
        assert text.startswith("\n".join(f"{'a ' * (n == 0)}Fact: {fact.text}" for n, fact in enumerate(of_channel)))
        assert sum(row[n : n + len(lines)] == lines for n in range(len(row))) >= 5, "as the tokenizer writes them"
        with Passes(llama()) as passes:
            write(index, begin, budget=of_channel[-1].token_span[1] - length)
        assert passes.number <= len(of_channel) + 2, "the examples, the prompt, and the objects after the first"

    @pytest.mark.parametrize("seed", range(3))
    def test_an_exhausted_property_is_not_chosen_while_there_are_others(self, seed: int) -> None:
        """Otherwise lists would fill the text up to its end, a few facts at a time."""
        index = tiny_index([f"<Ann> <p> <{letter}>" for letter in "bcdefghi"] + ["<Ann> <q> <b>", "<Bo> <p> <b>"])
        _, _, facts = write(index, seed=seed, facts_of_property=2, another_fact_gain=ALWAYS, budget=250)
        of_ann = [fact.text.startswith("<Ann> <p>") for fact in facts]
        assert len(facts) == len(index.sequences)
        assert sum(of_ann[:4]) == 2, "two, and the others, before more of them"

    @pytest.mark.parametrize(("again", "next_"), [(ALWAYS, "Fact:"), (math.inf, "Answer:")])
    @pytest.mark.parametrize("seed", range(2))
    def test_the_line_begins_with_another_fact_or_the_answer(self, again: float, next_: str, seed: int) -> None:
        index = tiny_index(GRAPH)
        row, length, facts = write(index, seed=seed, facts_of_property=1, another_fact_gain=again, budget=60)
        following = index.tokenizer.decode(row[facts[0].token_span[1] :])
        assert following.lstrip().startswith(next_)
        assert index.tokenizer.decode(row[length : facts[0].token_span[1]]).strip() == facts[0].text

    def test_the_model_chooses_by_the_difference(self) -> None:
        index = tiny_index(GRAPH)
        machine, encode = Machine(index), index.tokenizer.encode
        ids = encode("Fact: <Ann> <p> <b> .\n")
        state = machine.run(ids, 0)
        logits = np.zeros(llama().config.vocab_size, np.float32)
        logits[encode("Fact:")[0]] = 4.0
        for again, line in ((3.9, "Fact:"), (4.1, "Answer:")):
            lines = AnswerLines(machine, channel(index, another_fact_gain=again))
            assert lines.next_line(state, logits) == encode(line)

    def test_elsewhere_lines_are_free(self) -> None:
        index = tiny_index(GRAPH)
        machine, encode, logits = Machine(index), index.tokenizer.encode, np.zeros(999, np.float32)
        for text in (
            "a\n",
            "Fact: <Ann> <p> <b> .\nAnswer: b\n",
            "Fact: <Ann> <p> <b> .\na" + "\n" * 12,
            "Fact: <Ann> <p> <b> . ",
        ):
            ids = encode(text)
            assert not AnswerLines(machine, channel(index)).next_line(machine.run(ids, 0), logits)
