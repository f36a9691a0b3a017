"""Linking: the entities, predicates and values of an open index that names mean, as people write them.

`Linker` finds them, `TreeFacts.linker` is that of an index. It looks a name up as it is written, then in any spelling
(`fold`), by aliases, and with its parts in the other order (`Lee, Ann`); of several entities it takes the one with facts of
the predicate beside the name, then the one with most facts. `Suggestion` is what a name without a meaning is like.
"""

from refactx.linking.linker import AmbiguousNameError, FoundName, LinkedName, Linker, Suggestion, did_you_mean
from refactx.linking.names import alike, bare_name, fold, named_among, unaccented

__all__ = ["AmbiguousNameError", "FoundName", "LinkedName", "Linker", "Suggestion", "alike", "bare_name"]
__all__ += ["did_you_mean", "fold", "named_among", "unaccented"]
