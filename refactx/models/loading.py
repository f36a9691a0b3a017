"""Models and tokenizers by name: a Hugging Face id, a folder, a GGUF file, or `demo` (see `refactx.models.demo`).

A tokenizer alone is read by the `tokenizers` library where a `tokenizer.json` is there; Transformers, which takes
seconds to import, only comes in where it must. Whatever goes wrong is a ModelError of one sentence.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refactx.errors import ModelError
from refactx.models.demo import demo_model_folder
from refactx.tokenizer import FactTokenizer

if TYPE_CHECKING:
    import torch

DEMO = "demo"
AUTO = "auto"
FLOAT32_PARAMETERS = 2_000_000_000
"""Up to here (8 GB) a model runs in float32 on a CPU."""


def load_tokenizer(name: str) -> tuple[FactTokenizer, str]:
    """The tokenizer of `name`, and the name to show and to keep: a path is made absolute.

    `name`: a Hugging Face id, a folder (with only a `tokenizer.json`, say), a `tokenizer.json`, a GGUF file, or `demo`.
    Raises ModelError.
    """
    path = _local(name)
    if path is None:
        return FactTokenizer.from_transformers(_load(name, None, _auto_tokenizer)), name
    shown = name if name == DEMO else str(path.resolve())
    file = path / "tokenizer.json" if path.is_dir() else path
    if path.is_dir() and _class_builds_its_own(path):
        return FactTokenizer.from_transformers(_load(name, path, _auto_tokenizer)), shown
    if file.suffix == ".json" and file.is_file():
        try:
            return FactTokenizer.from_file(file), shown
        except ModelError as error:
            raise ModelError(f"cannot use {file}: {error}") from error
    return FactTokenizer.from_transformers(_load(name, path, _auto_tokenizer)), shown


def _class_builds_its_own(folder: Path) -> bool:
    """Whether the tokenizer that a model comes with is not what its tokenizer.json says.

    Beside a model's config the class that it names decides, and some build another normaliser (Qwen2's always NFC); those
    of `_AS_IN_THE_FILE` don't, and need no import of Transformers, which takes seconds.
    """
    try:
        named = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))["tokenizer_class"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return (folder / "config.json").is_file() and named not in _AS_IN_THE_FILE


_AS_IN_THE_FILE = ("TokenizersBackend", "PreTrainedTokenizerFast")


def load_model(
    name: str,
    device: str = AUTO,
    dtype: "torch.dtype | str" = AUTO,
    check: "Callable[[Any], object]" = lambda tokenizer: None,
) -> tuple[Any, Any]:
    """A causal language model in evaluation mode, and its Transformers tokenizer, which has a chat template.

    `name`: a Hugging Face id, a folder, a GGUF file (it is dequantised), or `demo`. `device`: `auto` is `cuda` if there
    is one, else `cpu`. `dtype`: `auto` is bfloat16 on a GPU. On a CPU it is float32 up to 2 billion parameters, else the
    checkpoint's own: few CPUs compute in bfloat16 (SmolLM2 on 2 cores of an AMD EPYC without avx512_bf16: a prompt of 450
    tokens takes 7.1 s in bfloat16 and 1.1 s in float32, a token after it 44 ms and 59 ms). A quantised checkpoint stays as
    it is.
    `check` is called with the tokenizer before the weights are loaded, and may raise. Raises ModelError.
    """
    path, placed = _local(name), _device(device)
    if path is not None and path.is_file() and path.suffix != ".gguf":
        raise ModelError(f"{path} is not a model: give a folder, a .gguf file or a Hugging Face id")
    tokenizer = _load(name, path, _auto_tokenizer)
    check_chat_template(tokenizer)
    check(tokenizer)
    return _load(name, path, lambda source, options: _auto_model(source, options, placed, dtype)), tokenizer


def _device(name: str) -> str:
    """The device of that name, which is there. Raises ModelError."""
    import torch  # seconds

    if name == AUTO:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind, number = (found := torch.device(name)).type, found.index or 0
    except RuntimeError as error:
        raise ModelError(f"{name!r} is no device: give cpu, cuda, cuda:1, or auto") from error
    there = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if kind in there and number < there[kind]:
        return name
    here = [f"{kind}:{n}" if kind == "cuda" else kind for kind, count in there.items() for n in range(count)]
    raise ModelError(f"there is no device {name} here, as PyTorch sees it: give {'; '.join(here)} or auto")


def check_chat_template(tokenizer: Any) -> None:
    """Raise ModelError unless the (Transformers) tokenizer knows how to write a conversation."""
    if not getattr(tokenizer, "chat_template", None):
        name = getattr(tokenizer, "name_or_path", "") or "the model"
        raise ModelError(f"{name} has no chat template: choose an instruct model, such as Qwen/Qwen2.5-1.5B-Instruct")


def _local(name: str) -> Path | None:
    """The folder or file that `name` means; None if it can only be a Hugging Face id."""
    if not name.strip() or "\0" in name:
        raise ModelError("the model's name is empty: give a Hugging Face id, a folder or a .gguf file")
    if name == DEMO:
        return demo_model_folder()
    path = Path(name).expanduser()
    if path.exists():
        return path
    if path.is_absolute() or name[0] in ".~" or name.count("/") > 1 or path.suffix in (".gguf", ".json"):
        raise ModelError(f"there is no folder or file {name}; give one that exists, or a Hugging Face id")
    return None


def _load(name: str, path: Path | None, load: "Callable[[str, dict[str, Any]], Any]") -> Any:
    """Call `load` with what Transformers wants for `name`, quietly, and make its errors ours."""
    if path is not None:
        source, options = _source(path)
    else:
        source, options = name, ({} if _check_hub(name) else {"local_files_only": True})
    with _quiet(bars=path is None):  # the bars of a download stay
        try:
            return load(source, options)
        except ModelError:
            raise
        except MemoryError as error:
            raise ModelError(f"{name} does not fit into memory; choose a smaller model") from error
        except Exception as error:  # Transformers raises anything from OSError to KeyError and bare Exception
            raise ModelError(_sentence(name, path, error)) from error


def _source(path: Path) -> tuple[str, dict[str, Any]]:
    if path.is_file():
        return str(path.parent), {"gguf_file": path.name}
    packed = list(path.glob("*.gguf"))
    if packed and not (path / "config.json").exists():
        if len(packed) > 1:
            raise ModelError(f"{path} holds {len(packed)} .gguf files; give the path of one of them")
        return str(path), {"gguf_file": packed[0].name}
    if not any((path / file).exists() for file in ("config.json", "tokenizer.json", "tokenizer_config.json")):
        raise ModelError(f"{path} holds no model: there is no config.json, tokenizer.json or .gguf file in it")
    return str(path), {}


def _auto_tokenizer(source: str, options: dict[str, Any]) -> Any:
    from transformers import AutoTokenizer  # seconds

    return AutoTokenizer.from_pretrained(source, **options)


def _auto_model(source: str, options: dict[str, Any], device: str, dtype: "torch.dtype | str") -> Any:
    import torch  # seconds
    from transformers import AutoModelForCausalLM, GgufConfig

    packed = "gguf_file" in options
    if packed:
        options = {**options, "quantization_config": GgufConfig(dequantize=True)}
    on_cpu = torch.device(device).type == "cpu"
    first = dtype
    if dtype == AUTO and (packed or not on_cpu):  # a GGUF's "auto" is float32, of any size
        first = torch.bfloat16
    model: Any = AutoModelForCausalLM.from_pretrained(source, dtype=first, **options)
    if packed:  # it is dequantised, a model like any other
        model.config.__dict__.pop("quantization_config", None)
        model.is_quantized, model.hf_quantizer = False, None
    quantised = getattr(model.config, "quantization_config", None) is not None
    if dtype == AUTO and on_cpu and not quantised and model.num_parameters() <= FLOAT32_PARAMETERS:
        model = model.float()
    return (model if quantised else model.to(device)).eval()


def _check_hub(name: str) -> bool:
    """Whether the Hugging Face hub can be asked; if so it has `name`. Raises ModelError if it says no.

    One request without retries: Transformers would try for most of a minute to reach a hub that isn't there.
    """
    from huggingface_hub import HfApi  # seconds
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError

    try:
        HfApi().model_info(name, timeout=10)
    except HFValidationError as error:
        raise ModelError(f"{name!r} is neither a folder or file here nor a Hugging Face id") from error
    except GatedRepoError as error:
        raise ModelError(
            f"{name} asks for consent: accept its terms on huggingface.co and run: hf auth login"
        ) from error
    except RepositoryNotFoundError as error:
        raise ModelError(
            f"there is no folder {name} here and no public model {name} on Hugging Face; check the spelling"
        ) from error
    except Exception:  # no network, no certificate, offline mode, a proxy's page, ...
        return False
    return True


def _sentence(name: str, path: Path | None, error: Exception) -> str:
    said = " ".join(str(error).split())
    if "Unrecognized configuration class" in said:
        return f"{name} is not a causal language model; choose a decoder-only instruct model"
    if path is None and ("connect to" in said or "offline" in said.lower()):
        return (
            f"there is no folder {name} here, and Hugging Face can't be reached to look for a model {name}; "
            "check the network, or give a folder, a .gguf file or demo"
        )
    said = said if len(said) <= 200 else said[:200] + "..."
    return f"cannot load {name}: {said or type(error).__name__}"


@contextmanager
def _quiet(bars: bool) -> Iterator[None]:
    """Transformers without warnings, and without its progress bars unless `bars`; its settings are put back."""
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
