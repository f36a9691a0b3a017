"""`refactx questions split`: questions to learn from and questions to ask, by chance or by unknown ids."""

import json
from pathlib import Path

from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from refactx.cli.main import cli
from refactx.eval.questions import read_queries
from refactx.eval.sparql import split_unknown

IRIS = st.lists(st.sets(st.sampled_from("abcdefgh"), min_size=1, max_size=3), max_size=12)


@given(IRIS, st.floats(0, 1), st.integers(0, 9))
def test_each_test_question_has_an_iri_that_no_other_has(iris: list[set[str]], share: float, seed: int) -> None:
    chosen = split_unknown(iris, share, seed)
    known = set[str]().union(*(some for some, is_test in zip(iris, chosen, strict=True) if not is_test))
    assert all(some - known for some, is_test in zip(iris, chosen, strict=True) if is_test)
    assert chosen.count(True) <= round(share * len(iris))
    assert split_unknown(iris, share, seed) == chosen
    left = round(share * len(iris)) - chosen.count(True)
    rest = [some for some, is_test in zip(iris, chosen, strict=True) if not is_test]
    for iri in known:
        assert sum(iri in some for some in rest) > left, "no other id would fit"


def test_the_files_have_every_question_once(tmp_path: Path) -> None:
    source = tmp_path / "gold.jsonl"
    lines = [
        {
            "id": f"q{n}",
            "question": f"What is {n}?",
            "answers": [str(n)],
            "kind": "single",
            "answer_ids": [f"Q{n}"],
            "sparql": f"SELECT ?x {{ wd:Q{n} wdt:P{n % 2 + 1} ?x }}",
        }
        for n in range(1, 21)
    ]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for more in ([], ["--unknown"]):
        out = tmp_path / f"out{len(more)}"
        done = CliRunner().invoke(cli, ["questions", "split", str(source), "--out", str(out), "--share", "0.2", *more])
        assert done.exit_code == 0, (done.output, done.exception)
        train, test = (read_queries(out / f"{name}.jsonl") for name in ("train", "test"))
        assert (len(train), len(test)) == (16, 4)
        whole = {one.id: one for one in read_queries(source)}
        assert {one.id for one in (*train, *test)} == whole.keys()
        for one in (*train, *test):
            expected = whole[one.id]
            assert (one.text, one.kind, one.sparql) == (expected.text, expected.kind, expected.sparql)
            assert [gold.text for gold in one.answers] == [gold.text for gold in expected.answers]
