"""A tokenizer as an index needs it: plain text to ids and ids to bytes, without added tokens and post-processors."""

import json
from typing import Any

import numpy as np
import pytest
from support.tiny_model import tiny_tokenizer
from tokenizers import Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE, WordLevel

from refactx.errors import ModelError
from refactx.tokenizer import FactTokenizer

TEXT = " <Danny Boyle> <date of birth>  <1956-10-20> é 中 <|im_end|> [X]"


def byte_level() -> dict[str, Any]:
    """The tiny model's `tokenizer.json`."""
    form: dict[str, Any] = json.loads(tiny_tokenizer().backend_tokenizer.to_str())
    return form


def sentence_piece() -> dict[str, Any]:
    """A tokenizer that writes spaces as SentencePiece does, and unknown characters as bytes."""
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁<>DanyBoleftirh0123456789-d", "▁<", "an", "▁D"]
    merges = [("▁", "<"), ("a", "n"), ("▁", "D")]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(BPE(vocabulary, merges, byte_fallback=True, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    form: dict[str, Any] = json.loads(tokenizer.to_str())
    return form


FORMS = {"byte level": byte_level(), "SentencePiece": sentence_piece()}


@pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
def test_text_becomes_ids_and_back_and_leading_spaces_are_recognised(form: dict[str, Any]) -> None:
    tokenizer = FactTokenizer(json.dumps(form))
    ids = tokenizer.encode(TEXT)
    assert tokenizer.decode(ids) == TEXT
    begins = [tokenizer.token_bytes[number].startswith(b" ") for number in ids]
    assert any(begins) and not all(begins)
    assert tokenizer.begin_with_space(np.array(ids, np.int32)).tolist() == begins
    assert tokenizer.begin_with_space(np.array([], np.int32)).tolist() == []


@pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
def test_added_tokens_and_post_processors_are_left_out(form: dict[str, Any]) -> None:
    whole = Tokenizer.from_str(json.dumps(form))
    whole.add_special_tokens(["<|im_end|>", "<s>"])
    whole.add_tokens(["[X]"])
    whole.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", whole.token_to_id("<s>"))])
    whole.enable_truncation(3)
    whole.enable_padding(length=100)
    assert len(whole.encode(TEXT).ids) == 100
    tokenizer, bare = FactTokenizer(whole.to_str()), FactTokenizer(json.dumps({**form, "added_tokens": []}))
    assert tokenizer.encode(TEXT) == bare.encode(TEXT) and tokenizer.fingerprint == bare.fingerprint
    control, text = (tokenizer.token_bytes[whole.token_to_id(token)] for token in ("<|im_end|>", "[X]"))
    assert (control, text) == (b"", b"[X]")


@pytest.mark.parametrize(
    "part",
    [{"added_tokens": None}, {"post_processor": {"type": "OfTheFuture"}}, {"padding": {"strategy": "New"}}],
    ids=str,
)
def test_parts_that_an_index_does_not_need_may_be_unreadable(part: dict[str, Any]) -> None:
    form = byte_level()
    tokenizer, plain = FactTokenizer(json.dumps({**form, **part})), FactTokenizer(json.dumps(form))
    assert tokenizer.encode(TEXT) == plain.encode(TEXT) and tokenizer.fingerprint == plain.fingerprint
    with pytest.raises(ModelError, match=r"not a tokenizer\.json"):
        FactTokenizer(json.dumps({**form, **part, "model": {"type": "OfTheFuture"}}))


def test_facts_are_written_alike_with_nfc_and_without_and_in_no_other_way() -> None:
    def normalised(normaliser: dict[str, Any] | None) -> FactTokenizer:
        return FactTokenizer(json.dumps({**byte_level(), "normalizer": normaliser}))

    nfc, lower = {"type": "NFC"}, {"type": "Lowercase"}
    plain, many = normalised(None), {"type": "Sequence", "normalizers": [nfc]}
    for one in (nfc, many):
        assert normalised(one).fingerprint_of_facts == plain.fingerprint_of_facts
        assert normalised(one).fingerprint != plain.fingerprint
    for other in (lower, {"type": "NFKC"}, {**many, "normalizers": [nfc, lower]}):
        assert normalised(other).fingerprint_of_facts != plain.fingerprint_of_facts


def test_distinct_texts_have_the_same_ids_for_every_kind_of_model() -> None:
    texts = [f" word{number}" for number in range(300)] * 2
    for form in FORMS.values():
        tokenizer = FactTokenizer(json.dumps(form))
        assert tokenizer.encode_distinct(texts) == tokenizer.encode_batch(texts) == [tokenizer.encode(t) for t in texts]
    words = Tokenizer(WordLevel({"<unk>": 0, "<a>": 1}, unk_token="<unk>"))  # a model without a cache
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    assert FactTokenizer(words.to_str()).encode_distinct(["<a>", "b"]) == [[1], [0]]


def test_ids_too_high_for_rows_are_refused() -> None:
    words = Tokenizer(WordLevel({"<a>": 0, "<b>": 1 << 24}, unk_token="<a>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = FactTokenizer(words.to_str())
    with pytest.raises(ModelError, match="an id of 16,777,216, which is not below"):
        tokenizer.begin_with_space(np.array(tokenizer.encode("<a> <b>"), np.int32))
    with pytest.raises(ModelError, match="an id of 16,777,216, which is not below"):
        _ = tokenizer.token_bytes
