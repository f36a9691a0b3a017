"""The generation-time experiment: constrained from the first token to the last."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.tiny_model import tiny_index, tiny_model, tiny_tokenizer

from bench.throughput import TriggerForcer, throughput, write_throughput
from refactx.errors import InputError


def test_throughput_is_constrained_all_the_way(tmp_path: Path) -> None:
    facts = [f"<Ann> <p> <{chr(97 + i)}{chr(97 + j)}>" for i in range(8) for j in range(8)]
    timed = throughput(tiny_model(), tiny_tokenizer(), tiny_index(facts), 200)
    assert timed["grounded"].tokens == timed["free"].tokens == 200
    assert timed["grounded"].facts > 8, "a fact has some twelve tokens, a forced trigger two"
    assert timed["free"].forward_passes == 200
    assert timed["grounded"].points[-1][0] == 200
    seconds = [at for _, at in timed["grounded"].points]
    assert seconds == sorted(seconds)
    document = write_throughput(tmp_path / "t", {"model": "tiny", "index": "i"}, timed)
    assert document["runs"]["grounded"]["facts"] == timed["grounded"].facts
    ElementTree.parse(tmp_path / "t" / "throughput.svg")
    with pytest.raises(InputError, match="give --tokens"):
        throughput(tiny_model(), tiny_tokenizer(), tiny_index(facts), 5000)


def test_the_trigger_is_forced_after_a_fact_and_nowhere_else() -> None:
    tokenizer = tiny_tokenizer()
    forcer = TriggerForcer(tokenizer, "Fact:")
    trigger = tokenizer.encode("\nFact:", add_special_tokens=False)
    done = tokenizer.encode("Fact: <Ann> <p> <b> .", add_special_tokens=False)
    assert forcer.forced(done[:-1]) is None
    for written in range(len(trigger)):
        assert forcer.forced([*done, *trigger[:written]]) == trigger[written]
    assert forcer.forced([*done, *trigger]) is None
