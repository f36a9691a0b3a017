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
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    for name, value in (fields or {}).items():
        writer.add_uint32(f"{architecture}.{name}", value)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    for name, text in {"bos": "<s>", "eos": "</s>", "pad": "<pad>"}.items():
        getattr(writer, f"add_{name}_token_id")(tokens.index(text))
    writer.add_chat_template(template)
    for name, shape in tensors(len(tokens)).items():
        random = np.random.default_rng([seed, *name.encode()])
        values = np.ones(shape) if len(shape) == 1 else random.normal(size=shape) / np.sqrt(shape[-1])
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
        rows, columns = tensors(len(vocabulary()[0]))[name]
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


def tensors(size: int) -> dict[str, tuple[int, ...]]:
    """The names and shapes of a model's tensors."""
    key = WIDTH // HEADS
    layer = {"attn_norm": (WIDTH,), "ffn_norm": (WIDTH,), "attn_q": (WIDTH, WIDTH), "attn_output": (WIDTH, WIDTH)}
    layer |= {"attn_k": (key, WIDTH), "attn_v": (key, WIDTH), "ffn_down": (WIDTH, INNER)}
    layer |= {"ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH)}
    layers = {f"blk.{n}.{name}.weight": shape for n in range(LAYERS) for name, shape in layer.items()}
    return {
        "token_embd.weight": (size, WIDTH),
        "output_norm.weight": (WIDTH,),
        "output.weight": (size, WIDTH),
        **layers,
    }
