"""docs/engines.md: its example runs as it stands, and writes what Transformers' own loop writes."""

import re
from pathlib import Path
from typing import Any

import torch
from support.tiny_model import tiny_index, tiny_model, tiny_tokenizer
from transformers import LogitsProcessorList

from refactx.engines.hf.processor import FactLogitsProcessor

PAGE = Path(__file__).parent.parent.parent / "docs" / "engines.md"


def test_the_example_writes_what_generate_writes() -> None:
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]
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
