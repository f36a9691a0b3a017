"""A small index in a file of today's format, which later versions have to read: `python tests/support/files/kept_index.py`.

It writes `index-v4.refactx.zst` beside this module, on the embedded server. When the format gets another version, keep that
file, and give the new one the new number.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import zstandard

from refactx.index.file import FILE_VERSION
from refactx.ingest.source_options import Selection
from refactx.postgres.database import Database
from refactx.postgres.embedded.server import start
from refactx.share.export import export_index

KEPT = Path(__file__).parent
GRAPH = """@prefix wd: <http://www.wikidata.org/entity/> . @prefix wdt: <http://www.wikidata.org/prop/direct/> .
@prefix p: <http://www.wikidata.org/prop/> . @prefix ps: <http://www.wikidata.org/prop/statement/> .
@prefix pq: <http://www.wikidata.org/prop/qualifier/> . @prefix wikibase: <http://wikiba.se/ontology#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
wd:Q1 rdfs:label "Springfield"@en ; skos:altLabel "the town"@en ; wdt:P6 wd:Q2, wd:Q3 ; wdt:P1082 "8000" .
wd:Q2 rdfs:label "Ann Lee"@en ; wdt:P31 wd:Q5 . wd:Q3 rdfs:label "Bo Bérg"@en ; wdt:P31 wd:Q5 .
wd:Q5 rdfs:label "human"@en . wd:P6 rdfs:label "mayor"@en . wd:P31 rdfs:label "instance of"@en .
wd:P1082 rdfs:label "population"@en . wd:P580 rdfs:label "start time"@en .
@prefix s: <http://www.wikidata.org/entity/statement/> . wd:Q1 p:P6 s:1 , s:2 .
s:1 ps:P6 wd:Q2 ; wikibase:rank wikibase:NormalRank ; pq:P580 "1990-01-01T00:00:00Z"^^xsd:dateTime .
s:2 ps:P6 wd:Q3 ; wikibase:rank wikibase:NormalRank .
"""


def unpacked(folder: Path, version: int) -> Path:
    """Write the kept index of a version of the format into a folder; return its path."""
    file = folder / f"index-v{version}.refactx"
    file.write_bytes(zstandard.decompress((KEPT / f"{file.name}.zst").read_bytes()))
    return file


def main() -> None:
    """Ingest `GRAPH` and write its index."""
    sys.path.insert(0, str(KEPT.parents[1]))
    from support.ingest.tiny import ingest_tiny

    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # root starts the embedded server as another user
        source, file = folder / "graph.ttl", folder / "index.refactx"
        source.write_text(GRAPH, encoding="utf-8")
        with start(folder / "home") as server:
            ingest_tiny(server.url, source, index="kept", selection=Selection(inverse=True, aliases=True))
            export_index(Database(server.url), "kept", file)
        (KEPT / f"index-v{FILE_VERSION}.refactx.zst").write_bytes(zstandard.compress(file.read_bytes(), 19))


if __name__ == "__main__":
    main()
