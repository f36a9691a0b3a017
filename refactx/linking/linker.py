"""The linker of an open index: what names mean, as people write them, and what those without a meaning are like."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Protocol

from refactx.errors import InputError
from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS, counted
from refactx.index.index import Index
from refactx.iris import ids_in, ids_written_as
from refactx.linking.names import (
    alike,
    bare_name,
    fold,
    in_other_number,
    in_other_orders,
    is_spelt_as,
    most_like,
    significant_words,
    word_ends,
    words_folded,
)
from refactx.linking.spellings import Spellings

COMPARED = 20
"""The most entities of a name whose facts are counted."""
CLEARLY = 2
"""So many times the facts of the next one make an entity the one that a name means, where that has to be clear."""
SUGGESTED = 5
"""The suggestions that an error has."""
OTHERS = 2
"""The most other entities of a name that a note names."""
NEAR_NAMES = 200
"""Names with the same beginning that are compared to find those near another."""
COMPARED_WHOLE, COMMON_NAMES = 200_000, 5000
"""The most facts of an index whose names with most facts, so many, are compared too: that takes 0.2 s."""
KIND_OF = 5
"""So many names end with a word that says what kind of thing they name: `Topping`, `Airport`."""

ByMeaning = Callable[[str, int], Sequence[str]]
"""Returns names of entities that are near to a text by the meaning of its words, at most so many: a memory."""


class LinkedFacts(Protocol):
    """The facts that tell what a name means: a part of `refactx.walks.language.FactSet`, whose methods these are."""

    def predicates(self, subject: str) -> Mapping[str, int]: ...
    def counts(self, subjects: Sequence[str], predicate: str) -> Sequence[int]: ...
    def objects(self, subjects: Sequence[str], predicate: str) -> Iterator[tuple[str, str]]: ...
    def describe(self, predicates: Sequence[str]) -> Mapping[str, object]: ...
    def ids(self, names: Sequence[str]) -> Mapping[str, str]: ...
    def names(self, ids: Sequence[str], *, inverse: bool = False) -> Mapping[str, str]: ...
    @property
    def size(self) -> int: ...


class AmbiguousNameError(InputError):
    """A name that may mean several entities. `candidates`: these, each with its number of facts, most facts first."""

    def __init__(self, label: str, candidates: Sequence[tuple[str, int]]) -> None:
        shown = ", ".join(f"<{name}> ({facts:,} facts)" for name, facts in candidates[:SUGGESTED])
        super().__init__(f"<{label}> is the label or alias of several entities: write one of {shown}")
        self.candidates = candidates


@dataclass(frozen=True, slots=True)
class LinkedName:
    """A `label` as it was written, and the `name` of the index that it means; `among`: how many entities have that label
    or alias; `others`: names of some of the others."""

    label: str
    name: str
    among: int = 1
    others: tuple[str, ...] = ()

    @property
    def is_as_written(self) -> bool:
        """Whether the label is the name, and no other entity has it."""
        return self.name == self.label and not self.others

    @property
    def note(self) -> str:
        """What the user should know of it.

        >>> LinkedName("Ann", "Ann (a poet)", 3, ("Ann (a town)",)).note
        '<Ann> is taken as <Ann (a poet)>; 2 others have this name, such as <Ann (a town)>'
        """
        taken = f"<{self.label}> is taken as <{self.name}>"
        if not self.others:
            return taken
        have = f"{counted(self.among - 1, 'other')} {'has' if self.among == 2 else 'have'} this name"
        shown = ", ".join(f"<{name}>" for name in self.others)
        return f"{taken}; {have}{', such as' if self.among - 1 > len(self.others) else ':'} {shown}"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A `name` of the index that one without a meaning is like; `alias`: the alias that is like it, empty for the name.

    >>> str(Suggestion("New York Gothams (baseball club)", "New York City"))
    '<New York City> (alias of <New York Gothams (baseball club)>)'
    """

    name: str
    alias: str = ""

    def __str__(self) -> str:
        return f"<{self.alias}> (alias of <{self.name}>)" if self.alias else f"<{self.name}>"


