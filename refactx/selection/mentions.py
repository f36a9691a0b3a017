"""The names of the tree, the predicates and the numbers that a question names, found by its letters without a model.

From each word the tree is walked along the question, whatever the case of letters and however the tokenizer cuts words.
So `where was barack obama born` finds `<Barack Obama (...)>`, in a few hundred lookups and a few milliseconds.
What is spelt otherwise, and ids, are found by the linker.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, islice
from typing import Any, Literal, Self, get_args

from refactx.decoding.machine import Machine
from refactx.decoding.states import InFact
from refactx.engines.engine import IdPath
from refactx.english import plural
from refactx.entity_ids import is_wikidata_property
from refactx.linking.linker import Linker
from refactx.linking.names import bare_name, in_other_orders, unaccented, words_folded
from refactx.selection.candidates import NamedEntity, entities_of_name, path_of_name, walk_by_facts
from refactx.selection.statements import StatementWords
from refactx.walks.checks import LinkedFactSet
from refactx.walks.language import ASKED_HEADS, OPERATORS, FactSet, Head, Operator

_OF_LANGUAGE = ("asking", "either", "than", "numbers", "yes", "no", "unknown", "negation")
TableWord = Literal["sum", "average", "difference", "per", "show"]
"""What words of a question ask for beside a head: a sum, an average, a difference, groups by what follows, or columns."""
WORDS = 8
"""The most words of a mention span."""

MOST_LINKED = 100
"""The most words of a question that names in other spellings are looked for at."""

_WORD = re.compile(r"[^\W_]+")
_WORDS = re.compile(rf"\b(?=(([^\W_]+)(?:[\W_]+[^\W_]+){{0,{WORDS - 1}}}))[^\W_]+")
_TITLE_OR_WORD = re.compile(r"(?<=\s)[A-Z][^\W_]*(?: [A-Z][^\W_]*)*|[^\W_]+")
_INITIAL = re.compile(r"(?<=\b\w)(?![\w.'’])")
"""Where a full stop may be missing after a letter that is a word: `J R R Tolkien`."""
_PLURAL = (("ies", "y"), ("es", ""), ("s", ""))
_NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?(?!\w|\.\d|,\d{3}(?!\d))"
)
LONGEST_VALUE = 60
"""The most characters of a literal that a question may name."""
WIDEST = 64
"""How many names are looked at to find the classes of a graph."""
MOST_ENTITIES = 3
"""The most entities of a name, those with most facts."""


@dataclass(frozen=True, slots=True)
class MentionSpan:
    """A name of the tree that stands in a question.

    `start`, `stop`: the half-open range of its characters in the question; `ids`: those of the name after the state
    that it was looked for from, up to its closing bracket or to the parenthesis that tells entities of one name
    apart (the last one may have text beyond that); `state`: that after them. `is_whole`: whether the question has
    its id, or its description too.
    """

    start: int
    stop: int
    ids: IdPath
    state: InFact
    is_whole: bool = False

    def is_within(self, other: "MentionSpan") -> bool:
        """Return whether all of its words are of another span too."""
        return other.start <= self.start and self.stop <= other.stop


class FoldedTokens:
    """The ids of a tokenizer by their folded text, so that `<barack` finds `<Bar` and `<bar`.

    Each has its text in lower case besides, with accents: a part of a letter is found in a text with that letter.
    """

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        ids, closing = defaultdict[bytes, list[int]](list), defaultdict[bytes, list[int]](list)
        for token, piece in enumerate(token_bytes):
            low = piece.lower()  # (the case of ASCII alone)
            ids[low].append(token)
            if piece.isascii():
                continue
            with suppress(UnicodeDecodeError):  # a part of a letter
                if (folded := unaccented(piece.decode()).encode()) != low:
                    ids[folded].append(token)
        ids.pop(b"", None)
        for text, same in ids.items():
            for end in _ends_of_name(text) if b">" in text or b"(" in text else ():
                closing[text[:end]] += same
        self._ids, self._closing, self._longest = dict(ids), dict(closing), max(map(len, ids), default=0)

    def beginning(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Yield the ids with which a folded text may begin, and how many bytes each has."""
        for size in range(1, min(len(text), self._longest) + 1):
            for token in self._ids.get(text[:size], ()):
                yield token, size

    def closing(self, text: bytes) -> Sequence[int]:
        """Return the ids whose folded text begins with `text`, which is the rest of a name with what closes it."""
        return self._closing.get(text, ())


