"""A real vLLM over the demo model, in this process or in one of its own, and a check of the facts in what it writes."""

import json
import random
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TRIGGER = re.compile(r"(?<!\w)Fact:(?=\s|<|$)")
FACT = re.compile(r"\s*(<[^<>]*> <[^<>]*> <[^<>]*> \.)")
ROWS = 24


def engine(model: str, runner: str, **options: Any) -> Any:
    """Start vLLM with the logits processor for a model runner, `V1` or `V2`, over the index of the environment."""
    from vllm import LLM

    small: dict[str, Any] = {
        "dtype": "float32",
        "enforce_eager": True,
        "max_model_len": 512,
        "max_num_seqs": ROWS,
        "max_num_batched_tokens": 128,  # the prompts of 24 requests come in parts
        "kv_cache_memory_bytes": 3 << 27,  # room for 8,600 ids, fewer than 24 requests have: some are preempted
    }
    processor = f"refactx.engines.vllm:FactLogitsProcessor{runner}"
    return LLM(model, logits_processors=[processor], **{**small, **options})


def prompts(facts: Sequence[str], count: int, seed: int) -> list[str]:
    """Prompts that show three facts each, and end in a trigger."""
    dice = random.Random(seed)
    return ["".join(f"Fact: {fact}\n" for fact in dice.sample(facts, 3)) + "Fact:" for _ in range(count)]


@dataclass
class Count:
    """The facts in texts: whole ones, whole ones that do not exist, and triggers before something else."""

    facts: int = 0
    unknown: int = 0
    other: int = 0

    def add(self, text: str, is_cut: bool, known: frozenset[str]) -> None:
        """Read a text that continues a prompt which ends in a trigger. `is_cut`: it may end within a fact."""
        text, found = "Fact:" + text, list[str]()
        triggers = list(TRIGGER.finditer(text))
        for number, trigger in enumerate(triggers):
            rest = text[trigger.end() :]
            if match := FACT.match(rest):
                found.append(match[1])
            elif not (is_cut and number == len(triggers) - 1 and any(f.startswith(_begun(rest)) for f in known)):
                self.other += 1
        self.facts += len(found)
        self.unknown += sum(fact not in known for fact in found)
        assert len(set(found)) == len(found), "a fact comes twice in a text"


def _begun(rest: str) -> str:
    return rest.lstrip().rstrip("�").rstrip()


def main(job: Mapping[str, Any]) -> None:
    """Write the texts of a job as JSON: `model`, `runner`, `prompts`, `extra` for each, `tokens`, `out`."""
    from vllm import SamplingParams

    llm = engine(job["model"], job["runner"])
    params = [SamplingParams(temperature=1.0, max_tokens=job["tokens"], extra_args=extra) for extra in job["extra"]]
    outputs = [request.outputs[0] for request in llm.generate(job["prompts"], params, use_tqdm=False)]
    texts = [(output.text, output.finish_reason) for output in outputs]
    Path(job["out"]).write_text(json.dumps(texts), encoding="utf-8")


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
