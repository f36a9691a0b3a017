"""Facts out of documents.

| names | what they are |
|---|---|
| `Document`, `documents_of`, `files_of` | the documents of files, as texts |
| `run`, `run_file`, `writer_of` | a run over documents that goes on where it was stopped, and how it writes facts |
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.extraction.files import Document, documents_of, files_of
    from refactx.extraction.runs import run, run_file, writer_of

__all__ = ["Document", "documents_of", "files_of", "run", "run_file", "writer_of"]
__getattr__ = lazy_exports(
    "refactx.extraction", {"files": "Document documents_of files_of", "runs": "run run_file writer_of"}
)
