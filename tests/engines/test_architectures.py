"""What each architecture can do, as docs/reference/architectures.md has it: tiny models with random weights are asked."""

import logging
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from support.channel_runs import EXAMPLES, GRAPH
from support.loop_runs import both, grounded
from support.tiny_asker import LinkedIndex, chat_tokenizer
from support.tiny_model import (
    SURPLUS,
    Eager,
    Passes,
    one_thread,  # noqa: F401
    prompts,
    tiny_fact_tokenizer,
    tiny_tokenizer,
)
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM
from transformers.models.auto import CONFIG_MAPPING

from refactx.ask.answer import Answer
from refactx.ask.asker import Asker
from refactx.ask.prompt import Prompt
from refactx.engines.engine import Engine, Feed, TreeReading
from refactx.engines.transformers.engine import PackedEngine
from refactx.engines.transformers.rows import TransformersModel

PATH = Path(__file__).parents[2] / "docs" / "reference" / "architectures.md"
WINDOW = {"sliding_window": 6}
EXPERTS = {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
ROUTED = {"n_routed_experts": 4, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1}
STATES = {"mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_expand": 2}
LINEAR = {f"linear_{kind}": 2 for kind in ("num_key_heads", "num_value_heads")} | {
    f"linear_{kind}_head_dim": 8 for kind in ("key", "value")
}
HEADS = {"n_embd": 16, "n_head": 2, "n_layer": 2}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen3": {},
    "qwen3_moe": EXPERTS,
    "phi3": WINDOW,
    "granite": {},
    "olmo2": {},
    "glm": {},
    "gpt2": {**HEADS, "n_positions": 512},
    "gpt_neox": {},
    "gptj": {**HEADS, "rotary_dim": 4},
    "opt": {"ffn_dim": 32, "word_embed_proj_dim": 16, "max_position_embeddings": 512},
    "mistral": WINDOW,
    "mixtral": {**WINDOW, **EXPERTS},
    "ministral": WINDOW,
    "qwen2": {**WINDOW, "use_sliding_window": True, "max_window_layers": 1},
    "gemma2": {**WINDOW, "query_pre_attn_scalar": 8},
    "gemma3_text": {**WINDOW, "query_pre_attn_scalar": 8},
    "gpt_oss": {**WINDOW, **EXPERTS},
    "cohere2": WINDOW,
    "olmo3": WINDOW,
    "starcoder2": WINDOW,
    "exaone4": {**WINDOW, "layer_types": ["sliding_attention", "full_attention"]},
    "llama4_text": {**EXPERTS, "attention_chunk_size": 6, "intermediate_size_mlp": 32},
    "smollm3": {},
    "glm4_moe": {**EXPERTS, **ROUTED},
    "minimax_m2": EXPERTS,
    "bloom": {"n_head": 2, "n_layer": 2},
    "mpt": {"d_model": 16, "n_heads": 2, "n_layers": 2},
    "qwen3_next": {**LINEAR, **EXPERTS, "layer_types": ["linear_attention", "full_attention"]},
    "qwen3_5_text": {**LINEAR, "layer_types": ["linear_attention", "full_attention"]},
    "qwen3_5_moe_text": {
        **LINEAR,
        **EXPERTS,
        "layer_types": ["linear_attention", "full_attention"],
        "shared_expert_intermediate_size": 16,
    },
    "olmo_hybrid": {**LINEAR, "layer_types": ["linear_attention", "full_attention"]},
    "granitemoehybrid": {**STATES, "num_local_experts": 0, "layer_types": ["mamba", "attention"]},
    "falcon_h1": {**STATES, "mamba_d_ssm": 32},
    "bamba": {**STATES, "attn_layer_indices": [1]},
    "nemotron_h": {
        "mamba_num_heads": 4,
        "mamba_head_dim": 8,
        "ssm_state_size": 8,
        "n_groups": 1,
        "layers_block_type": ["mamba", "attention"],
    },
    "zamba2": {
        "mamba_d_state": 8,
        "mamba_headdim": 8,
        "mamba_ngroups": 1,
        "n_mamba_heads": 4,
        "layers_block_type": ["mamba", "hybrid"],
        "num_mem_blocks": 1,
    },
    "lfm2": {"full_attn_idxs": [1]},
    "lfm2_moe": {**EXPERTS, "num_dense_layers": 1, "layer_types": ["conv", "full_attention"]},
    "jamba": {**EXPERTS, "mamba_d_state": 8, "mamba_dt_rank": 4, "attn_layer_period": 2, "attn_layer_offset": 1},
    "mamba": {"state_size": 4},
    "falcon_mamba": {"state_size": 4},
    "mamba2": {"state_size": 8, "num_heads": 4, "head_dim": 8, "n_groups": 1},
    "recurrent_gemma": {"num_hidden_layers": 3, "lru_width": 16, "attention_window_size": 6},
    "minimax": {**EXPERTS, "layer_types": ["linear_attention", "full_attention"], "block_size": 4},
    "rwkv": {"attention_hidden_size": 16},
    "t5": {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2},
    "bart": {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16},
}
"""Architectures, as Transformers' configs call them, with what makes them tiny and gives them their kind of layers."""
ASKED, MOST = ("Fact:", "What? Fact:"), 12