@dataclass(frozen=True, slots=True)
class _Span:
    """Words of a question from `start` to `stop`, as the tree may spell them: `text`, in lower case."""

    start: int
    stop: int
    text: str


def find_mention_spans(
    machine: Machine,
    state: InFact,
    tokens: FoldedTokens,
    question: str,
    is_function: Callable[[str], bool] = lambda word: False,
) -> list[MentionSpan]:
    """Return the mention spans of a question: names that begin a fact after `state`, the longest of each place in it.

    A name is left out within a longer one, unless that is the same with a word before it that `is_function`. A plural finds
    the singular too.
    """
    found: dict[tuple[int, int], dict[IdPath, MentionSpan]] = {}
    words = list(_WORD.finditer(question))
    texts = defaultdict[str, defaultdict[bytes, list[_Span]]](lambda: defaultdict(list))  # by their first word
    for first in range(len(words)):
        for span in _spans(question, words[first : first + WORDS]):
            texts[_WORD.findall(span.text)[0]][f" <{span.text}".encode()].append(span)
    for some in texts.values():
        for span, ids, end in _walk(machine, state, tokens, some):
            found.setdefault((span.start, span.stop), {})[ids] = MentionSpan(span.start, span.stop, ids, end)
    if not question.islower():  # `the rivers` are no `The River`, where capitals tell names
        for start, stop in sorted(found):
            article, _, rest = question[start:stop].partition(" ")
            is_small = rest and article.islower() and is_function(article)
            if is_small and (start + len(article) + 1, stop) in found:
                del found[start, stop]
    whole = [
        (start, stop)
        for start, stop in sorted(found)
        if not any((start, stop) != other and other[0] <= start and stop <= other[1] for other in found)
    ]
    return [one for place in whole for one in found[place].values()]


def _ends_of_name(text: bytes) -> Iterator[int]:
    """Yield where a name may end in the text of an id: after a closing bracket, and after ` (` or the rest of it."""
    name, bracket, _ = text.partition(b">")
    if bracket:
        yield len(name) + 1
    if b" (" in name:
        yield name.index(b" (") + 2
    if name.startswith(b"("):
        yield 1


def _spans(question: str, words: Sequence[re.Match[str]]) -> Iterator[_Span]:
    """Yield the spans that begin with the first word: as they stand, with full stops, in other orders, in the singular."""
    start = words[0].start()
    for number, word in enumerate(words, 1):
        stop, written = word.end(), " ".join(question[start : word.end()].split())
        for text in dict.fromkeys(
            (unaccented(written), written.encode().lower().decode())
        ):  # (the case of ASCII alone)
            texts = [text]
            if any(len(one.group()) == 1 for one in words[:number]):  # `Michael J Fox`
                texts.append(_INITIAL.sub(".", text))
            texts += [other for one in texts for other in in_other_orders(one)]
            yield from (_Span(start, stop, one) for one in texts)
            if question[stop : stop + 1] == ".":  # `Martin L. King Jr.`
                yield from (_Span(start, stop + 1, one + ".") for one in texts if not one.endswith("."))
            if len(word.group()) > 2:
                yield _Span(start, stop, plural(text))  # a table is called `products`
            for ending, singular in _PLURAL:
                if text.endswith(ending) and len(word.group()) > len(ending) + 2:
                    yield _Span(start, stop, text.removesuffix(ending) + singular)


