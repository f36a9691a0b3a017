"""A change of few facts is joined and encoded in memory, to the same result as any number of facts."""

import json
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from support.tiny_model import tiny_tokenizer

from refactx.ingest.encoding import encode_facts, encode_many, open_encoded
from refactx.ingest.knowledge.knowledge_base import are_few_ready_made, join, join_any, staged_are_few
from refactx.ingest.parsers.formats import open_sources, read_sources
from refactx.ingest.selection import Selection
from refactx.ingest.sources import inputs_of
from refactx.ingest.work import Resources
from refactx.tokenizer import FactTokenizer

RESOURCES = Resources("100MB", workers=1, progress=False)
parts = st.text("aZ é中.\u200d😀", min_size=1, max_size=5).filter(lambda part: part.strip(" \u200d"))
lines = st.lists(st.one_of(st.tuples(parts, parts, parts), st.just(("a", "a", "é"))), min_size=1, max_size=30)


def tokenizers() -> dict[str, FactTokenizer]:
    """Return a tokenizer that starts anew at white space, one that makes `a` of `Z`, and one that looks across space."""
    form = json.loads(tiny_tokenizer().backend_tokenizer.to_str())
    across = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    same = {"type": "Replace", "pattern": {"String": "Z"}, "content": "a"}
    return {
        "by word": FactTokenizer(json.dumps(form)),
        "the same": FactTokenizer(json.dumps({**form, "normalizer": same})),
        "whole": FactTokenizer(json.dumps({**form, "pre_tokenizer": across})),
    }


TOKENIZERS = tokenizers()


@pytest.mark.parametrize("kind", sorted(TOKENIZERS))
@settings(max_examples=12, deadline=None)
@given(facts=lines)
def test_few_ready_made_facts_give_what_many_give(kind: str, facts: list[tuple[str, str, str]]) -> None:
    with TemporaryDirectory() as folder:
        source, staged = Path(folder, "facts.txt"), Path(folder, "staged")
        source.write_text("".join(f"<{s}> <{p}> <{o}> .\n" for s, p, o in [*facts, ("a", "a", "é")]), encoding="utf-8")
        inputs, selection, tokenizer = inputs_of([source], None, 1), Selection(), TOKENIZERS[kind]
        staged.mkdir()
        opened = open_sources(inputs, selection, 1)
        read = read_sources(opened, inputs, staged, selection, strict=True, resources=RESOURCES)
        assert are_few_ready_made(staged, selection)

        few = join(staged, read, Path(folder, "few"), selection, resources=RESOURCES)
        Path(folder, "any").mkdir()
        other = join_any(staged, read, Path(folder, "any"), selection, resources=RESOURCES)
        assert asdict(few.report) == asdict(other.report)
        for name in ("units", "facts", "names"):
            one, two = (parquet.read_table(kb.folder / f"{name}.parquet") for kb in (few, other))
            assert one.equals(two.cast(one.schema)), name

        for name in ("tokens", "other-tokens"):
            Path(folder, name).mkdir()
        encoded = encode_facts(few.folder, tokenizer, "Fact:", Path(folder, "tokens"), resources=RESOURCES)
        many = encode_many(other.folder, tokenizer, "Fact:", Path(folder, "other-tokens"), resources=RESOURCES)
        assert type(encoded) is type(many) is type(open_encoded(Path(folder, "tokens")))
        assert len(encoded) == len(many) and encoded.token_count() == many.token_count()
        for one, two in zip(encoded.read_tokens(0, len(many)), many.read_tokens(0, len(many)), strict=True):
            assert one.tolist() == two.tolist()


@pytest.mark.parametrize("selection", [Selection(), Selection(inverse=True, aliases=True), Selection(limit=50)])
def test_few_claims_give_what_many_give(
    selection: Selection, sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = tmp_path / "facts.txt"
    ready.write_text("<a> <is> <b> .\n")
    inputs = inputs_of([sample, ready], None, 1)
    opened = open_sources(inputs, selection, 1)
    read = read_sources(opened, inputs, tmp_path, selection, strict=True, resources=RESOURCES)
    assert staged_are_few(tmp_path)
    few = join(tmp_path, read, tmp_path / "few", selection, resources=RESOURCES)
    monkeypatch.setattr("refactx.ingest.knowledge.knowledge_base.staged_are_few", lambda staged: False)
    many = join(tmp_path, read, tmp_path / "many", selection, resources=RESOURCES)
    assert few.report.facts > 50
    assert asdict(few.report) == asdict(many.report)
    for name in ("units", "facts", "names"):
        one, two = (parquet.read_table(kb.folder / f"{name}.parquet") for kb in (few, many))
        assert one.equals(two), name


@pytest.mark.parametrize(
    ("line", "selection"),
    [
        ("<a> <b> <c> .", Selection(limit=1)),
        ("<a> <b> <c> .", Selection(inverse=True)),
        ('<http://www.wikidata.org/entity/Q1> <http://www.wikidata.org/prop/direct/P1> "x" .', Selection()),
    ],
)
def test_other_rows_and_options_are_joined_in_the_work_database(
    line: str, selection: Selection, tmp_path: Path
) -> None:
    source = tmp_path / ("facts.txt" if line.startswith("<a") else "claims.nt")
    source.write_text(line + "\n")
    inputs = inputs_of([source], None, 1)
    opened = open_sources(inputs, selection, 1)
    read_sources(opened, inputs, tmp_path, selection, strict=True, resources=RESOURCES)
    assert not are_few_ready_made(tmp_path, selection)
