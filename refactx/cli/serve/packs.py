"""The translator of a server, for `--pack`."""

from contextlib import ExitStack
from typing import TYPE_CHECKING

from refactx.cli.translate.options import Models, TranslatorOptions, open_translator
from refactx.errors import InputError

if TYPE_CHECKING:
    from refactx.engines.language_model import LanguageModel
    from refactx.nl2sparql import Pack, Translator


def pack_to_serve(name: str | None, run_on: str | None) -> "Pack | None":
    """Return the pack of the option `--pack`; None without it. Raises InputError for `--run-on` without it."""
    if name is None:
        if run_on is not None:
            raise InputError("--run-on runs the queries of a pack: add --pack")
        return None
    from refactx.nl2sparql import load_pack

    return load_pack(name)


def translator_of(
    pack: "Pack", loaded: "LanguageModel", model: str, index: str, db: str | None, run_on: str | None, stack: ExitStack
) -> "Translator":
    """Return a translator for a pack by a model that is loaded, with the usual bounds.

    `run_on`: as the option of `refactx translate`; `stack`: closes what it opens. Queries are held to the grammar of the
    pack if the model has an engine.
    """
    options = TranslatorOptions(
        model=model,
        model_url=None,
        fast_model=None,
        grammar=loaded.engine is not None,
        policy="text",
        index=index,
        db=db,
        examples=5,
        encoder=None,
        agent=True,
        validates=True,
        runs=True,
        run_on=run_on,
        attempts=4,
        steps=40,
        tokens=4000,
        seconds=300.0,
    )
    return open_translator(pack, options, Models(loaded={model: loaded}), stack)