def _walk(
    machine: Machine, state: InFact, tokens: FoldedTokens, spans: Mapping[bytes, Sequence[_Span]]
) -> list[tuple[_Span, IdPath, InFact]]:
    """Return the spans that are names, given by their texts after a state, with the ids and the state after each."""
    found: list[tuple[_Span, IdPath, InFact]] = []
    waiting: list[tuple[bytes, IdPath, InFact]] = [(b"", (), state)]
    while waiting:
        text, ids, at = waiting.pop()
        grown = defaultdict[int, dict[tuple[bytes, _Span | None], None]](dict)  # the span: its name ends there
        for name, some in spans.items():
            spaced = name + b" "
            if not spaced.startswith(text):
                continue
            rest = spaced[len(text) :]
            for token, size in tokens.beginning(rest):
                grown[token][text + rest[:size], None] = None
            for token in (*tokens.closing(rest + b"("), *(tokens.closing(rest[:-1] + b">") if rest else ())):
                grown[token] |= {(spaced, span): None for span in some}
        for token, ways in grown.items():
            after = machine.advance(at, token, 0) if at.children.leaves_of(token) else None
            if isinstance(after, InFact):
                path = (*ids, token)
                waiting += [(longer, path, after) for longer, ended in ways if ended is None]
                found += [(ended, path, after) for _, ended in ways if ended is not None]
    return found


