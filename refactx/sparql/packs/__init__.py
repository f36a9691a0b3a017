"""Questions to SPARQL queries: for the endpoint of a domain pack, or with ids of an index of Wikidata.

`Translator` translates; `make_writer` returns a way to write queries on an index; `validate` checks a query;
`invented_engine` runs one on a pack's own data. The names here are imported when they are first used.
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.sparql.packs.constrained import constrained_model
    from refactx.sparql.packs.invented import invented_engine
    from refactx.sparql.packs.pack import Pack, PackExample, QuestionPattern, built_in_packs, load_pack
    from refactx.sparql.packs.prompt import WRITERS, SparqlPrompt, WriterName, WritingTask, load_sparql_prompt
    from refactx.sparql.packs.retrieval import PatternDetector, Retriever, detect
    from refactx.sparql.packs.rules import SchemaTerm
    from refactx.sparql.packs.translation import Attempt, Translation
    from refactx.sparql.packs.translator import Bounds, Event, TranslateOptions, Translator
    from refactx.sparql.packs.validation import Problem, QuestionCheck, ValidationReport, validate
    from refactx.sparql.packs.writers import PolicyWriter, make_writer, model_at, open_writers

__all__ = ["WRITERS", "Attempt", "Bounds", "Event", "Pack", "PackExample", "PatternDetector", "PolicyWriter"]
__all__ += ["Problem", "QuestionCheck", "QuestionPattern", "Retriever", "SchemaTerm", "SparqlPrompt"]
__all__ += ["TranslateOptions", "Translation", "Translator", "ValidationReport", "WriterName", "WritingTask"]
__all__ += ["built_in_packs", "constrained_model", "detect", "invented_engine", "load_pack", "load_sparql_prompt"]
__all__ += ["make_writer", "model_at", "open_writers", "validate"]
__dir__ = __all__.copy
__getattr__ = lazy_exports(
    __name__,
    {
        "constrained": "constrained_model",
        "invented": "invented_engine",
        "pack": "PackExample Pack QuestionPattern built_in_packs load_pack",
        "prompt": "WRITERS SparqlPrompt WritingTask WriterName load_sparql_prompt",
        "retrieval": "PatternDetector Retriever detect",
        "rules": "SchemaTerm",
        "translation": "Attempt Translation",
        "translator": "Bounds Event TranslateOptions Translator",
        "validation": "Problem QuestionCheck ValidationReport validate",
        "writers": "PolicyWriter make_writer model_at open_writers",
    },
)
