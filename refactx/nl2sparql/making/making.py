"""A first pack of an endpoint or a file of RDF, for a person to edit."""

from dataclasses import dataclass
from pathlib import Path

from pyoxigraph import RdfFormat, Store

from refactx.errors import InputError
from refactx.nl2sparql.making.bounded import BoundedQueries
from refactx.nl2sparql.making.examples import make_examples
from refactx.nl2sparql.making.surveying import survey
from refactx.nl2sparql.making.writing import prefixes_of, write_pack
from refactx.nl2sparql.pack import Pack, load_pack
from refactx.sparql.engines import SparqlEngine, StoreEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeOptions:
    """`title`: what prompts call the data; `endpoint`: the URL that is written into the pack; `languages`: of labels and
    questions; `queries`: the most that are run; `seconds`: the most time of each."""

    title: str = ""
    endpoint: str | None = None
    languages: tuple[str, ...] = ("en",)
    queries: int = 600
    seconds: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MadePack:
    """A pack that was made. `by`: `VoID` or `sampling`; `notes`: what failed, one line each."""

    pack: Pack
    by: str
    notes: tuple[str, ...]


def make_pack(engine: SparqlEngine, folder: Path, name: str, options: MakeOptions | None = None) -> MadePack:
    """Write a first pack of what an engine has into a folder, and return it as it was read back.

    It has the classes and properties with labels, domains and ranges, prefixes, graphs with rules for what each has alone,
    patterns, and examples that have rows. Raises InputError if the folder has a pack, or if no class and no property was
    found.
    """
    options = options or MakeOptions()
    if (folder / "pack.toml").exists():
        raise InputError(f"{folder} has a pack already: give another folder with --out, or delete this one")
    found = survey(engine, languages=options.languages, queries=options.queries, seconds=options.seconds)
    if not found.classes and not found.properties:
        reason = f": {found.notes[0]}" if found.notes else ", which has no data that can be read"
        raise InputError(f"no class and no property was found at {engine.name}{reason}")
    queries = BoundedQueries(engine, queries=options.queries, seconds=options.seconds)
    examples = make_examples(queries, found, prefixes_of(found), options.languages)
    write_pack(
        folder,
        name,
        found,
        examples,
        title=options.title or name,
        endpoint=options.endpoint,
        languages=options.languages,
    )
    notes = dict.fromkeys([*found.notes, *queries.notes])
    return MadePack(pack=load_pack(folder), by=found.by, notes=tuple(notes))


def open_file(path: Path) -> SparqlEngine:
    """Return an engine on the triples of a file, in memory. Raises InputError if it cannot be read.

    The format is that of the name's ending: `.ttl`, `.nt`, `.nq`, `.trig`, `.rdf`, `.jsonld` and so on.
    """
    kind = RdfFormat.from_extension(path.suffix.removeprefix("."))
    if kind is None:
        raise InputError(f"{path} has no ending of RDF: expected such as .ttl, .nt, .nq, .trig, .rdf or .jsonld")
    store = Store()
    try:
        store.load(path=str(path), format=kind, base_iri=path.resolve().as_uri())
    except (OSError, SyntaxError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    return StoreEngine(store)
