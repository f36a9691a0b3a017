"""The command `refactx serve`."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from refactx.cli import options as common
from refactx.cli.help import GroupedCommand, ModelName
from refactx.cli.translate import Models, TranslatorOptions, open_translator
from refactx.errors import InputError, TokenizerMismatchError
from refactx.fact import counted
from refactx.lazy import require
from refactx.postgres.entry import limits_of_environment
from refactx.server import ServingOptions

if TYPE_CHECKING:
    from refactx.ask.chat_server import ChatServer
    from refactx.engines.engine import LanguageModel
    from refactx.index.index import Index
    from refactx.ingest import FactWriter
    from refactx.models.options import EngineOptions
    from refactx.postgres.database import Database
    from refactx.server import DatabaseChecks, TextService
    from refactx.server.http import RequestSlots
    from refactx.server.uploads import Uploads
    from refactx.sparql.packs.pack import Pack
    from refactx.sparql.packs.translator import Translator
    from refactx.walks import TreeFacts

ACCESS = ("host", "port", "api_key_file", "writable", "write_key", "auth", "allow_host", "allow_origin", "root_path")

OUTAGE_SECONDS = 10.0
"""How long texts wait for a database that went away: people wait for them."""

OWN_NAMES = ("localhost", "127.0.0.1", "::1")
_NAME = re.compile(r"[\w.-]+|\[?[\da-fA-F:.]+\]?")
_ORIGIN = re.compile(r"\*|[a-z][a-z0-9+.-]*://(?:[\w.-]+|\[[\da-f:.]+\])(?::\d+)?")
_ROOT = re.compile(r"(?:/[\w.~-]+)*")


def pack_to_serve(name: str | None, run_on: str | None) -> "Pack | None":
    """Return the pack of the option `--pack`; None without it. Raises InputError for `--run-on` without it."""
    if name is None:
        if run_on is not None:
            raise InputError("--run-on runs the queries of a pack: add --pack")
        return None
    from refactx.sparql.packs.pack import load_pack

    return load_pack(name)


def translator_of(
    pack: "Pack",
    loaded: "LanguageModel | ChatServer",
    options: TranslatorOptions,
    machine: "EngineOptions",
    stack: ExitStack,
) -> "Translator":
    """Return a translator for a pack by a model that is loaded, or by one on a server that only chats (`machine`).

    `stack`: closes what it opens. Queries are constrained by the grammar of the pack if the model has an engine.
    """
    from refactx.ask.chat_server import ChatServer

    if isinstance(loaded, ChatServer):
        url = None if machine.server is None else machine.server.model_url
        return open_translator(pack, replace(options, model_url=url), Models(), stack)
    options = replace(options, grammar=loaded.engine is not None)
    return open_translator(pack, options, Models(loaded={options.model or "": loaded}), stack)


@click.command(
    cls=GroupedCommand,
    groups={
        "Access": ACCESS,
        **common.groups_of(ServingOptions),
        "Database and machine": (*common.MACHINE, *common.SERVED),
    },
)
@click.option(
    "--model",
    "models",
    multiple=True,
    required=True,
    type=ModelName(),
    metavar="MODEL",
    help="As of ask: demo, an id; several times.",
)
@click.option(
    "--index", "indexes", multiple=True, default=("default",), metavar="NAME", help="Or a FILE.refactx; several times."
)
@common.PROMPT
@common.WEIGHTS
@click.option("--pack", "pack_name", metavar="PACK", help="Translate to SPARQL too: liita, wikidata, or a folder.")
@click.option("--run-on", metavar="WHERE", help="Queries of the pack: URL, store, tree or invented.")
@click.option("--name", metavar="NAME", help="Name of the model; default: that of --model.")
@click.option(
    "--feedback", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Keep what people report there."
)
@click.option("--log-text", is_flag=True, help="Log questions and answers too.")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="Address to listen at.")
@click.option(
    "--port", default=8000, show_default=True, type=click.IntRange(0, 65535), metavar="PORT", help="0: any free port."
)
@click.option(
    "--api-key-file", type=click.Path(path_type=Path), metavar="FILE", help="Keys that are accepted, one a line."
)
@click.option("--writable", metavar="NAME", help="Let clients write facts to this index, with a key.")
@click.option("--write-key", type=click.Path(path_type=Path), metavar="FILE", help="Keys of those clients, one a line.")
@click.option("--auth/--no-auth", default=True, help="--no-auth: serve other machines without keys.")
@click.option("--allow-host", multiple=True, metavar="NAME", help="Answer under NAME too, such as a proxy's.")
@click.option("--allow-origin", multiple=True, metavar="ORIGIN", help="Let pages of a site ask (CORS); *: of any.")
@click.option("--root-path", default="", metavar="PATH", help="Path of its addresses behind a proxy, as /kb.")
@common.declared(ServingOptions)
@common.server_options
@common.DB
@common.engine_options
def serve(
    models: tuple[str, ...],
    indexes: tuple[str, ...],
    prompt: str | None,
    weights: Path | None,
    ranker: str | None,
    pack_name: str | None,
    run_on: str | None,
    name: str | None,
    feedback: Path | None,
    log_text: bool,
    host: str,
    port: int,
    api_key_file: Path | None,
    writable: str | None,
    write_key: Path | None,
    auth: bool,
    allow_host: tuple[str, ...],
    allow_origin: tuple[str, ...],
    root_path: str,
    db: str | None,
    **given: Any,
) -> None:
    """Serve answers with facts over HTTP, with OpenAI's API.

    Clients of OpenAI need the base URL http://HOST:PORT/v1 alone. Facts are citations of an answer. The models NAME,
    NAME:answer (the answer without its facts) and NAME:free (without an index) can be asked for. With several models or
    indexes, each model is served with each index of its tokenizer, as NAME@INDEX.
    """
    for package in ("fastapi", "llguidance", "mcp", "uvicorn", "prometheus_client"):
        require(package, "serve")
    from refactx.ask.prompt import load_prompt, prompt_of
    from refactx.server import listen
    from refactx.server import serve as run
    from refactx.server.http import RequestSlots
    from refactx.server.service import writes_together

    keys, write_keys = _keys(api_key_file, write_key, writable, indexes)
    is_own = is_loopback(host)
    if not (is_own or keys) and auth:
        raise InputError(
            f"everybody who reaches {host} could ask this model: give --api-key-file FILE, or --no-auth if that is meant"
        )
    names = model_names(models, name, given["adapter"])
    machine = common.engine_options_of(given, texts=given["max_running"] + 1, beams=1)
    options = ServingOptions(
        name=names[0],
        keys=keys,
        write_keys=write_keys,
        hosts=names_of(host, allow_host) if allow_host or (is_own and auth and not keys) else None,
        origins=origins_of(allow_origin),
        root=root_of(root_path),
        logs_text=log_text,
        feedback=feedback,
        **given,
    )
    taught = prompt_of(machine.adapter, models[0]) if len(models) == 1 else None
    load_prompt(prompt or taught or "wikidata").weighted(
        weights, ranker
    )  # reports a wrong name before anything is opened
    if feedback is not None:
        feedback.open("ab").close()  # reports at once that it cannot be written
    pack = pack_to_serve(pack_name, run_on)
    with listen(host, port) as listening, ExitStack() as stack:
        opened = open_indexes(indexes, db, stack)
        pairs = load_models(dict(zip(names, models, strict=True)), opened, machine)
        together = all(writes_together(loaded) for _, loaded, _ in pairs)
        opener = ServiceOpener(
            options=options,
            prompt=prompt,
            weights=weights,
            ranker=ranker,
            taught=taught,
            db=db,
            stack=stack,
            slots=RequestSlots(options.max_running if together else 1, options.max_waiting),
            names_index=len(pairs) > 1 or options.max_upload > 0,
            writable=writable,
        )
        _, loaded, index = pairs[0]
        translating = TranslatorOptions(model=models[0], index=index, db=db, agent=True, run_on=run_on)
        translator = None if pack is None else translator_of(pack, loaded, translating, machine, stack)
        services = opener.services(pairs, opened, translator)
        uploads = opener.uploads(pairs, opened[index]) if options.max_upload else None
        address = listening.getsockname()
        shown = f"[{address[0]}]" if ":" in address[0] else address[0]
        url, served = f"http://{shown}:{address[1]}", ", ".join(one.options.name for one in services)
        said = f"{served} {'is' if len(services) == 1 else 'are'} served at {url} (clients: {url}/v1)"
        run(services, listening, lambda: click.echo(said), uploads)


def _keys(
    api_key_file: Path | None, write_key: Path | None, writable: str | None, indexes: Sequence[str]
) -> tuple[tuple[str, ...], ...]:
    """Return the keys that may read, and those that may write too. Raises InputError if these are not apart, or if the index
    that is written is none of those that are served."""
    if (writable is None) != (write_key is None):
        raise InputError(
            "--writable and --write-key belong together: give the index, and the file of keys to write with"
        )
    if writable is not None and writable not in (name.strip() for one in indexes for name in one.split(",")):
        raise InputError(f"--writable {writable} is none of the indexes that are served: give it with --index too")
    keys, write_keys = (() if file is None else read_keys(file) for file in (api_key_file, write_key))
    if both := set(keys) & set(write_keys):
        raise InputError(f"{counted(len(both), 'key')} of --write-key may read alone by --api-key-file: give others")
    return keys, write_keys


def model_names(models: Sequence[str], name: str | None, adapter: str | None) -> list[str]:
    """Return the names of models for clients, with that of the folder where those of files would be the same.

    Raises InputError for what is about one model, where there are several, and for two of one name.

    >>> model_names(["demo", "/models/smollm2.gguf"], None, None)
    ['demo', 'smollm2']
    >>> model_names(["smollm2/q8.gguf", "qwen/q8.gguf", "demo"], None, None)
    ['smollm2/q8', 'qwen/q8', 'demo']
    """
    if len(models) > 1 and (name or adapter):
        raise InputError(f"{'--name' if name else '--adapter'} is for one model: give one --model with it")
    short = [name or name_of(model) for model in models]
    found = [
        f"{Path(model).absolute().parent.name}/{one}" if short.count(one) > 1 and one != model else one
        for one, model in zip(short, models, strict=True)
    ]
    if double := next((one for one in found if found.count(one) > 1), None):
        raise InputError(f"two models have the name {double}: serve them one by one")
    return found


def open_indexes(given: Sequence[str], db: str | None, stack: ExitStack) -> dict[str, "Index"]:
    """Return indexes by what was given for them, opened. `stack`: closes them. Raises InputError for two of one name."""
    from refactx.index.open import open_index

    limits = limits_of_environment()
    if not os.environ.get("REFACTX_OUTAGE_SECONDS"):
        limits = replace(limits, outage=OUTAGE_SECONDS)
    found = {one: stack.enter_context(open_index(one, db, limits=limits)) for one in given}
    names = [index.name for index in found.values()]
    if double := next((one for one in names if names.count(one) > 1), None):
        raise InputError(f"two indexes have the name {double}: serve them one by one")
    return found


Pair = tuple[str, "LanguageModel | ChatServer", str]
"""The name of a model, the model, and what was given for an index."""


def load_models(models: Mapping[str, str], indexes: Mapping[str, "Index"], machine: "EngineOptions") -> list[Pair]:
    """Return each model with each index of its tokenizer: the model's name, the model, loaded once, and the index's key.

    A model on a server that only chats goes with any index.

    Raises TokenizerMismatchError for a model without an index, or an index without a model.
    """
    from refactx.ask.chat_server import ChatServer
    from refactx.ask.checked import load_any

    found, refused = list[Pair](), dict[str, TokenizerMismatchError]()
    for name, model in models.items():
        loaded: LanguageModel | ChatServer | None = None
        for key, index in indexes.items():
            try:
                if loaded is None:
                    loaded = load_any(model, index, machine, lambda text: click.echo(f"refactx: {text}", err=True))
                elif not isinstance(loaded, ChatServer):
                    loaded.check_tokenizer(index)
                found.append((name, loaded, key))
            except TokenizerMismatchError as error:
                refused[key] = refused[name] = error
    used = {part for name, _, key in found for part in (name, key)}
    if unused := next((why for part, why in refused.items() if part not in used), None):
        raise unused
    return found


@dataclass(frozen=True, kw_only=True)
class ServiceOpener:
    """What the services of a server have in common.

    `prompt`, `weights`, `ranker`: as the options; the prompt is by default `taught`, that of the model; `stack`: closes what
    they use; `slots`: their limits;
    `names_index`: whether their names have that of the index; `writable`: the index to which clients write facts.
    """

    options: ServingOptions
    prompt: str | None
    weights: Path | None
    ranker: str | None
    taught: str | None
    db: str | None
    stack: ExitStack
    slots: "RequestSlots"
    names_index: bool
    writable: str | None = None

    def services(
        self, pairs: Sequence[Pair], opened: Mapping[str, "Index"], translator: "Translator | None" = None
    ) -> list["TextService"]:
        """Return a service for each pair of `load_models`. `translator`: of the first one."""
        from refactx.ask.examples import prompt_for
        from refactx.ask.prompt import check_prompt
        from refactx.server import Availability, TextService

        found, availabilities = list[TextService](), {key: Availability(self._checks.of(key)) for key in opened}
        for name, loaded, key in pairs:
            index, options = opened[key], self.options
            if self.names_index:
                options = replace(options, name=f"{name}@{index.name}", short=name)
            template = prompt_for(self.prompt or self.taught, index).weighted(self.weights, self.ranker)
            for note in check_prompt(template, index) if self.prompt and self.prompt.endswith(".toml") else ():
                click.echo(f"refactx: {note}", err=True)
            service = TextService(
                loaded,
                getattr(loaded, "tokenizer", None),
                index,
                options,
                prompt=template,
                availability=availabilities[key],
                translator=None if found else translator,
                slots=self.slots,
            )
            if self.writable in index.part_names:
                service.writer = self._writer(index, service.facts)
            found.append(service)
        return found

    def _writer(self, index: "Index", facts: "TreeFacts | None") -> "FactWriter":
        from refactx.build import work_dir_of
        from refactx.ingest import FactWriter

        return FactWriter(index, self._writing, self.writable or "", work_dir_of(None), facts)

    @cached_property
    def _writing(self) -> "Database":
        from refactx.index.open import database

        return self.stack.enter_context(database(self.db))

    @cached_property
    def _checks(self) -> "DatabaseChecks":
        from refactx.server import DatabaseChecks

        checks = DatabaseChecks(self.db)
        self.stack.callback(checks.close)
        return checks

    def uploads(self, pairs: Sequence[Pair], index: "Index") -> "Uploads":
        """Return how files become indexes for the models of an index."""
        from refactx.build import SentTo, build_sent
        from refactx.ingest.parallel import pickled
        from refactx.server.uploads import Uploads

        key = next(key for _, _, key in pairs)
        models = [(name, loaded) for name, loaded, other in pairs if other == key]
        to = SentTo(tokenizer=index.tokenizer, tokenizer_name=index.tokenizer_name, db=self.db)

        def open_made(name: str) -> list["TextService"]:
            made = open_indexes([name], self.db, self.stack)
            return self.services([(model, loaded, name) for model, loaded in models], made)

        return Uploads(most=self.options.max_upload, build=pickled(build_sent, to), services=open_made)


def read_keys(file: Path) -> tuple[str, ...]:
    """Return the keys in a file, one a line. Lines that begin with `#` are comments. Raises InputError if it has none."""
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the keys in {file} cannot be read: {error}") from error
    keys = tuple(line for line in lines if line and not line.startswith("#"))
    if not keys:
        raise InputError(f"{file} has no key: write one a line, such as the output of `openssl rand -hex 32`")
    return keys


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def names_of(host: str, allowed: Iterable[str]) -> tuple[str, ...]:
    """Return the names under which a server answers. Raises InputError for one with more than a name.

    >>> names_of("127.0.0.1", ["KB.example.org"])[-1]
    'kb.example.org'
    """
    for name in allowed:
        if not _NAME.fullmatch(name):
            raise InputError(
                f"--allow-host {name!r} is no name: give one without scheme, port and path, as kb.example.org"
            )
    return tuple(dict.fromkeys([*OWN_NAMES, host.lower(), *(name.lower().strip("[]") for name in allowed)]))


def origins_of(allowed: Iterable[str]) -> tuple[str, ...]:
    """Return the sites whose pages may ask, as browsers write them. Raises InputError for what is no site.

    >>> origins_of(["https://App.example.org/", "http://localhost:3000"])
    ('https://app.example.org', 'http://localhost:3000')
    """
    found = tuple(origin.lower().removesuffix("/") for origin in allowed)
    for origin in found:
        if not _ORIGIN.fullmatch(origin):
            raise InputError(
                f"--allow-origin {origin!r} is no site: give scheme, name and maybe port, as https://app.example.org, or *"
            )
    return found


def root_of(path: str) -> str:
    """Return the path before those of the server, without a slash at its end. Raises InputError for what is no path.

    >>> root_of("/kb/"), root_of("/")
    ('/kb', '')
    """
    found = path.removesuffix("/")
    if not _ROOT.fullmatch(found):
        raise InputError(f"--root-path {path!r} is no path: give one such as /kb")
    return found


def name_of(model: str) -> str:
    """Return the name of a model for clients.

    >>> name_of("demo"), name_of("Qwen/Qwen2.5-0.5B-Instruct"), name_of("/models/smollm2.gguf")
    ('demo', 'Qwen/Qwen2.5-0.5B-Instruct', 'smollm2')
    """
    if model.endswith(".gguf"):
        return Path(model).stem
    return Path(model).name if Path(model).exists() else model