def tiny(name: str) -> Any:
    config = CONFIG_MAPPING[name]
    torch.manual_seed(0)
    tokenizer = tiny_tokenizer()
    sizes = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "head_dim": 8,
    }
    common = sizes | {"num_key_value_heads": 1} if name not in ("t5", "bart") else {}
    ends = {f"{kind}_token_id": getattr(tokenizer, f"{kind}_token_id") for kind in ("bos", "eos", "pad")}
    more = {"vocab_size": len(tokenizer) + SURPLUS, "initializer_range": 0.5, "decoder_start_token_id": 0}
    made = config(**{**common, **ends, **more, **ARCHITECTURES[name]})
    kind: Any = AutoModelForSeq2SeqLM if made.is_encoder_decoder else AutoModelForCausalLM
    return kind.from_config(made).eval()


def asker(model: Any) -> Asker:
    index = LinkedIndex(tiny_fact_tokenizer(), GRAPH)
    return Asker(model, chat_tokenizer(), index, Prompt(system="Be true.", channel=EXAMPLES))


def texts(answers: Any) -> list[str]:
    return [answer.text for answer in answers if isinstance(answer, Answer)]


def has_same_ids(model: Any) -> bool:
    """Whether texts are those of Transformers' own loop, alone, sampled and in a batch, and have facts."""
    given, found = [Eager(1.5, pieces=True, end=0.5)], 0
    for some, options in ((ASKED, {"do_sample": False}), (ASKED[:1], {"do_sample": True, "top_k": 5})):
        inputs = prompts(*some)
        ours, theirs = both(model, inputs, given, max_new_tokens=MOST, **options)
        if ours.tolist() != theirs.tolist():
            return False
        begin = 1 if model.config.is_encoder_decoder else inputs["input_ids"].shape[1]
        found += sum(map(len, grounded().facts(ours, prompt_length=begin)))
    return found > 0


def reads_chains(model: Any, engine: Engine | None) -> bool:
    """Whether ids without an alternative are read in one pass."""
    if engine is None:
        return False
    sequence = engine.prefill([5, 6, 7])
    with Passes(model) as passes:
        engine.feed([(sequence, Feed([8, 9, 10]))])
    return passes.number == 1


def page() -> dict[str, str]:
    """What the page says of each architecture: the cells of its group in the table, in the order of the lists."""
    text = PATH.read_text(encoding="utf-8")
    table = text.partition("| models |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = dict(line.removeprefix("| ").removesuffix(" |").split(" | ", 1) for line in table)
    lists = re.findall(r"^\* \*\*([\w ]+)\*\*: ((?:.|\n  )*)", text.partition("| models |")[2], re.M)
    return {name: cells[group] for group, names in lists if group in cells for name in re.split(r",\s+", names)}


def row(name: str, caplog: pytest.LogCaptureFixture) -> str:
    """What the page has to say of an architecture."""
    model = tiny(name)
    engine = TransformersModel(model, chat_tokenizer()).engine
    alone = [asker(model).ask(text, max_new_tokens=MOST) for text in ASKED]
    has_channel = "not chosen by the question" not in caplog.text
    together = asker(model).ask_all(ASKED, batch_size=2, max_new_tokens=MOST)
    read_as = "one row" if isinstance(engine, PackedEngine) else "batches" if engine else "loop"
    cells = (
        has_same_ids(model),
        has_channel,
        engine is not None and engine.trees >= TreeReading.ROWS,
        reads_chains(model, engine),
        engine is not None and engine.can_forget,
        texts(together) == texts(alone),
    )
    return " | ".join([read_as, *("yes" if cell else "no" for cell in cells)])


@pytest.mark.long
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_page_says_what_an_architecture_can_do(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "refactx"):
        found = row(name, caplog)
    assert page()[name] == found, f"{PATH} has {name} in a group that does something else"


def test_the_page_has_no_other_architectures() -> None:
    assert set(page()) == set(ARCHITECTURES)
