"""Models and tokenizers by name: a Hugging Face id, a folder, a GGUF file, or `demo` (see `refactx.models.demo`).

If there is a `tokenizer.json`, the `tokenizers` library reads a tokenizer: Transformers takes seconds to import, and is
imported only if it is needed. That of a GGUF file is kept in $REFACTX_HOME/tokenizers, where it is found by the content
of the file. Every failure is a ModelError of one sentence.
"""

import hashlib
import json
import logging
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from warnings import catch_warnings, simplefilter

import zstandard

from refactx.errors import InputError, ModelError
from refactx.fact import counted
from refactx.lazy import require
from refactx.models import demo
from refactx.models.options import AUTO
from refactx.paths import refactx_home, share_weights
from refactx.tokenizer import FactTokenizer

if TYPE_CHECKING:
    import torch

progress_log = logging.getLogger("refactx.loading")
"""What is loaded, which may take seconds; the command line shows it on a terminal."""
DEMO = "demo"
DEVICE_MAPS = ("balanced", "sequential")
"""The devices that are all GPUs together, by their names as Transformers' `device_map`."""
NO_CODE: dict[str, Any] = {"trust_remote_code": False}
"""Options of Transformers, which would ask on standard input whether to run Python code out of a model's folder."""
_TOKENS = b"tokenizer.ggml.tokens" + bytes([9, 0, 0, 0, 8, 0, 0, 0])
"""What stands in a GGUF file before the number of its tokens: a name, and the types of an array and of its strings."""
_TOKENS_WITHIN = 1 << 20
"""The first bytes of a file, in which that is looked for."""
KEPT = "tokenizers"
"""The folder of tokenizers of GGUF files below that of ReFactX's own data: reading one again takes some 13 s of CPU."""
_MOST_KEPT = 16
"""The tokenizers that are kept, some 2 MB each; the ones that were used last stay."""
_HEAD = 32 << 20
"""The bytes of a GGUF file that tell it from others, with its size: its vocabulary is in the first 12 MB at most."""
_LONGEST_KEPT = 512 << 20
FLOAT32_PARAMETERS = 2_000_000_000
"""The largest model that runs in float32 on a CPU by default: it takes 8 GB."""

_MESSAGES = "{% for m in messages %}{{ m['content'] + '\n' }}{% endfor %}{{ eos_token }}"
"""The chat template of encoder-decoder models without one."""
_AS_IN_THE_FILE = ("TokenizersBackend", "PreTrainedTokenizerFast")


class LoadedModel(NamedTuple):
    """A language model of Transformers, and its tokenizer."""

    model: Any
    tokenizer: Any


def demo_model_folder() -> Path:
    """Return the folder of the demo model, and make it first if it is missing.

    That downloads 93 MB, writes 270 MB and takes a minute; progress goes to standard error. Raises ModelError if the
    download, the disk or the conversion fails, InputError if a package for GGUF files is not installed.
    """
    return demo.prepare(partial(load_model, device="cpu", dtype="bfloat16"))


def load_tokenizer(name: str) -> tuple[FactTokenizer, str]:
    """Return the tokenizer of `name`, which it has as its name, and the name to store: a path becomes absolute.

    `name`: a Hugging Face id, a folder (a `tokenizer.json` in it is enough), a `tokenizer.json`, a GGUF file, or
    `demo`. Raises ModelError if there is no such tokenizer, or if it cannot be used.
    """
    path = _local(name)
    shown = name if path is None or name == DEMO else str(path.resolve())
    file = path / "tokenizer.json" if path is not None and path.is_dir() else path
    own_class = path is not None and path.is_dir() and _class_builds_its_own(path)
    if file is not None and file.suffix == ".json" and file.is_file() and not own_class:
        try:
            found = FactTokenizer.from_file(file)
        except ModelError as error:
            raise ModelError(f"cannot use {file}: {error}") from error
    else:
        gguf = None if path is None or own_class else gguf_of(name)
        files = {} if gguf is None else _kept_files(_kept_at(gguf))
        if files:
            found = FactTokenizer(files["tokenizer.json"])
        else:
            progress_log.info("reading the tokenizer of %s", name)
            found = FactTokenizer.from_transformers(_load(name, path, _auto_tokenizer))
    found.name = shown
    return found, shown


