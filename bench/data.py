"""The data and the tokenizers of the measurements.

Without `REFACTX_BENCH_DATA`, these are the committed sample and the demo model's tokenizer. If it names a folder, they
are every `*.nt.gz`, `*.nt`, `*.txt` and `*.txt.gz` in it or one folder below, and every `tokenizer.json`, also gzipped.
"""

import gzip
import os
from dataclasses import replace
from pathlib import Path

from refactx.ingest.build import Build
from refactx.ingest.knowledge.knowledge_base import KnowledgeBase
from refactx.ingest.new_index import IngestSteps
from refactx.ingest.parsers.formats import recognised
from refactx.ingest.work import Resources
from refactx.models import demo_model_folder, load_tokenizer

SOURCES = ("*.nt.gz", "*.nt", "*.txt", "*.txt.gz")
SAMPLE = Path(__file__).parent.parent / "refactx" / "data" / "wikidata-sample.nt.gz"


def sources() -> list[Path]:
    """Return the sources to ingest, smallest first."""
    folder = os.environ.get("REFACTX_BENCH_DATA")
    if not folder:
        return [SAMPLE]
    found = {path for pattern in SOURCES for depth in ("", "*/") for path in Path(folder).glob(depth + pattern)}
    return sorted(found, key=lambda path: path.stat().st_size)


def tokenizers(work: Path) -> dict[str, Path]:
    """Return the folders of tokenizers by their names; gzipped tokenizers are unpacked in `work`."""
    found = {"smollm2": demo_model_folder()}
    folder = os.environ.get("REFACTX_BENCH_DATA")
    if folder:
        for path in sorted(Path(folder).glob("**/tokenizer.json.gz")):
            target = work / path.parent.name
            target.mkdir(exist_ok=True)
            (target / "tokenizer.json").write_bytes(gzip.decompress(path.read_bytes()))
            found[path.parent.name] = target
        found |= {path.parent.name: path.parent for path in sorted(Path(folder).glob("**/tokenizer.json"))}
    return found


def knowledge_of(source: Path, work: Path) -> KnowledgeBase:
    """Build the knowledge base of a source, below the folder `work`."""
    work.mkdir(parents=True, exist_ok=True)
    tokenizer, name = load_tokenizer(str(demo_model_folder()))  # that no knowledge base depends on
    build = Build(
        index="bench", work=work, tokenizer=tokenizer, tokenizer_name=name, resources=Resources(progress=False)
    )
    inputs = build.inputs([source])
    return IngestSteps(replace(build, selection=recognised(inputs, build.selection, None)), inputs).knowledge_base()
