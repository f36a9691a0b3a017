"""vLLM's own loaders and validators take the classes, each for its model runner; errors at start-up are one line.

Run by `make test-vllm`, in an environment that has vLLM.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from support.command import run_refactx
from support.doc_pages import ROOT
from support.tiny_model import FACTS, tiny_tokenizer
from support.vllm.engine import Count, prompts

import refactx
from refactx.engines.vllm.text import open_facts

vllm = pytest.importorskip("vllm")
pytestmark = pytest.mark.slow

V1, V2 = (f"refactx.engines.vllm:FactLogitsProcessor{runner}" for runner in ("V1", "V2"))


def wrong() -> Any:
    return vllm.SamplingParams(extra_args={"refactx_facts": "perhaps"})


def config_of(model: Path) -> Any:
    from vllm.config import ModelConfig

    return SimpleNamespace(model_config=ModelConfig(model=str(model)), speculative_config=None)


def test_the_loader_of_v1_takes_its_class_alone() -> None:
    from vllm.v1.sample.logits_processor import validate_logits_processors_parameters as validate

    validate([V1], vllm.SamplingParams())
    with pytest.raises(vllm.exceptions.VLLMValidationError, match="refactx_facts is 'perhaps'"):
        validate([V1], wrong())
    with pytest.raises(ValueError, match="must be a subclass of LogitsProcessor"):
        validate([V2], vllm.SamplingParams())


def test_the_loader_of_v2_takes_its_class_alone() -> None:
    from vllm.v1.worker.gpu.sample.logits_processor import build_custom_logits_processors_params_validator as validator

    validator([V2])(vllm.SamplingParams())
    with pytest.raises(vllm.exceptions.VLLMValidationError, match="refactx_facts is 'perhaps'"):
        validator([V2])(wrong())
    with pytest.raises(ValueError, match="is not a subclass of"):
        validator([V1])


def test_v2_builds_the_class_and_it_reads_vllms_own_state(
    sample_url: str, smollm2_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vllm.v1.worker.cpu.buffer_utils import UvaBuffer as CpuBuffer
    from vllm.v1.worker.gpu.sample.logits_processor import LogitsContext, build_custom_logits_processors
    from vllm.v1.worker.gpu.states import RequestState

    # As vLLM's own CPU worker does: buffers without pinned memory.
    monkeypatch.setattr("vllm.v1.worker.gpu.buffer_utils.UvaBuffer", CpuBuffer)
    monkeypatch.setenv("REFACTX_DB", sample_url)
    states = RequestState(4, 64, 64, 0, 49152, torch.device("cpu"))
    (processor,) = build_custom_logits_processors(config_of(smollm2_folder), states, False, [V2])
    tokens = refactx.open_index(db=sample_url).tokenizer.encode("So.\nFact:")
    states.prompt_len.np[2] = states.prefill_len.np[2] = len(tokens)
    states.all_token_ids.gpu[2, : len(tokens)] = torch.tensor(tokens, dtype=torch.int32)
    assert processor.add_request(2, vllm.SamplingParams())
    context = LogitsContext(
        expanded_idx_mapping=torch.tensor([2], dtype=torch.int32),
        idx_mapping=torch.tensor([2], dtype=torch.int32),
        idx_mapping_np=np.array([2], np.int32),
        expanded_local_pos=torch.tensor([0], dtype=torch.int32),
        input_ids=torch.tensor(tokens[-1:], dtype=torch.int32),
        pos=torch.tensor([len(tokens) - 1]),
        seq_lens_upper_bound_np=np.array([len(tokens)], np.int32),
    )
    masked = processor.apply(torch.zeros(1, 49152), context)
    with refactx.open_index(db=sample_url) as index:
        assert torch.equal((masked[0] == 0).nonzero()[:, 0], torch.from_numpy(index.children([]).tokens).long())


def test_an_index_for_another_tokenizer_is_refused_at_start_up(
    db_url: str, tmp_path: Path, smollm2_folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tiny_tokenizer().save_pretrained(tmp_path / "tiny")
    (tmp_path / "facts.txt").write_text("".join(f"{fact} .\n" for fact in FACTS), encoding="utf-8")
    done = run_refactx("ingest", tmp_path / "facts.txt", "--tokenizer", tmp_path / "tiny", "--db", db_url)
    assert done.returncode == 0, done.stderr
    monkeypatch.setenv("REFACTX_DB", db_url)
    with pytest.raises(refactx.TokenizerMismatchError, match="built for another tokenizer"):
        open_facts(config_of(smollm2_folder))
    assert len(caplog.messages[-1].splitlines()) == 1
    monkeypatch.setenv("REFACTX_INDEX", "missing")
    with pytest.raises(refactx.IndexNotFoundError, match="missing"):
        open_facts(config_of(smollm2_folder))


def test_the_v2_runner_writes_facts_that_exist_in_triton_s_interpreter(
    sample_url: str, smollm2_folder: Path, tmp_path: Path
) -> None:
    """It takes half a second for each id of a request: four requests, of which the last is free."""
    with refactx.open_index(db=sample_url) as index:
        known = frozenset(fact.text for fact in index.all_facts())
    job = {"model": str(smollm2_folder), "runner": "V2", "tokens": 60, "out": str(tmp_path / "out.json")}
    job |= {"prompts": prompts(sorted(known), 4, seed=5), "extra": [{}, {}, {}, {"refactx_facts": 0}]}
    (tmp_path / "job.json").write_text(json.dumps(job), encoding="utf-8")
    paths = [ROOT / "tests" / "support" / "vllm" / "interpreted_triton", ROOT / "tests", ROOT]
    done = subprocess.run(
        [sys.executable, "-m", "support.vllm.engine", str(tmp_path / "job.json")],
        env={
            **os.environ,
            "REFACTX_DB": sample_url,
            "VLLM_USE_V2_MODEL_RUNNER": "1",
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
        },
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Using V2 Model Runner" in done.stdout + done.stderr
    count = Count()
    for text, reason in json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))[:3]:
        count.add(text, reason == "length", known)
    print(f"V2 model runner: {count}")
    assert count.facts
    assert not count.unknown + count.other