def did_you_mean(suggestions: Sequence[Suggestion | str]) -> str:
    """Return suggestions, or names, as the end of a message; empty if there are none.

    >>> did_you_mean(["Bob", Suggestion("Eve", "Evi")])
    ': did you mean <Bob>, <Evi> (alias of <Eve>)?'
    """
    shown = ", ".join(f"<{one}>" if isinstance(one, str) else str(one) for one in suggestions)
    return f": did you mean {shown}?" if shown else ""


@dataclass(frozen=True, slots=True)
class FoundName:
    """An entity that a name may mean. `facts`: how many it has; `by`: how it was found: its `name`, an `alias`, a name that
    is `near` in its letters, the `meaning` of the words, or an `id`."""

    name: str
    facts: int
    by: str


class Linker:
    """What names mean in an open index. `facts`: the index's own. Methods raise as `Index.children` does.

    Look-ups of entities read a few rows of the tree, whatever its size. The names of all predicates are read when one is
    not written as the index does: some 0.1 s for 4,000 of Wikidata's; in other graphs all names are read for that.

        linker = TreeFacts(index).linker
        linker.entity("j r r tolkien")  # LinkedName("j r r tolkien", "J. R. R. Tolkien", 1)
        linker.predicate("Instance_Of").name  # "instance of"
    """

    def __init__(self, index: Index, facts: LinkedFacts) -> None:
        self._index, self._facts = index, facts
        self._tables: tuple[int, ...] | None = None
        self._predicates: dict[str, list[str]] = {}
        self._few: tuple[tuple[int, ...], Mapping[str, Sequence[str]], frozenset[str]] | None = None

    # --- Entities

    def entity(
        self, label: str, fits: Sequence[str] = (), *, clearly: bool = False, of_alias: bool = False
    ) -> LinkedName | None:
        """Return the entity that a name means; None if it means none (`suggestions`).

        A name of the index means itself if it has facts with the predicates in `fits`, or if nothing else of this name
        has. Of the other entities of a name, those with such facts are meant, and of these the one with most facts.

        `clearly`: raise AmbiguousNameError if that is not `CLEARLY` so. `of_alias`: `Bob (alias)` means its entities.
        """
        if of_alias and label.endswith(ALIAS):
            return self._chosen(label, self.aliased(label.removesuffix(ALIAS)), fits, is_name=False, clearly=clearly)
        is_name = self.is_name(label)
        if is_name and all(self._facts.counts([label], predicate)[0] for predicate in fits):
            return _linked(label, label, [*self.labelled(label), *self.aliased(label)])
        return self._chosen(label, self.namesakes(label), fits, is_name=is_name, clearly=clearly)

    def _chosen(
        self, label: str, names: Sequence[str], fits: Sequence[str], *, is_name: bool, clearly: bool
    ) -> LinkedName | None:
        """Return the one of some other names that a label means; the label, if it is a name and none of them fits."""
        fitting, every = list(names), [label, *names] if is_name else names
        for predicate in fits:
            counts = self._facts.counts(fitting, predicate)
            fitting = [name for name, count in zip(fitting, counts, strict=True) if count]
        if not fitting and is_name:
            return _linked(label, label, every)
        found = [(name, self.count(name)) for name in (fitting or names)[:COMPARED]]
        found.sort(key=lambda one: -one[1])
        if not found:
            return None
        if clearly and len(found) > 1 and found[0][1] < CLEARLY * max(found[1][1], 1):
            if is_name:
                return _linked(label, label, every)
            raise AmbiguousNameError(label, found)
        return _linked(label, found[0][0], [*(name for name, _ in found), *every])

    def is_name(self, text: str) -> bool:
        """Return whether a text is the name of an entity, or of what begins facts, as the index writes it."""
        return bool(self._facts.predicates(text) or self._facts.ids([text]))

    def namesakes(self, label: str) -> list[str]:
        """Return the other entities that a name may mean: those with it as a label or an alias; or else in any spelling of
        it; or else with its parts in the other order, for `Lee, Ann` and for `Ann Lee`; or else in the singular or plural; or
        else the one with this id; or else, if it is no name, those of the one label that it is a part of (`with_part`)."""
        found = [name for name, _ in self._namesakes(label)]
        return found if found or self.is_name(label) else self.with_part(label)

    def _namesakes(self, label: str) -> list[tuple[str, str]]:
        """Return `namesakes`, each with what has the label: `name`, `alias` or `id`."""
        found = self._spelt(label)
        for text in (label, *in_other_orders(label), *in_other_number(label)) if not found else ():
            for spelling in () if found else self._spellings.of(text):
                if "," in text and "," not in label + spelling:
                    continue  # `Lee Ann` is not `Ann Lee`
                own = {spelling: "name"} if self._facts.predicates(spelling) else {}
                found = {**own, **self._spelt(spelling), **found}
        found = found or dict.fromkeys(self._with_id(label), "id")
        return [(name, by) for name, by in found.items() if name != label]

    def _with_id(self, text: str) -> list[str]:
        """Return the name of the id that a text is, as people write it (`ids_written_as`)."""
        return list(dict.fromkeys(self._facts.names(ids_written_as(text)).values()))

    def ids_in(self, text: str) -> list[tuple[int, int, str]]:
        """Return the ids in a text, as people write them: the half-open range of characters of each, and the name that it has
        in the index. At most `COMPARED` words are looked up, in one query."""
        words = list(islice(ids_in(text), COMPARED))
        names = self._facts.names([id_ for *_, ids in words for id_ in ids]) if words else {}
        return [(start, stop, names[id_]) for start, stop, ids in words for id_ in ids[-1:] if id_ in names]

    def beginning(self, text: str) -> dict[int, list[str]]:
        """Return the entities whose names, in any spelling, are the first words of a text (`is_spelt_as`), by the number of
        characters of these."""
        ends, found = word_ends(text), defaultdict[int, list[str]](list)
        for spelling in self._spellings.beginning(text):
            end = ends.get(len(fold(spelling)))
            if end is not None and is_spelt_as(text[:end], spelling):
                found[end] += [*([spelling] if self._facts.predicates(spelling) else []), *self._spelt(spelling)]
        return found

    def _spelt(self, label: str) -> dict[str, str]:
        own = dict.fromkeys(self.labelled(label), "name")
        return own | {name: "alias" for name in self.aliased(label) if name not in own}

    def labelled(self, label: str) -> list[str]:
        """Return names of entities with facts that are a label and a description, those with most facts first."""
        names = (text[1:-1] for text, _ in self._index.complete(f"<{label} (", NEAR_NAMES))
        return [name for name in names if name.endswith(")") and not name.endswith(ALIAS)]

    def aliased(self, alias: str) -> list[str]:
        """Return names of entities that have an alias."""
        return [entity for _, entity in self._facts.objects([f"{alias}{ALIAS}"], ALIAS_OF)]

    def with_part(self, text: str) -> list[str]:
        """Return the entities of the one label of which a text is a part, in whole words: `Hofstadter` of `Leonard Hofstadter`.
        None, if it is a part of several labels; but `Ham` is `Ham Topping` beside `Parma Ham Topping`, if many are toppings.

        All names of a small index are looked at, of another those that begin with the text.
        """
        words = words_folded(text)
        if all(map(str.isdigit, significant_words(text))) or bare_name(text) != text:
            return []
        names, kinds = self._few_names
        if not names:
            begins = dict.fromkeys((text, text[:1].swapcase() + text[1:]))
            found = [one[1:-1] for begin in begins for one, _ in self._index.complete(f"<{begin}", NEAR_NAMES)]
            names = {name: words_folded(name) for name in found} if len(found) < NEAR_NAMES else {}
        parts = [
            name
            for name, whole in names.items()
            if any(whole[at : at + len(words)] == words for at in range(len(whole) - len(words) + 1))
        ]
        of_kind = [name for name in parts if names[name][:-1] == words and names[name][-1] in kinds]
        entities = dict.fromkeys(one for name in of_kind or parts for one in self._called(name))
        return list(entities) if len({bare_name(one) for one in entities}) == 1 else []

    def _called(self, name: str) -> list[str]:
        return self.aliased(name.removesuffix(ALIAS)) if name.endswith(ALIAS) else [name]

    @property
    def has_few_names(self) -> bool:
        """Whether the index is so small that any part of a name is found."""
        return bool(self._few_names[0])

    @property
    def _few_names(self) -> tuple[Mapping[str, Sequence[str]], frozenset[str]]:
        """The names that begin facts with their words, and the last words of many of them; nothing of a large index."""
        if self._few is None or self._few[0] != self._index.name_tables:
            tables, is_small = self._index.name_tables, self._facts.size <= COMPARED_WHOLE
            found = [text[1:-1] for text, _ in self._index.complete("<", COMMON_NAMES)] if is_small else []
            names = {name: words for name in found if (words := words_folded(name))}
            names = names if len(found) < COMMON_NAMES else {}
            last = Counter(words[-1] for words in names.values() if len(words) > 1)
            self._few = tables, names, frozenset(word for word, count in last.items() if count >= KIND_OF)
        return self._few[1:]

    def count(self, name: str) -> int:
        """Return how many facts an entity has."""
        return sum(self._facts.predicates(name).values())

    def spellings(self, text: str) -> list[str]:
        """Return the names that begin facts, or labels of these, that a text is in another spelling (`fold`)."""
        return self._spellings.of(text)

    @cached_property
    def _spellings(self) -> Spellings:
        return Spellings(self._index, self._index.tokenizer)

    def entities_beginning(self, text: str, most: int) -> list[str]:
        """Return names and aliases of entities with facts that begin with a text, those with most facts first."""
        return [found[1:-1].removesuffix(ALIAS) for found, _ in self._index.complete(f"<{text}", most)]

    # --- Predicates

    def predicate(self, label: str, subjects: Sequence[str] = ()) -> LinkedName | None:
        """Return the predicate that a name means, in any spelling, by an alias or by its id; None if it means none, or
        several. `subjects`: entities that may have it; theirs come first, also those without an id."""
        if self._facts.describe([label]) or (subjects and any(self._facts.counts(subjects[:COMPARED], label))):
            return LinkedName(label, label)
        own = {name for one in subjects[:COMPARED] for name in self._facts.predicates(one)}
        folded = fold(label)
        named = [name for name in own if fold(name) == folded] or self.predicates_called(label)
        return LinkedName(label, named[0]) if len(named) == 1 else None

    def predicates_called(self, label: str) -> list[str]:
        """Return the predicates of the index that a name is in another spelling, or an alias of: those that differ in case
        alone, or else all; or else the one with this id."""
        named = self._by_folded.get(fold(label), ())
        same_letters = [name for name in named if name.casefold() == label.casefold()]
        return same_letters or list(named) or [name for name in self._with_id(label) if self._facts.describe([name])]

    def predicates_beginning(self, text: str) -> list[str]:
        """Return the names of predicates that begin with a text, in alphabetical order."""
        return sorted({name for names in self._by_folded.values() for name in names if name.startswith(text)})

    def near_predicates(self, label: str, most: int = SUGGESTED) -> list[Suggestion]:
        """Return predicates of the index that are like a name, or have an alias that is, the most similar first."""
        aliases = {alias: name for name, some in self._index.property_aliases.items() for alias in some}
        names = self.predicates_beginning("")
        found = (
            Suggestion(one) if one not in aliases or one in names else Suggestion(aliases[one], one)
            for one in alike(label, [*names, *aliases], most)
        )
        return list({one.name: one for one in found}.values())

    @property
    def has_no_properties(self) -> bool:
        """Whether no predicate has an id, as those of ready-made facts: then any label may be a predicate."""
        return not self._by_folded.keys() - {fold(name) for name in (*DESCRIPTIONS, ALIAS_OF)}

    @property
    def _by_folded(self) -> Mapping[str, Sequence[str]]:
        """The predicates of the index by the folded texts of their names, and of aliases that are no such text."""
        if self._tables != self._index.name_tables:
            tables, found, others = self._index.name_tables, defaultdict[str, list[str]](list), set[tuple[str, str]]()
            for name in dict.fromkeys((*self._index.property_names(), *DESCRIPTIONS[:1], ALIAS_OF)):
                found[fold(name)].append(name)
            for name, aliases in self._index.property_aliases.items():
                others |= {(fold(alias), name) for alias in aliases if fold(alias) not in found}
            for folded, name in sorted(others):
                found[folded].append(name)
            self._predicates, self._tables = dict(found), tables
        return self._predicates

    # --- Suggestions

    def suggestions(self, name: str, most: int = SUGGESTED) -> list[Suggestion]:
        """Return entities with facts whose names or aliases are like a name, the most similar first.

        In a large index, these are names that begin as the name or one of its words does.
        """
        if not fold(name):
            return []
        texts = [name, *(name[: len(name) * part // 4] for part in (3, 2, 1)), *significant_words(name)]
        begins = dict.fromkeys(
            f"{text[:1].swapcase() if other else text[:1]}{text[1:]}" for text in texts for other in (0, 1)
        )
        found = self._like(name, [f"<{text}" for text in begins if len(text) >= 2], NEAR_NAMES, most)
        if not found and self._facts.size <= COMPARED_WHOLE:
            found = self._like(name, ["<"], COMMON_NAMES, most)
        meant = defaultdict[str, list[Suggestion]](list)
        for alias, entity in self._facts.objects([one for one in found if one.endswith(ALIAS)], ALIAS_OF):
            meant[alias].append(Suggestion(entity, alias.removesuffix(ALIAS)))
        by_name = dict[str, Suggestion]()
        for one in (one for name in found for one in meant.get(name, [Suggestion(name)])):
            if one.name not in by_name or not one.alias:  # its own name says more than an alias
                by_name[one.name] = one
        return list(by_name.values())[:most]

    def _like(self, name: str, prefixes: Sequence[str], limit: int, most: int) -> list[str]:
        found = (self._index.complete(prefix, limit) for prefix in prefixes)
        return most_like(name, dict.fromkeys(text[1:-1] for texts in found for text, _ in texts), most)

    def find(self, name: str, most: int, meaning: ByMeaning | None = None) -> list[FoundName]:
        """Return at most `most` entities that a name may mean: those called so, with most facts first; then, if there are
        none, those near by the meaning of the words; then those with like letters."""
        called = {name: "name"} if self._facts.predicates(name) else {}
        called |= dict(self._namesakes(name)[:COMPARED])
        counts = {one: self.count(one) for one in called}
        by = {one: called[one] for one in sorted(called, key=lambda one: -counts[one])}
        if meaning is not None and not by:
            by = dict.fromkeys(meaning(name, most), "meaning")
        by |= {one.name: "near" for one in self.suggestions(name, most) if one.name not in by}
        return [FoundName(one, counts[one] if one in counts else self.count(one), by[one]) for one in list(by)[:most]]


def _linked(label: str, name: str, every: Sequence[str]) -> LinkedName:
    """Return what a label means. `every`: the entities of this name, those named first that are more likely."""
    others = [one for one in dict.fromkeys(every) if one != name]
    return LinkedName(label, name, 1 + len(others), tuple(others[:OTHERS]))
