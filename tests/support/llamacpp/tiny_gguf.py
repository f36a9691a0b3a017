"""A tiny random model as a GGUF file, with the tiny tokenizer: tests of llama.cpp without trained weights."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from support.tiny_model import tiny_tokenizer

LAYERS, WIDTH, HEADS, INNER = 2, 64, 2, 96
TEMPLATE = (
    "{% for message in messages %}{{ bos_token + message['role'] + ': ' + message['content'] + eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}{{ bos_token + 'assistant: ' }}{% endif %}"
)
NORMAL, CONTROL = 1, 3  # types of tokens
STATE, KERNEL, RANK = 8, 4, 4
FIELDS: dict[str, dict[str, int]] = {
    "gemma2": {
        "attention.sliding_window": 6,
        "attention.key_length": WIDTH // HEADS,
        "attention.value_length": WIDTH // HEADS,
    },
    "mamba": {
        f"ssm.{n}": v
        for n, v in zip(
            ("conv_kernel", "inner_size", "state_size", "time_step_rank"), (KERNEL, 2 * WIDTH, STATE, RANK), strict=True
        )
    },
    "lfm2": {"shortconv.l_cache": 3},
}
"""What an architecture needs: a window, the sizes of state-space layers, or of short convolutions."""
MAMBA: dict[str, tuple[int, ...]] = {
    "ssm_in.weight": (4 * WIDTH, WIDTH),
    "ssm_conv1d.weight": (2 * WIDTH, KERNEL),
    "ssm_conv1d.bias": (2 * WIDTH,),
    "ssm_x.weight": (RANK + 2 * STATE, 2 * WIDTH),
    "ssm_dt.weight": (2 * WIDTH, RANK),
    "ssm_dt.bias": (2 * WIDTH,),
    "ssm_a": (2 * WIDTH, STATE),
    "ssm_d": (2 * WIDTH,),
    "ssm_out.weight": (WIDTH, 2 * WIDTH),
}
CONVOLUTION: dict[str, tuple[int, ...]] = {
    "shortconv.conv.weight": (WIDTH, 3),
    "shortconv.in_proj.weight": (3 * WIDTH, WIDTH),
    "shortconv.out_proj.weight": (WIDTH, WIDTH),
}


def write_tiny_gguf(
    path: Path,
    *,
    architecture: str = "llama",
    fields: dict[str, int] | None = None,
    template: str = TEMPLATE,
    seed: int = 0,
    changes: Mapping[str, NDArray[np.float32]] | None = None,
) -> Path:
    """Write a random model with 2 layers and the tiny tokenizer's vocabulary. `fields`: more of the architecture's;
    `changes`: what is added to tensors, by name.

    Its logits differ by tenths between ids, so that a comparison sees a wrong cell.
    """
    gguf = pytest.importorskip("gguf")
    tokens, kinds, merges = vocabulary()
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(4096)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv([0, 1] if architecture == "lfm2" else 1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    for name, value in {**FIELDS.get(architecture, {}), **(fields or {})}.items():
        writer.add_uint32(f"{architecture}.{name}", value)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    for name, text in {"bos": "<s>", "eos": "</s>", "pad": "<pad>"}.items():
        getattr(writer, f"add_{name}_token_id")(tokens.index(text))
    writer.add_chat_template(template)
    for name, shape in tensors(len(tokens), architecture).items():
        random = np.random.default_rng([seed, *name.encode()])
        values = np.ones(shape) if len(shape) == 1 else random.normal(size=shape) / np.sqrt(shape[-1])
        if name.endswith("ssm_a"):  # the rates at which states fade
            values = -np.abs(values)
        writer.add_tensor(name, (values + (changes or {}).get(name, 0)).astype(np.float32))
    return _written(writer, path)


def write_tiny_adapter(
    path: Path, *, rank: int = 2, alpha: float = 4.0, architecture: str = "llama", width: int = WIDTH
) -> dict[str, NDArray[np.float32]]:
    """Write an adapter of LoRA with random weights for the tiny model. Return what it adds to tensors, by name."""
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", alpha)
    added = {}
    for name in (f"blk.{n}.{part}.weight" for n in range(LAYERS) for part in ("attn_q", "attn_v", "ffn_down")):
        rows, columns = tensors(len(vocabulary()[0]), architecture)[name]
        random = np.random.default_rng([7, *name.encode()])
        first = (random.normal(size=(rank, columns * width // WIDTH)) / np.sqrt(columns)).astype(np.float32)
        second = random.normal(size=(rows, rank)).astype(np.float32)
        writer.add_tensor(f"{name}.lora_a", first)
        writer.add_tensor(f"{name}.lora_b", second)
        if width == WIDTH:
            added[name] = (alpha / rank * second @ first).astype(np.float32)
    _written(writer, path)
    return added


def _written(writer: Any, path: Path) -> Path:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def vocabulary() -> tuple[list[str], list[int], list[str]]:
    """The tokens of the tiny tokenizer by id, their types, and its merges."""
    form: dict[str, Any] = json.loads(tiny_tokenizer().backend_tokenizer.to_str())
    added = {one["id"]: one["content"] for one in form["added_tokens"]}
    by_id = {number: token for token, number in form["model"]["vocab"].items()} | added
    tokens = [by_id[number] for number in range(len(by_id))]
    kinds = [CONTROL if number in added else NORMAL for number in range(len(by_id))]
    return tokens, kinds, [" ".join(pair) for pair in form["model"]["merges"]]


def tensors(size: int, architecture: str) -> dict[str, tuple[int, ...]]:
    """The names and shapes of a model's tensors."""
    key = WIDTH // HEADS
    norms = {"attn_norm.weight": (WIDTH,), "ffn_norm.weight": (WIDTH,)}
    forward = {"ffn_down.weight": (WIDTH, INNER), "ffn_gate.weight": (INNER, WIDTH), "ffn_up.weight": (INNER, WIDTH)}
    attention = {"attn_q.weight": (WIDTH, WIDTH), "attn_output.weight": (WIDTH, WIDTH)}
    attention |= {"attn_k.weight": (key, WIDTH), "attn_v.weight": (key, WIDTH)}
    plain = norms | forward | attention
    layers: list[dict[str, tuple[int, ...]]] = [plain, plain]
    if architecture == "gemma2":
        layers = [plain | {"post_attention_norm.weight": (WIDTH,), "post_ffw_norm.weight": (WIDTH,)}] * LAYERS
    elif architecture == "mamba":
        layers = [{"attn_norm.weight": (WIDTH,), **MAMBA}] * LAYERS
    elif architecture == "lfm2":
        keys = {"attn_q_norm.weight": (key,), "attn_k_norm.weight": (key,)}
        layers = [norms | forward | CONVOLUTION, plain | keys]
    norm = "token_embd_norm" if architecture == "lfm2" else "output_norm"
    return {
        "token_embd.weight": (size, WIDTH),
        f"{norm}.weight": (WIDTH,),
        **({} if architecture == "gemma2" else {"output.weight": (size, WIDTH)}),  # it has those of its embeddings
        **{f"blk.{n}.{name}": shape for n, layer in enumerate(layers) for name, shape in layer.items()},
    }
