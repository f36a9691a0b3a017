"""Models in GGUF files: what is loaded, and one line for what cannot be."""

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from support.llamacpp.tiny_gguf import TEMPLATE, write_tiny_gguf

from refactx.errors import InputError, ModelError

pytest.importorskip("llama_cpp")
from refactx.engines.engine import free_memory
from refactx.engines.llamacpp import load
from refactx.engines.llamacpp.library import library
from refactx.engines.llamacpp.model import cells, cores


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


def test_a_model_has_its_template_and_limits(tiny: Path) -> None:
    model = load(tiny, context=300, threads=1)
    assert (model.name, model.longest, model.chat_template) == ("tiny", 4096, TEMPLATE)
    assert model.engine.capacity == 512
    assert model.engine.can_forget
    model.close()


def test_neither_torch_nor_transformers_is_loaded_and_nothing_is_printed(tiny: Path) -> None:
    code = (
        f"import sys; from refactx.engines.llamacpp import load; load({str(tiny)!r}).engine.prefill([5, 6])\n"
        "print([name for name in ('torch', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def refused(path: Path, **options: int) -> str:
    """The message of the error, which is one line."""
    with pytest.raises(ModelError) as caught:
        load(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.gguf").startswith(f"there is no file {tmp_path}/none.gguf")


def test_another_file_is_not_a_model(tmp_path: Path) -> None:
    (tmp_path / "text.gguf").write_text("no model")
    assert "is not a GGUF file" in refused(tmp_path / "text.gguf")


@pytest.mark.parametrize("part", [0.5, 0.01])
def test_a_file_that_is_cut_is_reported_with_the_reason(tiny: Path, tmp_path: Path, part: float) -> None:
    data = tiny.read_bytes()
    (tmp_path / "cut.gguf").write_bytes(data[: int(len(data) * part)])
    message = refused(tmp_path / "cut.gguf")
    assert re.match(r"llama.cpp cannot load .*cut\.gguf: .+ Download it again", message)
    assert "no reason given" not in message


def test_an_unknown_architecture_is_for_another_engine(tmp_path: Path) -> None:
    message = refused(write_tiny_gguf(tmp_path / "x.gguf", architecture="nonesuch"))
    assert "nonesuch" in message
    assert "--engine transformers" in message


def test_a_model_that_embeds_texts_is_refused(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "x.gguf", fields={"pooling_type": 3})
    assert "is an embedding model" in refused(path, context=256)


def test_a_context_larger_than_memory_is_refused(tiny: Path) -> None:
    assert re.search(r"a context of [\d,]+ ids takes .* are free", refused(tiny, context=4_000_000_000))


def test_ids_that_the_model_lacks_are_reported(tiny: Path) -> None:
    engine = load(tiny, context=256, threads=1).engine
    with pytest.raises(ModelError, match=r"cannot read 1 ids: .*token"):
        engine.prefill([100_000])
    engine.drop(engine.prefill([5]))


def test_a_context_is_as_large_as_texts_need_and_memory_allows() -> None:
    assert cells(None, 1, 1000, None) == 5632
    assert cells(None, 4, 1000, 10**12) == 22528
    assert cells(None, 100, 1000, 20_000_000) == 9984
    assert cells(700, 1, 1000, 10**12) == 768
    with pytest.raises(ModelError, match="a context of 5,632 ids takes"):
        cells(None, 4, 1000, 1_000_000)


def test_this_machine_has_memory_and_cores() -> None:
    assert cores() >= 1
    assert (free_memory() or 1) > 0


def test_another_version_of_the_package_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    library.cache_clear()
    monkeypatch.setattr("refactx.engines.llamacpp.library.version", lambda name: "0.2.90")
    with pytest.raises(InputError, match=r"0\.2\.90 is installed, at least 0\.3\.36 and below 0\.4 is needed"):
        library()
    monkeypatch.undo()
    assert metadata.version("llama-cpp-python")
    library()


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    library.cache_clear()
    monkeypatch.setattr("refactx.lazy.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"refactx\[llamacpp\]"):
        library()
    monkeypatch.undo()
    library()