@dataclass(frozen=True, kw_only=True)
class QueryWords:
    """The words of a language that tell queries apart.

    `heads`, `operators`: regular expressions, of which one that matches a question says that the head or operator is
    meant; `measures`: by head, regular expressions of superlatives, each with words of what is then compared after a colon;
    `tables`: regular expressions of what asks for sums, groups and columns; `adjectives`: those that say of which place
    something is, with the place; `function`: words that name nothing by themselves; `class_of`, `subclass_of`: the ids of
    properties that lead from an entity to its classes, and from a class to wider ones; of several, the first that the index
    has counts. `asking`: the words before the class that is asked for; `either`: that between things of which one is asked
    for; `than`: that before what something is compared with; `numbers`: those from nought on; `yes`, `no`, `unknown`:
    answers; `negation`: words by which a sentence denies what it says; `statements`: what asks for statements. `language`:
    its code, "" if these words are for all questions; `others`: those of further languages, by code.
    """

    heads: Mapping[Head, Sequence[str]] = field(default_factory=dict)
    operators: Mapping[Operator, Sequence[str]] = field(default_factory=dict)
    measures: Mapping[Head, Sequence[str]] = field(default_factory=dict)
    tables: Mapping[TableWord, Sequence[str]] = field(default_factory=dict)
    adjectives: Mapping[str, str] = field(default_factory=dict)
    function: frozenset[str] = frozenset()
    class_of: str = ""
    subclass_of: str = ""
    asking: frozenset[str] = frozenset({"which", "what", "many", "all"})
    negation: frozenset[str] = frozenset({"not", "no", "never"})
    either: str = "or"
    than: str = ""
    numbers: Sequence[str] = ()
    yes: str = "yes"
    no: str = "no"
    unknown: str = ""
    language: str = ""
    statements: StatementWords = field(default_factory=StatementWords)
    others: Mapping[str, "QueryWords"] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Self:
        """Return the words of a prompt's table. Raise ValueError if it is not valid."""
        known = {
            "heads": ASKED_HEADS,
            "operators": OPERATORS,
            "measures": ("most", "least"),
            "tables": get_args(TableWord),
        }
        texts = ("function", "class_of", "subclass_of", *_OF_LANGUAGE)
        if not isinstance(table, Mapping):
            raise ValueError("its `words` is not a table")
        if unknown := table.keys() - {*known, *texts, "statements", "adjectives"}:
            raise ValueError(
                f"its [words] has {', '.join(sorted(unknown))}: use {', '.join((*known, *texts, 'statements', 'adjectives'))}"
            )
        fields = dict(table)
        if "statements" in fields:
            fields["statements"] = StatementWords.of(fields["statements"])
        for name in texts:
            if not isinstance(fields.get(name, ""), str):
                raise ValueError(f"{name} of its [words] is not a text")
        adjectives = fields.get("adjectives", {})
        if not isinstance(adjectives, dict) or not all(isinstance(one, str) for one in adjectives.values()):
            raise ValueError("its [words.adjectives] is not a table of texts")
        for name, keys in known.items():
            patterns = fields.get(name, {})
            if not isinstance(patterns, dict) or not all(
                isinstance(some, list) and all(isinstance(one, str) for one in some) for some in patterns.values()
            ):
                raise ValueError(f"its [words.{name}] is not a table of lists of texts")
            if wrong := patterns.keys() - set(keys):
                raise ValueError(f"its [words.{name}] has {', '.join(sorted(wrong))}: use {', '.join(keys)}")
        fields |= {
            name: frozenset(fields[name].split()) for name in ("function", "asking", "negation") if name in fields
        }
        fields["numbers"] = fields.get("numbers", "").split()
        words = cls(**fields)
        try:
            words.heads_of(""), words.tables_of(""), words.operators_of(""), words.measures_of("", "most")
        except re.error as error:
            raise ValueError(f"its [words] has {error.pattern!r}, which is no regular expression: {error}") from error
        return words

    def of_question(self, question: str, language: str | None = None) -> "QueryWords":
        """Return the words of the language in which a question is: of `language`, if it is given and known, else of that
        with most of its function words. Of a tie, and where the first word could be of it, these are meant.

        >>> german = QueryWords(function=frozenset(["wer", "die", "in"]), language="de")
        >>> words = QueryWords(function=frozenset(["who", "in"]), language="en", others={"de": german})
        >>> [words.of_question(one).language for one in ("wer war in Rom?", "who wrote Die Wand?", "Rom", "in die Stadt")]
        ['de', 'en', 'en', 'de']
        """
        if language is not None:
            return self.others.get(language.lower(), self)
        words = re.findall(r"[^\W\d_]+|¿", question.lower())
        own = len(self.function.intersection(words))

        def fits(other: QueryWords) -> bool:
            return bool(words) and (words[0] in other.function or words[0] not in self.function)

        found = [(len(other.function.intersection(words)), other) for other in self.others.values() if fits(other)]
        most, best = max(found, key=lambda one: one[0], default=(0, self))
        return best if most > own else self

    def heads_of(self, question: str, names: Sequence[tuple[int, int]] = ()) -> list[Head]:
        """Return the heads that a question's words name, in the order of the table; `list` if there is none.

        `names`: half-open ranges of names in the question, whose words ask for nothing.

        >>> words = QueryWords(heads={"count": ["how many", "number of"]})
        >>> words.heads_of("How many nicknames does Louisiana have?")
        ['count']
        >>> words.heads_of("What is the phone number of Ann?", [(12, 24)])
        ['list']
        """
        found = [head for head, patterns in self._heads.items() if any(_places(patterns, question, names))]
        return found or ["list"]

    def tables_of(self, question: str, names: Sequence[tuple[int, int]] = ()) -> dict[TableWord, list[int]]:
        """Return what of `tables` a question's words ask for, with the ends of these words. `names`: as in `heads_of`.

        >>> QueryWords(tables={"sum": ["total"], "per": ["per"]}).tables_of("total salary per city")
        {'sum': [5], 'per': [16]}
        """
        found = {word: list(_places(patterns, question, names)) for word, patterns in self._tables.items()}
        return {word: ends for word, ends in found.items() if ends}

    def number_words_of(self, question: str) -> list[str]:
        """Return the numbers that stand in a question as words, in digits."""
        said = set(re.findall(r"\w+", question.lower()))
        return [str(number) for number, word in enumerate(self.numbers) if word in said]

    def operators_of(self, question: str) -> list[Operator]:
        """Return the operators that a question's words name; `equals` if there is none."""
        found = [name for name, patterns in self._operators.items() if any(one.search(question) for one in patterns)]
        return found or ["equals"]

    def measures_of(self, question: str, head: Head) -> frozenset[str]:
        """Return words of the names of what a superlative of a question compares, if a head takes the first by it.

        >>> words = QueryWords(measures={"most": ["oldest: age"], "least": ["(?:oldest|earliest): year founded"]})
        >>> sorted(words.measures_of("Which is the oldest team?", "least")), words.measures_of("Which is the best?", "most")
        (['founded', 'year'], frozenset())
        """
        found = (words for pattern, words in self._measures.get(head, ()) if pattern.search(question))
        return frozenset(word for words in found for word in words)

    def places_of(self, question: str) -> Iterator[tuple[int, int, str]]:
        """Yield the half-open range of each adjective of a place in a question, with the place.

        >>> list(QueryWords(adjectives={"Italian": "Italy"}).places_of("Which Italian films are there?"))
        [(6, 13, 'Italy')]
        """
        for one in self._adjectives.finditer(question):
            yield one.start(), one.end(), self.adjectives[one[0]]

    def is_function(self, text: str) -> bool:
        """Return whether a text has function words alone."""
        return all(word in self.function for word in re.findall(r"[^\W_]+", text.lower()))

    @cached_property
    def _heads(self) -> dict[Head, list[re.Pattern[str]]]:
        return {head: _compiled(patterns) for head, patterns in self.heads.items()}

    @cached_property
    def _tables(self) -> dict[TableWord, list[re.Pattern[str]]]:
        return {word: _compiled(patterns) for word, patterns in self.tables.items()}

    @cached_property
    def _adjectives(self) -> re.Pattern[str]:
        longest_first = sorted(self.adjectives, key=len, reverse=True)
        return re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first)) or '(?!)'})\b")

    @cached_property
    def _measures(self) -> dict[Head, list[tuple[re.Pattern[str], list[str]]]]:
        pairs = {head: [one.rpartition(":") for one in some] for head, some in self.measures.items()}
        return {
            head: [(_compiled([one])[0], words_of(words)) for one, _, words in some] for head, some in pairs.items()
        }

    @cached_property
    def _operators(self) -> dict[Operator, list[re.Pattern[str]]]:
        return {name: _compiled(patterns) for name, patterns in self.operators.items()}


