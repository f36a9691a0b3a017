"""Questions to SPARQL queries for any endpoint, by what its domain pack knows about it.

`Translator` translates; `validate` checks a query; `frozen_engine` runs one on a pack's own data;
`refactx.nl2sparql.retrieval` and `held` have the parts. The names here are imported when they are first used.
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.nl2sparql.agent import Bounds, Event
    from refactx.nl2sparql.attempt import Attempt, Translation
    from refactx.nl2sparql.frozen import frozen_engine
    from refactx.nl2sparql.pack import Example, Pack, Pattern, SchemaTerm, built_in_packs, load_pack
    from refactx.nl2sparql.patterns import PatternDetector, detect
    from refactx.nl2sparql.retrieval import Retriever
    from refactx.nl2sparql.translator import TranslateOptions, Translator
    from refactx.nl2sparql.validation import Problem, Report, validate

__all__ = ["Attempt", "Bounds", "Event", "Example", "Pack", "Pattern", "PatternDetector", "Problem", "Report"]
__all__ += ["Retriever", "SchemaTerm", "TranslateOptions", "Translation", "Translator", "built_in_packs", "detect"]
__all__ += ["frozen_engine", "load_pack", "validate"]
__dir__ = __all__.copy
__getattr__ = lazy_exports(
    __name__,
    {
        "agent": "Bounds Event",
        "attempt": "Attempt Translation",
        "frozen": "frozen_engine",
        "pack": "Example Pack Pattern SchemaTerm built_in_packs load_pack",
        "patterns": "PatternDetector detect",
        "retrieval": "Retriever",
        "translator": "TranslateOptions Translator",
        "validation": "Problem Report validate",
    },
)
