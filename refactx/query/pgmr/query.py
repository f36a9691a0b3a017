"""A query with placeholders for its URIs, and the mentions that they stand for."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from refactx.query.language import QueryError
from refactx.query.pgmr.inline import tokens_of
from refactx.query.pgmr.mentions import Mention, Refusal, RefusedError, Resolver, kind_of
from refactx.query.pgmr.prologue import Prologue
from refactx.query.pgmr.uris import ID
from refactx.query.sparql.tokens import joined


@dataclass(frozen=True, slots=True)
class PgmrQuery:
    """A query with placeholders.

    `sparql`: valid SPARQL, in which a placeholder stands for an id, with the namespace of its use before it:
    `wd:entity1`, `wdt:relation1`, `<http://www.wikidata.org/prop/relation1>`; `mentions`: by placeholder.
    """

    sparql: str
    mentions: Mapping[str, Mention]

    def resolved(self, resolver: Resolver) -> str:
        """Return the query as SPARQL with URIs. Raises RefusedError if a mention has no id, and as the resolver does."""
        found = dict(zip(self.mentions, resolver.resolve(list(self.mentions.values())), strict=True))
        refusals = {name: answer for name, answer in found.items() if isinstance(answer, Refusal)}
        if refusals:
            raise RefusedError(self.mentions, refusals)
        return self.with_ids({name: answer for name, answer in found.items() if isinstance(answer, str)})

    def with_ids(self, ids: Mapping[str, str]) -> str:
        """Return the query with ids in place of its placeholders.

        >>> query = PgmrQuery("ASK { ?x wdt:relation1 ?y }", {"relation1": Mention("relation", "nickname")})
        >>> query.with_ids({"relation1": "P1449"})
        'ASK { ?x wdt:P1449 ?y }'

        Raises QueryError if a placeholder has no id, or one of the other kind.
        """
        for name, mention in self.mentions.items():
            id_ = ids.get(name)
            if id_ is None or not ID.fullmatch(id_) or kind_of(id_) != mention.kind:
                expected = "P31" if mention.kind == "relation" else "Q42"
                raise QueryError(f"{name} = {mention} has the id {id_!r}: expected one such as {expected}")
        prologue = Prologue(tokens_of(self.sparql))
        texts = {term.start: term.renamed(ids[term.name]) for term in prologue.terms() if term.name in self.mentions}
        return joined(prologue.tokens, texts)


class BatchResolver:
    """A resolver of the mentions of some queries, which another resolver has resolved in one call."""

    def __init__(self, resolver: Resolver, queries: Iterable[PgmrQuery]) -> None:
        mentions = list(dict.fromkeys(mention for query in queries for mention in query.mentions.values()))
        self._answers = dict(zip(mentions, resolver.resolve(mentions), strict=True))

    def resolve(self, mentions: Sequence[Mention]) -> list[str | Refusal]:
        """Return the id of each mention, or why it has none. Raises KeyError for a mention of another query."""
        return [self._answers[mention] for mention in mentions]