def _class_builds_its_own(folder: Path) -> bool:
    """Return whether the tokenizer that Transformers makes from a model's folder may differ from its tokenizer.json.

    In a folder with a model's config, Transformers makes the class that the tokenizer's config names. Some classes
    build their own normaliser (Qwen2's is always NFC); those of `_AS_IN_THE_FILE` do not, and need no Transformers.
    """
    try:
        named = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))["tokenizer_class"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return (folder / "config.json").is_file() and named not in _AS_IN_THE_FILE


def load_model(
    name: str,
    *,
    device: str = AUTO,
    dtype: "torch.dtype | str" = AUTO,
    adapter: str | Path | None = None,
    check: "Callable[[Any], object]" = lambda tokenizer: None,
) -> LoadedModel:
    """Return a language model of Transformers in evaluation mode, and its tokenizer, which has a chat template.

    One that reads one sequence and writes another, such as T5, gets the messages one after the other if it has none.

    `name`: a Hugging Face id, a folder, a GGUF file (it is dequantised), or `demo`.
    `device`: a name of PyTorch's; `auto` is `cuda` if there is a GPU, else `cpu`; `balanced` and `sequential` divide the
    model among all GPUs, as Transformers' `device_map` does.
    `dtype`: `auto` is bfloat16 on a GPU; on a CPU it is float32 up to 2 billion parameters, else the checkpoint's own.
    (Few CPUs compute in bfloat16: with SmolLM2 on 2 cores of an AMD EPYC without avx512_bf16, a prompt of 450 tokens
    takes 7.1 s in bfloat16 and 1.1 s in float32, and a token after it 44 ms and 59 ms.) A quantised checkpoint is not
    converted.
    `adapter`: of peft, such as LoRA, as a Hugging Face id or a folder; it is merged into weights that are not quantised.
    `check`: called with the tokenizer before the weights are loaded; it may raise.

        model, tokenizer = refactx.load_model("Qwen/Qwen2.5-1.5B-Instruct", device="cuda")

    Raises ModelError if the model or adapter cannot be found, loaded, or used for chat, or if the adapter is for a model
    of another size or tokenizer; InputError if a package is needed and not installed.
    """
    path, placed = _local(name), _device(device)
    if path is not None and path.is_file() and path.suffix != ".gguf":
        raise ModelError(f"{path} is not a model: give a folder, a .gguf file or a Hugging Face id")
    tokenizer = load_chat_tokenizer(name)
    check(tokenizer)
    if adapter is not None:
        check_adapter(adapter, name, tokenizer)
    model = _load(name, path, lambda source, options: _auto_model(source, options, placed, dtype))
    return LoadedModel(model if adapter is None else _adapted(model, adapter, name), tokenizer)


def check_no_folder(folder: Path) -> None:
    """Raise InputError if a folder for a merged model has something in it."""
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise InputError(f"{folder} is there already: give another folder for the merged model, or delete it")


def save_merged(name: str, adapter: str | Path, folder: Path, files: Sequence[str] = ()) -> None:
    """Write a model with an adapter in its weights, and its tokenizer, to a new folder, which is there once it is whole.

    `files`: those of the adapter's folder that go with it, if they are there.

    Raises InputError as `check_no_folder` does, or if it cannot be written, and ModelError as `load_model` does.
    """
    check_no_folder(folder)
    model, tokenizer = load_model(name, device="cpu", adapter=adapter)
    if getattr(model.config, "quantization_config", None) is not None:
        raise ModelError(f"{name} is quantised, and an adapter is not merged into such weights: use it with --adapter")
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        for part in (model, tokenizer):
            part.save_pretrained(partial)
        share_weights(partial)
        for file in (Path(adapter) / one for one in files):
            if file.is_file():
                shutil.copy(file, partial)
        partial.replace(folder)
    except OSError as error:
        raise InputError(f"cannot write {folder} ({error.strerror or error}): give another folder") from error


def load_chat_tokenizer(name: str) -> Any:
    """Return the tokenizer of Transformers with a chat template that is called `name`, a Hugging Face id or a folder.

    Raises ModelError if there is none.
    """
    tokenizer = _load(name, _local(name), _auto_tokenizer)
    if not getattr(tokenizer, "chat_template", None) and is_encoder_decoder(name):
        tokenizer.chat_template = _MESSAGES
    check_chat_template(tokenizer)
    return tokenizer


def is_encoder_decoder(name: str) -> bool:
    """Return whether the model of `name` reads one sequence and writes another, as T5 does, by its configuration."""
    path = _local(name)
    if name == DEMO or gguf_of(name) is not None or (path is not None and not (path / "config.json").is_file()):
        return False
    return bool(_load(name, path, _auto_config).is_encoder_decoder)


def skeleton(name: str) -> Any:
    """Return the model of `name` as `load_model` does, without weights: its tensors have shapes alone.

    Raises ModelError as `load_model` does, and for a GGUF file.
    """
    return _load(name, _local(name), _auto_skeleton)


def _device(name: str) -> str:
    """Return the name of a device that this machine has. Raise ModelError if it has no such device."""
    import torch  # seconds

    if name in DEVICE_MAPS:
        require("accelerate", "gguf")
        return name
    if name == AUTO:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind, number = (found := torch.device(name)).type, found.index or 0
    except RuntimeError as error:
        raise ModelError(f"{name!r} is not a device: give cpu, cuda, cuda:1 or auto") from error
    there = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if kind in there and number < there[kind]:
        return name
    here = [f"{kind}:{n}" if kind == "cuda" else kind for kind, count in there.items() for n in range(count)]
    raise ModelError(f"PyTorch finds no device {name} on this machine: give {', '.join(here)} or auto")


def gguf_of(name: str) -> Path | None:
    """Return the GGUF file that `name` is, or that is alone in the folder `name`; None for another model.

    Raises ModelError as `load_model` does if there is no such file or folder.
    """
    path = _local(name)
    if path is None:
        return None
    if path.is_file():
        return path if path.suffix == ".gguf" else None
    packed = list(path.glob("*.gguf"))
    return packed[0] if len(packed) == 1 and not (path / "config.json").exists() else None


def check_chat_template(tokenizer: Any) -> None:
    """Raise ModelError if a Transformers tokenizer has no chat template, which writes conversations."""
    if not getattr(tokenizer, "chat_template", None):
        name = getattr(tokenizer, "name_or_path", "") or "the model"
        raise ModelError(f"{name} has no chat template: choose an instruct model, such as Qwen/Qwen2.5-1.5B-Instruct")


def _local(name: str) -> Path | None:
    """Return the folder or file called `name`, or None if it can only be a Hugging Face id. Raise ModelError if it is
    neither."""
    if not name.strip() or "\0" in name:
        raise ModelError("the model's name is empty: give a Hugging Face id, a folder or a .gguf file")
    if name == DEMO:
        return demo_model_folder()
    path = Path(name).expanduser()
    if path.exists():
        return path
    if name.startswith(("http://", "https://")):
        raise ModelError(
            f"{name} is an address: give a server's as --model-url, and as --model what it calls its model"
        )
    if path.is_absolute() or name[0] in ".~" or name.count("/") > 1 or path.suffix in (".gguf", ".json"):
        raise ModelError(f"there is no folder or file {name}: give one that exists, or a Hugging Face id")
    return None


def _load(name: str, path: Path | None, load: "Callable[[str, dict[str, Any]], Any]") -> Any:
    """Call `load` with the source and options that Transformers takes for `name`. Raise its errors as ModelError."""
    if path is not None:
        source, options = _source(path)
    else:
        source, options = name, ({} if _check_hub(name) else {"local_files_only": True})
    with quiet(bars=path is None):  # downloads show progress bars
        try:
            return load(source, options)
        except ModelError:
            raise
        except MemoryError as error:
            raise ModelError(f"{name} does not fit into memory; choose a smaller model") from error
        except Exception as error:  # Transformers raises OSError, KeyError, bare Exception and others
            raise ModelError(_sentence(name, path, error)) from error


def _source(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the source and options that Transformers takes for a folder or file."""
    if path.is_file():
        demo.require_gguf()
        return str(path.parent), {"gguf_file": path.name}
    packed = list(path.glob("*.gguf"))
    if packed and not (path / "config.json").exists():
        if len(packed) > 1:
            raise ModelError(f"{path} contains {len(packed)} .gguf files: give the path of one of them")
        demo.require_gguf()
        return str(path), {"gguf_file": packed[0].name}
    if not any((path / file).exists() for file in ("config.json", "tokenizer.json", "tokenizer_config.json")):
        raise ModelError(f"{path} contains no model: expected a config.json, tokenizer.json or .gguf file in it")
    return str(path), {}


def _auto_tokenizer(source: str, options: dict[str, Any]) -> Any:
    from transformers import AutoTokenizer, PreTrainedTokenizerFast  # seconds

    if "gguf_file" not in options:
        return AutoTokenizer.from_pretrained(source, **NO_CODE, **options)
    file = Path(source, options["gguf_file"])
    kept = _kept_at(file)
    if files := _kept_files(kept):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                Path(folder, name).write_text(text, encoding="utf-8")
            tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        tokenizer.name_or_path = source
        return tokenizer
    print(f"reading the tokenizer of {file}{_seconds_of(file)}", file=sys.stderr, flush=True)
    tokenizer = AutoTokenizer.from_pretrained(source, **NO_CODE, **options)
    _keep(tokenizer, kept)
    return tokenizer


def _kept_at(gguf: Path) -> Path | None:
    """Return the file in which the tokenizer of a GGUF file is kept, for these versions of what reads it; None if there can
    be none."""
    try:
        with gguf.open("rb") as opened:
            digest = hashlib.sha256(opened.read(_HEAD))
        read_by = [version(package) for package in ("transformers", "tokenizers", "gguf")]
        digest.update(json.dumps([gguf.stat().st_size, *read_by]).encode())
        return refactx_home() / KEPT / f"{digest.hexdigest()}.zst"
    except (OSError, InputError, PackageNotFoundError):
        return None


def _kept_files(kept: Path | None) -> dict[str, str]:
    """Return the files of a tokenizer that is kept, by their names; none if it is not there, or damaged."""
    try:
        packed = b"" if kept is None else kept.read_bytes()
        files: dict[str, str] = json.loads(zstandard.decompress(packed, max_output_size=_LONGEST_KEPT))
    except (OSError, ValueError, zstandard.ZstdError):
        return {}
    with suppress(OSError):
        Path(kept or "").touch()
    return files


def _keep(tokenizer: Any, kept: Path | None) -> None:
    """Keep a tokenizer of Transformers for the next time, if that can be done; the oldest of many goes."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if kept is None or backend is None:
        return
    with suppress(OSError), tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        files = {path.name: path.read_text(encoding="utf-8") for path in Path(folder).iterdir()}
        files["tokenizer.json"] = backend.to_str()
        kept.parent.mkdir(exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=kept.parent, prefix=".new-", delete=False) as new:
            new.write(zstandard.ZstdCompressor(write_checksum=True).compress(json.dumps(files).encode()))
        Path(new.name).replace(kept)
        others = sorted(kept.parent.glob("*.zst"), key=lambda one: one.stat().st_mtime_ns, reverse=True)
        for old in [
            *others[_MOST_KEPT:],
            *kept.parent.glob(".new-*"),
        ]:  # of a killed process, or one that keeps nothing then
            old.unlink(missing_ok=True)


def _seconds_of(file: Path) -> str:
    """Return how long Transformers will read the tokenizer of a GGUF file, in words; empty if its size is not found.

    It took 8.7 s for 49,152 tokens, and 14.3 s for 151,936, on one core of a server of 2023.
    """
    with file.open("rb") as opened:
        head = opened.read(_TOKENS_WITHIN)
    at = head.find(_TOKENS)
    if at < 0:
        return ""
    count = int.from_bytes(head[at + len(_TOKENS) :][:8], "little")
    return f": about {6 + count / 18_000:.0f} seconds"


def _auto_model(source: str, options: dict[str, Any], device: str, dtype: "torch.dtype | str") -> Any:
    import torch  # seconds
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, GgufConfig

    packed, is_mapped = "gguf_file" in options, device in DEVICE_MAPS
    is_pair = not packed and _auto_config(source, options).is_encoder_decoder
    options = {**options, **NO_CODE}
    if is_mapped:
        options = {**options, "device_map": device}
    if packed:
        options = {**options, "quantization_config": GgufConfig(dequantize=True)}
    on_cpu = not is_mapped and torch.device(device).type == "cpu"
    first = dtype
    if dtype == AUTO and (packed or not on_cpu):  # Transformers' "auto" for a GGUF is float32, for models of any size
        first = torch.bfloat16
    auto: Any = AutoModelForSeq2SeqLM if is_pair else AutoModelForCausalLM  # it has no types
    read: Any = auto.from_pretrained(source, dtype=first, output_loading_info=True, **options)
    model, loaded = read
    if missing := sorted(loaded["missing_keys"]):  # Transformers would take random numbers for them
        raise ModelError(
            f"the weights in {source} lack {counted(len(missing), 'tensor')} of the model that its config.json describes, "
            f"such as {missing[0]}: download it again"
        )
    if packed:  # after dequantisation, it is an unquantised model
        model.config.__dict__.pop("quantization_config", None)
        model.is_quantized, model.hf_quantizer = False, None
    quantised = getattr(model.config, "quantization_config", None) is not None
    if dtype == AUTO and on_cpu and not quantised and model.num_parameters() <= FLOAT32_PARAMETERS:
        model = model.float()
    return (model if quantised or is_mapped else model.to(device)).eval()


def _auto_config(source: str, options: dict[str, Any]) -> Any:
    from transformers import AutoConfig  # seconds

    return AutoConfig.from_pretrained(source, **{**options, **NO_CODE})


def _auto_skeleton(source: str, options: dict[str, Any]) -> Any:
    import torch  # seconds
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    config = _auto_config(source, options)
    auto: Any = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    with torch.device("meta"):
        return auto.from_config(config, **NO_CODE)


def check_adapter(adapter: str | Path, model: str, tokenizer: Any) -> None:
    """Raise ModelError unless an adapter can be merged into a model's weights, and is for its tokenizer.

    `model`: its name, for messages. Raises InputError if peft is not installed.
    """
    config, shown = _adapter_config(adapter), str(adapter)
    if getattr(config, "is_prompt_learning", False):
        raise ModelError(
            f"the adapter {shown} is a learned prompt ({type(config).__name__}), whose virtual tokens have no ids: use an "
            "adapter that changes weights, such as LoRA"
        )
    own = Path(adapter).expanduser() / "tokenizer.json"
    if own.is_file() and not _class_builds_its_own(own.parent):
        found, expected = (
            one.fingerprint for one in (FactTokenizer.from_file(own), FactTokenizer.from_transformers(tokenizer))
        )
        if found != expected:
            raise ModelError(
                f"the adapter {shown} was made with another tokenizer than that of {model}: give the model that it was made "
                f"for ({getattr(config, 'base_model_name_or_path', None) or 'which it does not name'})"
            )


def _adapter_config(adapter: str | Path) -> Any:
    """Return the configuration of an adapter of peft. Raise ModelError if there is none."""
    require("peft", "adapters")
    from peft import PeftConfig  # seconds

    path = Path(adapter).expanduser()
    if path.suffix == ".gguf":
        raise ModelError(
            f"{path} is an adapter for llama.cpp: give a GGUF file as the model too, or an adapter of peft"
        )
    if path.exists() and not (path / "adapter_config.json").is_file():
        raise ModelError(f"{path} contains no adapter of peft: expected an adapter_config.json in it")
    try:
        return PeftConfig.from_pretrained(str(path) if path.exists() else str(adapter))
    except Exception as error:  # peft raises ValueError, OSError and others
        raise ModelError(
            f"there is no adapter {adapter}: give a folder of peft, or a Hugging Face id ({error})"
        ) from error


def _adapted(model: Any, adapter: str | Path, name: str) -> Any:
    """Return a model with an adapter: merged into its weights, or beside them if these are quantised."""
    from peft import PeftModel, get_peft_model_state_dict
    from peft.utils import load_peft_weights

    path = Path(adapter).expanduser()
    source = str(path) if path.exists() else str(adapter)
    try:
        with catch_warnings():
            simplefilter("ignore")  # peft and Transformers warn of their own calls, and of what is checked here
            adapted: Any = PeftModel.from_pretrained(model, source)
        expected = set(get_peft_model_state_dict(adapted, save_embedding_layers=False))
        found = {key for key in load_peft_weights(source, device="cpu") if key in expected or "lora" in key}
        if found != expected:
            raise ValueError(f"it has {len(found - expected)} tensors too many, and lacks {len(expected - found)}")
        is_quantised = getattr(model.config, "quantization_config", None) is not None
        changed: Any = adapted.get_base_model() if is_quantised else adapted.merge_and_unload()
    except Exception as error:  # peft raises ValueError, RuntimeError for sizes, and others
        said = " ".join(str(error).split())
        raise ModelError(
            f"the adapter {adapter} does not fit {name}: it was made for a model of another kind or size, or is not complete "
            f"({said[:200]})"
        ) from error
    return changed.eval()


def _check_hub(name: str) -> bool:
    """Return whether the Hugging Face hub can be reached. Raise ModelError if it can and has no model `name`.

    This is one request without retries: without a network, Transformers would retry for most of a minute.
    """
    from huggingface_hub import HfApi  # seconds
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError

    try:
        HfApi().model_info(name, timeout=10)
    except HFValidationError as error:
        raise ModelError(
            f"{name!r} is neither a folder or file on this machine nor a Hugging Face id: check the spelling"
        ) from error
    except GatedRepoError as error:
        raise ModelError(
            f"{name} is a gated model: accept its terms on huggingface.co, then run: hf auth login"
        ) from error
    except RepositoryNotFoundError as error:
        raise ModelError(
            f"there is no folder {name} on this machine and no public model {name} on Hugging Face: check the spelling"
        ) from error
    except Exception:  # no network, no certificate, offline mode, the page of a proxy, ...
        return False
    return True


def _sentence(name: str, path: Path | None, error: Exception) -> str:
    """Return one sentence for an error that Transformers raised."""
    said = " ".join(str(error).split())
    if "Unrecognized configuration class" in said:
        return f"{name} is not a causal language model: choose a decoder-only instruct model"
    if path is None and ("connect to" in said or "offline" in said.lower()):
        return (
            f"there is no folder {name} on this machine, and Hugging Face cannot be reached to find a model {name}: "
            "check the network, or give a folder, a .gguf file or demo"
        )
    if "trust_remote_code" in said:
        return (
            f"{name} comes with Python code of its own, which refactx does not run: give a model that Transformers knows, or "
            "load it yourself and give the model to refactx.ground"
        )
    if "ignore_mismatched_sizes" in said:
        return f"cannot load {name}: its weights have other sizes than its config.json says: download both again"
    said = said if len(said) <= 200 else said[:200] + "..."
    for file in () if path is None else sorted(path.glob("*.json")):
        try:
            is_whole = isinstance(json.loads(file.read_bytes()), dict)
        except (OSError, ValueError):
            is_whole = False
        if not is_whole:
            return f"cannot load {name}: {file.name} in it is not JSON, so it may be incomplete: download it again"
    is_lacking = path is None or "pip install" in said  # a package of a quantised checkpoint
    hint = "" if is_lacking else "; if a file of it is incomplete, download it again"
    return f"cannot load {name}: {said.rstrip('.') or type(error).__name__}{hint}"


@contextmanager
def quiet(bars: bool) -> Iterator[None]:
    """Silence the warnings of Transformers during the block, and its progress bars unless `bars`."""
    from transformers.utils import logging as module  # seconds

    logging: Any = module  # it has no types
    verbosity, shown = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    if not bars:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            logging.enable_progress_bar()
