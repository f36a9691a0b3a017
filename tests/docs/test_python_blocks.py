"""Every Python block of README.md and docs/ runs as it stands. The blocks of a page share their names."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from support.doc_pages import DOCS, PAGES, blocks, name_of
from support.shared_index import opened
from support.tiny_model import tiny_index, tiny_model, tiny_tokenizer
from transformers import LogitsProcessorList

from refactx import FactLogitsProcessor
from refactx.share.export import export_index

ENGINES = DOCS / "how-to" / "engines.md"
CLIENTS = DOCS / "how-to" / "clients.md"  # tests/server runs them
SHOWN = [DOCS / "tutorials" / name for name in ("from-python.md", "your-own-graph.md")]  # what they print too
SPARK = DOCS / "how-to" / "spark.md"  # tests/ingest/cluster runs them
RUN = [page for page in PAGES if blocks(page, "python") and page not in (ENGINES, CLIENTS, SPARK)]


def test_there_are_pages_with_python() -> None:
    assert len(RUN) >= 3
    assert all("refactx" in "".join(blocks(page, "python")) for page in RUN)


@pytest.mark.long
@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_the_blocks_run(
    page: Path,
    sample_url: str,
    smollm2_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("REFACTX_DB", sample_url)
    monkeypatch.setitem(os.environ, "OMP_WAIT_POLICY", "PASSIVE")
    if "wikidata.refactx" in "".join(blocks(page, "python")):
        with opened(sample_url) as database:
            export_index(database, "default", tmp_path / "wikidata.refactx")
        monkeypatch.chdir(tmp_path)
    names, outputs = dict[str, Any](), list[str]()
    for code in blocks(page, "python"):
        exec(compile(code.replace("path/to/model", str(smollm2_folder)), name_of(page), "exec"), names)
        outputs.append(capsys.readouterr().out)
    printed = "".join(outputs)
    assert printed.strip()
    if page in SHOWN:  # numbers differ, since the page's index has inverse facts
        shown = [_without_numbers(text) for text in blocks(page, "text")]
        assert shown == [_without_numbers(text) for text in outputs] and all(shown)
    if "grounded.facts" in "".join(blocks(page, "python")):
        assert re.search(r"^<Alaska \(state of the United States of America\)> <.*> \.$", printed, re.MULTILINE)


def _without_numbers(text: str) -> str:
    return re.sub(r"\d+", "N", text.strip())


def test_the_bare_decoder_writes_what_generate_writes() -> None:
    (code,) = blocks(ENGINES, "python")
    index, model = tiny_index(["<Ann> <p> <b>", "<Ann> <q> <c>", "<Bé> <p> <in>"]), tiny_model()
    prompt = tiny_tokenizer()("a Fact:")["input_ids"]
    names: dict[str, Any] = {"index": index, "model": model, "prompt": prompt}
    with torch.no_grad():
        exec(code, names)
    assert names["facts"]
    processor = FactLogitsProcessor(index, tiny_tokenizer())
    out = model.generate(
        torch.tensor([prompt]),
        **{"max_new_tokens": 60, "min_new_tokens": 60, "do_sample": False},
        logits_processor=LogitsProcessorList([processor]),
    )
    # `generate` with a minimum of tokens bans the end of sequence, the example does not: up to there they agree.
    end = tiny_tokenizer().eos_token_id
    own = names["ids"][: names["ids"].index(end)] if end in names["ids"] else names["ids"]
    assert out[0].tolist()[: len(own)] == own
