"""Facts whose text a tokenizer changes are left out and counted; a tokenizer that keeps no plain text is refused."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from psycopg import connect
from support.ingest.quiet import QUIET
from support.shared_index import opened
from support.tiny_model import tiny_tokenizer
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from tokenizers import normalizers as norm

from refactx.errors import ModelError
from refactx.index.open import open_index
from refactx.index.verify import verify
from refactx.ingest import append, ingest
from refactx.ingest.encoding import EncodedFacts, encode_facts
from refactx.ingest.knowledge.knowledge_base import KnowledgeBase, join
from refactx.ingest.parsers.formats import open_sources, read_sources
from refactx.ingest.source_options import Selection
from refactx.ingest.sources import inputs_of
from refactx.models.loading import load_tokenizer
from refactx.tokenizer import FactTokenizer

FACTS = {
    "<Ann> <is> <Bob> .",
    "<Café> <is> <Straße> .",
    "<H₂O> <is> <water> .",
    "<ŉ> <is> <H2O> .",
    "<x字y> <is> <☃ x> .",
    "<a▁b> <is> <Bob> .",
}
CHARACTERS = [chr(code) for code in range(0x21, 0x250) if chr(code).isprintable()]


def byte_level(normaliser: Any = None, prefix: bool = False) -> Tokenizer:
    form = json.loads(tiny_tokenizer().backend_tokenizer.to_str())
    found = Tokenizer.from_str(json.dumps(form))
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    if normaliser is not None:
        found.normalizer = normaliser
    return found


def pieces(*, fallback: bool = False, unknown: str | None = "<unk>", unigram: bool = False) -> Tokenizer:
    """SentencePiece: spaces as `▁`, at the beginning too, and characters up to ɏ."""
    vocabulary = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256 * fallback)), "▁", *CHARACTERS]
    model: Any = models.BPE(
        vocab={piece: number for number, piece in enumerate(vocabulary)},
        merges=[],
        unk_token=unknown,
        byte_fallback=fallback,
    )
    if unigram:
        model = models.Unigram([(piece, -1.0) for piece in vocabulary], unk_id=0, byte_fallback=fallback)
    found = Tokenizer(model)
    found.normalizer = norm.Sequence([norm.Prepend("▁"), norm.Replace(" ", "▁")])
    found.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return found


def metaspace() -> Tokenizer:
    found = pieces(fallback=True)
    found.normalizer, found.pre_tokenizer = norm.NFC(), pre_tokenizers.Metaspace()
    return found


def word_piece(lower: bool = False) -> Tokenizer:
    vocabulary = ["[UNK]", *CHARACTERS, *(f"##{character}" for character in CHARACTERS)]
    found = Tokenizer(models.WordPiece({piece: n for n, piece in enumerate(vocabulary)}, unk_token="[UNK]"))
    found.normalizer, found.pre_tokenizer = norm.BertNormalizer(lowercase=lower), pre_tokenizers.BertPreTokenizer()
    found.decoder = decoders.WordPiece()
    return found


KEPT: dict[str, tuple[Callable[[], Tokenizer], str]] = {
    "bytes": (byte_level, ""),
    "prefix space": (lambda: byte_level(prefix=True), ""),
    "NFC": (lambda: byte_level(norm.NFC()), ""),
    "NFKC": (lambda: byte_level(norm.NFKC()), "₂ŉ"),
    "NFD": (lambda: byte_level(norm.NFD()), "é"),
    "no accents": (lambda: byte_level(norm.Sequence([norm.NFD(), norm.StripAccents(), norm.NFC()])), "é"),
    "replace": (lambda: byte_level(norm.Replace("ß", "ss")), "ß"),
    "bytes for what is unknown": (lambda: pieces(fallback=True), "▁"),
    "metaspace": (metaspace, "▁"),
    "unknown": (pieces, "₂字☃▁"),
    "dropped": (lambda: pieces(unknown=None), "₂字☃▁"),
    "unigram": (lambda: pieces(unigram=True), "₂字☃▁"),
}
"""Tokenizers, each with the characters that it does not keep."""
REFUSED: dict[str, Callable[[], Tokenizer]] = {
    "Lowercase": lambda: byte_level(norm.Lowercase()),
    "Replace": lambda: byte_level(norm.Replace(Regex("[0-9]"), "0")),
    "BertNormalizer": word_piece,
    "BertNormalizer,": lambda: word_piece(lower=True),
}


def knowledge_of(folder: Path) -> KnowledgeBase:
    (folder / "facts.txt").write_text("\n".join(sorted(FACTS)) + "\n", encoding="utf-8")
    inputs, selection, staged = inputs_of([folder / "facts.txt"], None, 1), Selection(), folder / "staged"
    staged.mkdir()
    read = read_sources(open_sources(inputs, selection, 1), inputs, staged, selection, strict=True, resources=QUIET)
    return join(staged, read, folder / "knowledge", selection, resources=QUIET)


def texts(encoded: EncodedFacts, tokenizer: FactTokenizer) -> set[str]:
    tokens, offsets = encoded.read_tokens(0, len(encoded))
    bounds = pairwise(offsets)
    return {tokenizer.decode(tokens[low:high].tolist()).strip() + " ." for low, high in bounds}


def test_only_facts_that_a_tokenizer_changes_are_left_out(tmp_path: Path) -> None:
    knowledge = knowledge_of(tmp_path)
    for name, (make, lost) in KEPT.items():
        tokenizer = FactTokenizer(make().to_str())
        tokenizer.check_text()
        (work := tmp_path / name).mkdir()
        found = texts(encode_facts(knowledge.folder, tokenizer, "Fact:", work, resources=QUIET), tokenizer)
        assert found == {fact for fact in FACTS if not set(fact) & set(lost)}, name
        assert bool(tokenizer.loss) == bool(set(lost) - {"▁"}), name


@pytest.mark.parametrize("normaliser", REFUSED)
def test_a_tokenizer_that_changes_plain_text_is_refused_by_name(normaliser: str, tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    REFUSED[normaliser]().save(str(file))
    tokenizer, name = load_tokenizer(str(file))
    with pytest.raises(ModelError, match=f"{name} cannot hold facts.*normaliser {normaliser.strip(',')}"):
        tokenizer.check_text()


def test_such_facts_are_counted_and_an_older_index_with_them_is_not_sound(module_url: str, tmp_path: Path) -> None:
    file, more, none = (tmp_path / name for name in ("facts.txt", "more.txt", "none.txt"))
    file.write_text("\n".join(sorted(FACTS)) + "\n", encoding="utf-8")
    more.write_text("<m²> <is> <area> .\n<A> <is> <B> .\n", encoding="utf-8")
    none.write_text("<m²> <is> <area> .\n", encoding="utf-8")
    tokenizer = FactTokenizer(byte_level(norm.NFKC()).to_str())
    given: Any = {"index": "nfkc", "work": tmp_path / "work", "resources": QUIET}
    new: Any = {**given, "tokenizer": tokenizer, "tokenizer_name": "tiny", "replace": True}
    reason = "text changed by the tokenizer"
    with opened(module_url) as database:
        with pytest.raises(ModelError, match=r"changes the texts of all facts \(normaliser NFKC"):
            ingest([none], database, **new)
        report = ingest([file], database, **new).report
        assert (report.facts, report.kept, report.dropped) == (4, 4, {reason: 2})
        changed = append([more], database, **given)
        assert (changed.facts, changed.report.dropped) == (1, {reason: 1})
    with open_index("nfkc", module_url) as index:
        assert index.facts == 5 and verify(index).sound
    with connect(module_url) as connection:
        connection.execute("UPDATE refactx.indexes SET report = report - 'texts_checked' WHERE name = 'nfkc'")
    with open_index("nfkc", module_url) as index:
        assert "normaliser NFKC" in verify(index).faults[0]
