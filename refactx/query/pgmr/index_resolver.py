"""The ids of mentions by the names of an index: exact names, and labels that only one entity has.

As in the paper, the label decides if a single entity of the index has it; else the description has to be that of one.
"""

from collections.abc import Iterable, Sequence

from refactx.fact import DESCRIPTIONS
from refactx.index.index import Index
from refactx.index.names import Named
from refactx.query.facts import TreeFacts
from refactx.query.pgmr.index_lookup import Candidate, ExactLookup, FoldedLookup, Lookup
from refactx.query.pgmr.index_names import full_name
from refactx.query.pgmr.mentions import Mention, Refusal

SHOWN = 3
"""The most names that a refusal shows."""


class IndexResolver:
    """A resolver by the names of an open index (`refactx.query.pgmr.Resolver`). Methods raise as `Index.children` does.

    `ignore_case`: for text in lower case. Then each call of `resolve` reads all names of the index, which takes some
    seconds for a million of them: resolve the mentions of many queries at once.
    """

    def __init__(self, index: Index, *, ignore_case: bool = False) -> None:
        self._index, self._facts, self._ignore_case = index, TreeFacts(index), ignore_case

    def resolve(self, mentions: Sequence[Mention]) -> list[str | Refusal]:
        """Return the id of each mention, or why it has none.

        A mention means the entity or property of this label and description, or else the only one of this label. Without
        a description, it means the one whose name is the label; if the description is None, the only one of the label.

        IndexResolver(index).resolve([Mention("relation", "nickname")])  # ["P1449"]
        """
        wanted = list(dict.fromkeys(mentions))
        lookup: Lookup = ExactLookup(self._index, self._facts, wanted)
        if self._ignore_case:
            lookup = FoldedLookup(wanted, self._all_names())
        answers = {mention: self._choose(mention, lookup) for mention in wanted}
        return [answers[mention] for mention in mentions]

    def _choose(self, mention: Mention, lookup: Lookup) -> str | Refusal:
        if mention.description is not None:
            whole = lookup.called(full_name(mention.label, mention.description), mention.kind)
            if len(whole) == 1:
                return whole[0].id
        found = list(lookup.called(mention.label, mention.kind))
        if mention.kind == "entity":
            described = [one for one in found if mention.description and self._is_described(one, mention, lookup)]
            if len(described) == 1:
                return described[0].id
            found += [one for one in lookup.labelled(mention.label) if one not in found]
        if len(found) == 1:
            return found[0].id
        one, many = ("entity", "entities") if mention.kind == "entity" else ("property", "properties")
        if not found:
            return Refusal(f"no {one} of the index is called <{mention.label}>")
        some = ", ".join([f"<{candidate.name}>" for candidate in found[:SHOWN]] + ["…"] * (len(found) > SHOWN))
        which = ", none of them with this description" if mention.description else ""
        return Refusal(f"{len(found)} {many} of the index are called <{mention.label}>{which}: {some}")

    def _is_described(self, candidate: Candidate, mention: Mention, lookup: Lookup) -> bool:
        """Return whether an entity whose name is the label alone has a fact with the description of a mention."""
        given = [text for predicate in DESCRIPTIONS for _, text in self._facts.objects([candidate.name], predicate)]
        return lookup.fold(mention.description or "") in map(lookup.fold, given)

    def _all_names(self) -> Iterable[tuple[str, Named]]:
        for key, block in self._index.name_rows():
            yield from self._index.unpack_names(key, block).items()
