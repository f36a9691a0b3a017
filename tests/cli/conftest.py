"""A tiny model and an index for it, for tests of commands."""

from pathlib import Path

import pytest
from support.ingest.quiet import QUIET
from support.tiny_model import tiny_model, tiny_tokenizer
from transformers import PreTrainedTokenizerFast

from refactx.postgres.database import Database
from refactx.tokenizer import FactTokenizer

LONG = 20_000
"""Tokens, which take the tiny model a minute."""


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model, with room for long texts and a chat template that ends in the question."""
    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tiny_tokenizer().backend_tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    tokenizer.chat_template = "{{ messages[-1]['content'] + ' ' }}"
    tokenizer.save_pretrained(folder)
    model = tiny_model()
    model.config.max_position_embeddings = LONG + 1000
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def url(db_url: str, tmp_path: Path, tiny_folder: Path) -> str:
    """A database with three facts for the tiny model."""
    from refactx.ingest import ingest

    facts = tmp_path / "facts.txt"
    facts.write_text("<Ann> <p> <b> .\n<Ann> <p> <c> .\n<Bé> <p> <in> .\n")
    database = Database(db_url)
    try:
        tokenizer = FactTokenizer.from_file(tiny_folder / "tokenizer.json")
        ingest(
            [facts],
            database,
            index="default",
            tokenizer=tokenizer,
            tokenizer_name="tiny",
            work=tmp_path / "work",
            resources=QUIET,
        )
    finally:
        database.close()
    return db_url
