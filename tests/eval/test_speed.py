"""The generation-time experiment: constrained from the first token to the last."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.tiny_model import tiny_index, tiny_model, tiny_tokenizer

from refactx.errors import InputError
from refactx.eval.speed import WINDOW, TriggerForcer, measure_speed, write_speed


def test_throughput_is_constrained_all_the_way(tmp_path: Path) -> None:
    facts = [f"<Ann> <p> <{chr(97 + i)}{chr(97 + j)}>" for i in range(8) for j in range(8)]
    timed = measure_speed(tiny_model(), tiny_tokenizer(), tiny_index(facts), 200)
    assert timed["grounded"].tokens == timed["free"].tokens == 200
    assert timed["grounded"].facts > 8, "a fact has some twelve tokens, a forced trigger two"
    assert timed["free"].forward_passes == 200
    assert timed["grounded"].points[-1][0] == 200
    for run in timed.values():
        (first, _), *_ = run.points
        whole = sum((run.points[n][1] - run.points[n - 1][1]) for n in range(1, len(run.points)))
        tokens = [n for n, _ in run.averages]
        assert tokens == [n for n, _ in run.points[WINDOW:]]
        assert min(s for _, s in run.averages) <= whole / (run.tokens - first) <= max(s for _, s in run.averages)
    seconds = [at for _, at in timed["grounded"].points]
    assert seconds == sorted(seconds)
    document = write_speed(tmp_path / "t", {"model": "tiny", "index": "i"}, timed)
    assert document["runs"]["grounded"]["facts"] == timed["grounded"].facts
    ElementTree.parse(tmp_path / "t" / "speed.svg")
    with pytest.raises(InputError, match="give --tokens"):
        measure_speed(tiny_model(), tiny_tokenizer(), tiny_index(facts), 5000)


def test_the_trigger_is_forced_after_a_fact_and_nowhere_else() -> None:
    tokenizer = tiny_tokenizer()
    forcer = TriggerForcer(tokenizer, "Fact:")
    trigger = tokenizer.encode("\nFact:", add_special_tokens=False)
    done = tokenizer.encode("Fact: <Ann> <p> <b> .", add_special_tokens=False)
    assert forcer.forced(done[:-1]) is None
    for written in range(len(trigger)):
        assert forcer.forced([*done, *trigger[:written]]) == trigger[written]
    assert forcer.forced([*done, *trigger]) is None