def _compiled(patterns: Sequence[str]) -> list[re.Pattern[str]]:
    return [re.compile(rf"\b(?:{one})", re.IGNORECASE) for one in patterns]


def _places(patterns: Iterable[re.Pattern[str]], question: str, names: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Yield where patterns end in a question, but for those in its names."""
    for one in (one for pattern in patterns for one in pattern.finditer(question)):
        if all(one.end() <= start or stop <= one.start() for start, stop in names):
            yield one.end()


def numbers_of(question: str) -> list[tuple[int, int, str]]:
    """Return the numbers of a question: their half-open ranges of characters, and each as literals are written.

    >>> numbers_of("more than 12,500.5?")
    [(10, 18, '12500.5')]
    """
    return [(one.start(), one.end(), one.group().replace(",", "")) for one in _NUMBER.finditer(question)]


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without accents, in the singular.

    >>> words_of("Olives; 2 boxes")
    ['olive', '2', 'box']
    """
    return [_singular(word) for word in re.findall(r"\w+", text)]


def _singular(word: str) -> str:
    return re.sub(r"(?<=[xs])es$|(?<=[^\Ws])s$", "", unaccented(word))


def name_spans(question: str, names: Iterable[str]) -> list[tuple[int, int]]:
    """Return the half-open ranges of names in a question, in any case and number, however they are cut into words.

    >>> name_spans("What are the phone numbers of Ann?", ["phone number", "phoneNumber", "email", "number of phones"])
    [(13, 26), (13, 26)]
    """
    places = [one.span() for one in re.finditer(r"\w+", question)]
    words, found = [_singular(question[start:stop]) for start, stop in places], list[tuple[int, int]]()
    for name in names:
        own = re.findall(r"\w+", name)
        wanted = "".join(map(_singular, own))
        for first, last in combinations(range(len(words) + 1), 2) if wanted else ():
            if last - first <= 2 * len(own) + 1 and "".join(words[first:last]) == wanted:
                found.append((places[first][0], places[last - 1][1]))
    return found


class ValueSpans:
    """The places of literals in a question, word by word, in any case and number.

    >>> ValueSpans(QueryWords(function=frozenset(["the"])), "Who plays for the gunners?").find("The Gunners")
    (18, 25)
    """

    def __init__(self, words: QueryWords, question: str) -> None:
        self._words, found = words, list(re.finditer(r"\w+", question))
        self._places, self._text = [one.span() for one in found], [_singular(one.group()) for one in found]
        self._compares = words.operators_of(question) != ["equals"]  # then a number is a bound

    def find(self, value: str) -> tuple[int, int] | None:
        """Return the half-open range of characters; None if the question does not have the words."""
        if len(value) > LONGEST_VALUE or (self._compares and not any(map(str.isalpha, value))):
            return None
        words = re.findall(r"\w+", value)
        while words and self._words.is_function(words[0]):
            del words[0]
        wanted = "".join(map(_singular, words))  # `landlocked` is `land locked`
        for first, last in combinations(range(len(self._text) + 1), 2) if wanted else ():
            if last - first <= len(words) + 1 and "".join(self._text[first:last]) == wanted:
                return self._places[first][0], self._places[last - 1][1]
        return None


def widest_names(machine: Machine) -> list[str]:
    """Return the names with most facts in the tree."""
    ends = walk_by_facts(machine, machine.begin(0), WIDEST, lambda text: b">" in text)
    return [_name_of(machine, end) for _, end in ends]


@dataclass(frozen=True, slots=True)
class Mention:
    """An entity that words of the question may name.

    `start`, `stop`: the range of the words; `name`: the entity's in the index; `called`: its name without the
    description, or the alias that the question uses; `share`: its part of the facts of all entities that its name or
    alias, spelt so, may mean, 0 to 1.
    """

    start: int
    stop: int
    name: str
    called: str
    share: float

    @property
    def is_named(self) -> bool:
        """Whether words of the question name it (`unnamed`)."""
        return self.start >= 0

    def is_title(self, question: str) -> bool:
        """Whether the question spells it as a name, or in small letters alone: `the last samurai`, no `most` of `Most`."""
        text = question[self.start : self.stop]
        is_whole = any(text in one for one in (self.called, *in_other_orders(self.called)))
        return self.called[:1].isupper() and (is_whole or (question.islower() and " " in text))

    def is_spelt(self, question: str) -> bool:
        """Whether the question has the letters of its name or alias, or of their plural."""
        return self.called.startswith(question[self.start : self.stop].rstrip("s"))

    def is_apart(self, other: "Mention") -> bool:
        """Return whether two mentions have no word in common."""
        return self.stop <= other.start or other.stop <= self.start


def unnamed(name: str) -> Mention:
    """Return the mention of an entity that the question does not name."""
    return Mention(-1, -1, name, bare_name(name), 1.0)


@dataclass(frozen=True, slots=True)
class Mentions:
    """What a question names: `entities`; `predicates`, by name; `numbers`."""

    entities: Sequence[Mention]
    predicates: frozenset[str]
    numbers: Sequence[str]


def named_spans(
    machine: Machine, tokens: FoldedTokens, words: QueryWords, question: str, facts: FactSet
) -> list[MentionSpan]:
    """Return the mention spans of a question at the beginning of facts, without its function words.

    The singular in a question names a class that is called by its plural, as tables are, if it names nothing else. An id
    stands for its name, if it is no name itself; a name with its description, as `Ann (painter)`, means that entity alone.
    """
    written, question, start = question, question.replace("_", " "), machine.begin(0)
    spans = find_mention_spans(machine, start, tokens, question, words.is_function)
    spans = [span for span in spans if not words.is_function(question[span.start : span.stop])]
    plurals = dict[MentionSpan, str]()
    for span in spans:
        name, text = _name_of(machine, span.state).partition(" (")[0], unaccented(question[span.start : span.stop])
        if unaccented(name) != text and unaccented(name) == plural(text):
            plurals[span] = name
    others = {(span.start, span.stop) for span in spans if span not in plurals}
    found = {
        span: [
            _name_of(machine, one.state)
            for one in entities_of_name(machine, start, span.ids, span.state, MOST_ENTITIES)
        ]
        for span in plurals
        if (span.start, span.stop) not in others
    }
    classes = classes_among(facts, words, sorted({name for names in found.values() for name in names}))
    spans = [span for span in spans if span not in plurals or not classes.isdisjoint(found.get(span, ()))]
    linked = _linked_spans(machine, facts.linker, words, written, spans) if isinstance(facts, LinkedFactSet) else []
    return [*(span for span in spans if not any(span.is_within(one) for one in linked)), *linked]


def with_names(machine: Machine, tokens: FoldedTokens, question: str, facts: FactSet) -> str:
    """Return a question with the names of things in place of their ids: `the capital of Q230`. An id within a name stays."""
    found = facts.linker.ids_in(question) if isinstance(facts, LinkedFactSet) else []
    spans = find_mention_spans(machine, machine.begin(0), tokens, question) if found else []
    for start, stop, name in reversed(found):
        if not any(span.start <= start and stop <= span.stop for span in spans):
            question = f"{question[:start]}{name}{question[stop:]}"
    return question


def _linked_spans(
    machine: Machine, linker: Linker, words: QueryWords, question: str, spans: Sequence[MentionSpan]
) -> list[MentionSpan]:
    """Return the mention spans of ids, of names with descriptions, and of names in other spellings, that are not within the
    `spans` of a question."""
    found, start = list[MentionSpan](), machine.begin(0)
    places = [(begin, stop, [name], True) for begin, stop, name in linker.ids_in(question)]
    for word in islice(_WORDS.finditer(question.replace("_", " ")), MOST_LINKED):
        is_inner = any(span.start < word.start() < span.stop for span in spans)
        if not (is_inner or word[2].isdecimal() or words.is_function(word[2])):
            named = linker.beginning(word[1])
            places += [(word.start(), word.start() + size, names, False) for size, names in named.items()]
    for bracket in islice(re.finditer(r" \(", question), WORDS):
        begins = [word.start() for word in _WORD.finditer(question, 0, bracket.start())][-WORDS:]
        stops = [bracket.start() + end.end() for end in islice(re.finditer(r"\)", question[bracket.start() :]), 4)]
        places += [(begin, stop, [question[begin:stop]], True) for begin in begins for stop in stops]
    for begin, stop, names, is_whole in places:
        ways = (path_of_name(machine, start, name) for name in dict.fromkeys(names))
        found += [MentionSpan(begin, stop, *way, is_whole=is_whole) for way in ways if way is not None]
    found = [one for one in found if not any(one.is_within(span) for span in spans)]
    return [one for one in found if not any(one.is_within(other) and not other.is_within(one) for other in found)]


def part_spans(
    machine: Machine,
    linker: Linker,
    words: QueryWords,
    question: str,
    taken: Sequence[tuple[int, int]],
    *,
    only_titles: bool,
) -> list[MentionSpan]:
    """Return the mention spans of words that are a part of one name of a small index (`Linker.with_part`).

    `taken`: the places of what is named in whole. Capitalised words in a row are looked up together, as one name; the others,
    unless `only_titles`, one by one. Words of predicates are no names.
    """
    if not linker.has_few_names:
        return []
    known = {word for name in linker.predicates_beginning("") for word in words_folded(name)}
    begin, found = machine.begin(0), list[MentionSpan]()
    for place in _TITLE_OR_WORD.finditer(question):
        text, (start, stop) = place[0], place.span()
        is_free = all(stop <= first or last <= start for first, last in taken)
        if not is_free or (only_titles and not (start and text[:1].isupper())) or words.is_function(text):
            continue
        names = () if known.issuperset(words_folded(text)) else linker.with_part(text)
        ways = (path_of_name(machine, begin, name) for name in names)
        found += [MentionSpan(start, stop, *way) for way in ways if way is not None]
    return found


def class_predicates(facts: FactSet, words: QueryWords) -> tuple[str | None, str | None, str | None]:
    """Return the predicates from a thing to its class, from a class to a wider one, and from a class to its things, by name;
    None for what the index does not have."""
    ways = words.class_of.split(), words.subclass_of.split()
    names = facts.names([id_ for ids in ways for id_ in ids])
    class_of, wider = (next((names[id_] for id_ in ids if id_ in names), None) for ids in ways)
    return class_of, wider, None if class_of is None else facts.inverse_of(class_of)


def classes_among(facts: FactSet, words: QueryWords, names: Sequence[str]) -> set[str]:
    """Return those of some names of entities that are classes and have things."""
    *_, instances = class_predicates(facts, words) if names else (None,)
    counts = facts.counts(names, instances) if instances is not None else ()
    return {name for name, count in zip(names, counts, strict=False) if count}


def kinds_among(facts: FactSet, words: QueryWords, question: str, entities: Sequence[Mention]) -> list[Mention]:
    """Return the mentions, in small letters, of what only says what kind of thing is meant or asked for: of classes with
    several things, and, in a graph that is not Wikidata's, with narrower classes."""
    some = [one for one in entities if question[max(one.start, 0) :][:1].islower()]
    _, wider, instances = class_predicates(facts, words)
    names = [one.name for one in some]
    counts = facts.counts(names, instances) if instances is not None else ()
    kinds = {name for name, count in zip(names, counts, strict=False) if count > 1}
    narrower = None if wider is None else facts.inverse_of(wider)
    ids = facts.names([*words.class_of.split(), *words.subclass_of.split()])
    if narrower is not None and not any(map(is_wikidata_property, ids)):
        kinds |= {name for name, count in zip(names, facts.counts(names, narrower), strict=True) if count}
    return [one for one in some if one.name in kinds]


def find_mentions(machine: Machine, facts: FactSet, question: str, spans: Sequence[MentionSpan]) -> Mentions:
    """Return what the spans of a question name. Properties are predicates, not entities: few questions are about them."""
    question = question.replace("_", " ")
    found, start = dict[tuple[int, int, str], Mention](), machine.begin(0)
    named = defaultdict[tuple[int, int, str], list[list[NamedEntity]]](
        list
    )  # by place and name: a name may end in many ids
    for span in spans:
        some = entities_of_name(machine, start, span.ids, span.state, MOST_ENTITIES)
        if span.is_whole:
            some = [replace(one, alias=question[span.start : span.stop]) for one in some]
        written = _name_of(machine, span.state).partition(" (")[0]
        named[span.start, span.stop, written] += [some] if some else []
    for (begin, end, _), ways in named.items():
        total = sum(some[0].state.children.total / some[0].share for some in ways)
        best = sorted((one for some in ways for one in some), key=lambda one: -one.state.children.total)
        for one in best[:MOST_ENTITIES]:
            name = _name_of(machine, one.state)
            mention = Mention(begin, end, name, one.alias or bare_name(name), one.state.children.total / total)
            known = found.setdefault((begin, end, name), mention)
            if (known.is_spelt(question), known.share) < (mention.is_spelt(question), mention.share):
                found[begin, end, name] = mention
    names = list({mention.name for mention in found.values()})
    predicates = {name for name, id_ in facts.ids(names).items() if is_wikidata_property(id_)}
    predicates |= facts.describe(names).keys()
    entities = _as_spelt([mention for mention in found.values() if mention.name not in predicates], question)
    taken = [mention for mention in entities if not mention.called.replace(".", "").isdecimal()]
    numbers = [
        number
        for begin, end, number in numbers_of(question)
        if not any(mention.start <= begin and end <= mention.stop for mention in taken)
    ]
    return Mentions(entities, frozenset(predicates), numbers)


def _name_of(machine: Machine, state: InFact) -> str:
    """Return the subject of a fact so far, without its brackets."""
    return machine.text_of(state.prefix).decode("utf-8", "replace").partition(">")[0].strip()[1:]


def _as_spelt(mentions: Sequence[Mention], question: str) -> list[Mention]:
    """Return mentions without those that are spelt otherwise, if the question's letters name others: of `country` not
    the alias `Country`."""
    exact = {(one.start, one.stop) for one in mentions if one.is_spelt(question)}
    return [
        one
        for one in mentions
        if (one.start, one.stop) not in exact or one.called[:1] == question[one.start : one.start + 1]
    ]
