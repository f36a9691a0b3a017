"""Facts of any text are joined and encoded as the tokenizer encodes each of them."""

import json
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiny_model import tiny_tokenizer

from refactx.fact import clean_part, verbalise
from refactx.ingest.encoding import encode_facts, open_encoded
from refactx.ingest.knowledge.knowledge_base import join
from refactx.ingest.parsers.formats import open_sources, read_sources
from refactx.ingest.source_options import Selection
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


def kept(tokenizer: FactTokenizer, fact: str) -> bool:
    return tokenizer.decode(tokenizer.encode_after("Fact:", fact)) == fact


@pytest.mark.long
@pytest.mark.parametrize("kind", sorted(TOKENIZERS))
@settings(max_examples=12, deadline=None)
@given(facts=lines)
def test_encoded_are_the_distinct_facts_that_the_tokenizer_keeps(kind: str, facts: list[tuple[str, str, str]]) -> None:
    facts, tokenizer = [*facts, ("a", "a", "é")], TOKENIZERS[kind]
    with TemporaryDirectory() as folder:
        source, staged, tokens = (Path(folder, name) for name in ("facts.txt", "staged", "tokens"))
        source.write_text("".join(f"<{s}> <{p}> <{o}> .\n" for s, p, o in facts), encoding="utf-8")
        inputs, selection = inputs_of([source], None, 1), Selection()
        staged.mkdir()
        tokens.mkdir()
        opened = open_sources(inputs, selection, 1)
        read = read_sources(opened, inputs, staged, selection, strict=True, resources=RESOURCES)
        joined = join(staged, read, Path(folder, "joined"), selection, resources=RESOURCES)
        encoded = encode_facts(joined.folder, tokenizer, "Fact:", tokens, resources=RESOURCES)

        distinct = {verbalise(*map(clean_part, fact)) for fact in facts}
        assert (joined.report.facts, joined.report.kept) == (len(distinct), len(distinct))
        assert joined.report.dropped == ({"duplicate": n} if (n := len(facts) - len(distinct)) else {})
        expected = sorted(tokenizer.encode_after("Fact:", fact) for fact in distinct if kept(tokenizer, fact))
        for found in (encoded, open_encoded(tokens)):
            ids, offsets = found.read_tokens(0, len(found))
            assert [ids[low:high].tolist() for low, high in pairwise(offsets)] == expected
            assert found.token_count() == len(ids)
