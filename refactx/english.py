"""English for predicates and questions: the name of an inverse, questions whose answers facts are, and open pronouns.

A template names an inverse that neither the dump nor the user names. An inverse fact such as
`<Danny Boyle> <director of> <Slumdog Millionaire>` should read as a sentence and begin with the words of a question,
since a model chooses predicates word by word. The first rule that fits applies:

| label | inverse | examples |
|---|---|---|
| ends with `of` | `has`, and the rest | `instance of` → `has instance`, `member of` → `has member` |
| `has` and a noun | the noun and `of` | `has part` → `part of`, `has effect` → `effect of` |
| a noun and a participle | the label and `by` | `award received` → `award received by`, `position held` → `position held by` |
| any other that is no noun | the label and `(inverse)` | `educated at` → `educated at (inverse)` |
| a noun | the label and `of` | `director` → `director of`, `place of birth` → `place of birth of` |

A label is not a noun if it contains a preposition other than `of`, begins with a conjugated verb, is a single
participle, or does not end in a letter; nor is `member of political party`, which names what it points to. Labels in
languages other than English get ` (inverse)`.

A question follows the same distinction: `works for` is a verb ("Who does Ann work for?", read backwards "Who works for
Acme?"), `has topping` asks for toppings, `located in` for a place, and a noun for itself ("What is the capital of Peru?").

A pronoun may stand for something in its question, as in "Which company has its headquarters in Graz?", or for nothing there,
as in "And what is his email?". The rules see words, not grammar: where they cannot tell, it stands for something.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
INSTANCE_OF, HAS_INSTANCE, SUBCLASS_OF = "instance of", "has instance", "subclass of"

OF_ROWS = "row of", "has row"
"""The predicates between a row of a table and its file, about which people do not ask."""

_OF_CLASSES = {"has instance": "{}", "has subclass": "kinds of {}"}

_PLURALS = {"person": "people", "child": "children", "man": "men"}
_REGULAR = ("german", "human", "ottoman", "roman", "shaman", "talisman")


_PAST = {"is": "was", "are": "were", "does": "did", "do": "did", "has": "had", "have": "had"}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PREPOSITIONS = _words(
    "about above across after against along among around as at before behind below between beyond by during for from in"
    " into near on onto over since through to toward towards under until upon via with within without"
)
# First words of the labels of Wikidata's properties that make them a sentence rather than a noun.
_VERBS = _words(
    "adopts affects afflicts allows appears applies approves attends bears begins can causes cites comes"
    " commemorates compares connects considers consists contains contributes converts covers crosses defines"
    " denotes depends depicts describes designs determines detects develops different digitises discovers does"
    " edits elects emits encodes endorses excludes exploits exports expresses facilitates features fires follows"
    " gives governs hosts imports includes influences inhibits inspires integrates intersects invented is issues"
    " judges kills knows likes links lives lost lists loves maintains makes manages marks merges mentions met"
    " mutates notates"
    " obtains occupies operates oversees owns partially participates permits physically possessed practices"
    " prevents produces prohibits promotes proves provides publishes realizes receives records reduces regulates"
    " replaces represents requires restricts runs satisfies seconds see sees sells separates serves shares should"
    " shows signs skips solves speaks starts studies succeeds supersedes supports symbolizes takes talks teaches"
    " treats turns used uses was wears wins won writes"
)
_LAST_PARTICIPLES = _words("held made met read spoken sung taught won worn written")
_NO_PARTICIPLES = _words("breed creed deed feed hundred need red screed seed speed weed")
_PASSIVE = _words(
    "called composed created designed developed directed educated employed established filmed founded held known led made"
    " married named owned produced published released used written"
)
_PLACED = _words("based born buried headquartered located situated")
_PERSONS = _words(
    "actor artist author boss character chief child composer creator customer daughter designer developer director doctor"
    " driver editor employee engineer father founder friend human husband inventor leader maintainer manager mayor member"
    " mother officer owner parent partner people person pilot player president producer sibling singer sister brother son"
    " spouse student supervisor teacher user wife woman man writer"
)
_OF_PERSONS = _words(
    "directs drives employs invests joins knows leads lives loves manages owns plays reports studies teaches works"
)

_MUTUAL = _words(
    "adjacent border borders brother coincident colleague connects cousin different friend husband married neighbour"
    " opposite partner relative same sibling sister spouse twinned wife"
)
"""Words of predicates that mostly hold of two things in both directions, also where a graph has one of them."""

_SUBJECT_PRONOUNS = _words("he she they this these those")
"""Pronouns of which what is asked for is not the antecedent: "Which department does she lead?"."""
_PLURAL_PRONOUNS = _words("they them their theirs")
_OTHER_PRONOUNS = _words("him his her hers it its them their theirs")
_ASKING = _words("which what who whose how many much every each all any")
_NO_THING = _words("true false correct right possible year month week day century decade time")
"""The words after `it` and `this` which then stand for no thing: "Is it true that ...", "this year"."""


def inverse_of(label: str, *, english: bool = True) -> str:
    """Return the name of a property's inverse, by the rules above.

    >>> [inverse_of(label) for label in ("director", "instance of", "award received", "educated at")]
    ['director of', 'has instance', 'award received by', 'educated at (inverse)']
    >>> inverse_of("Regisseur", english=False)
    'Regisseur (inverse)'
    """
    words = [word.lower() for word in _WORD.findall(label)]
    if not english or not words or not label[-1].isalpha():
        return f"{label} (inverse)"
    first, *rest = words
    relation = _PREPOSITIONS.intersection(words) or first in _VERBS or words[:2] == ["member", "of"]
    if words[-1] == "of" and rest and first not in _VERBS:
        return f"{label} (inverse)" if len(words) == 2 and _is_participle(first) else f"has {label[:-3]}"
    if relation or (not rest and _is_participle(first)):
        return f"{label} (inverse)"
    if first == "has":
        return f"{label[4:]} of" if rest and "of" not in rest else f"{label} (inverse)"
    return f"{label} {'by' if _is_participle(words[-1]) else 'of'}"


def holder_of(text: str, predicate: str, names: Sequence[tuple[int, int]]) -> int | None:
    """Return which of two names, given by their half-open ranges in a sentence, its words say to have a predicate: the one in
    "the P of X" and "X's P", else the first one in "X is P Y". None if they do not tell, or if it mostly holds of both.

    >>> [holder_of("Alaska is the capital of Juneau", "capital", places) for places in (((0, 6), (25, 31)), ((0, 6),))]
    [1, None]
    >>> holder_of("Ann's boss is Bo", "boss", ((0, 3), (14, 16)))
    0
    """
    if not _MUTUAL.isdisjoint(predicate.lower().split()):
        return None
    begins = {start: n for n, (start, _) in enumerate(names)}
    ends = {stop: n for n, (_, stop) in enumerate(names)}
    for found in re.finditer(rf"(?<!\w){re.escape(predicate)}(?!\w)", text, re.IGNORECASE):
        before, after = text[: found.start()], text[found.end() :]
        of = re.match(r"\s+of\s+(?:the\s+)?", after)
        own = re.search(r"['’]s?\s+$", before)
        said = re.search(r"(?:\s+(?:is|was|are|were|has|had))?(?:\s+(?:the|an?))?\s+$", before)
        if of and found.end() + of.end() in begins:
            return begins[found.end() + of.end()]
        if own and own.start() in ends:
            return ends[own.start()]
        space = re.match(r"\s+(?:the\s+)?", after)
        if said and space and said.start() in ends and found.end() + space.end() in begins:
            return ends[said.start()]
    return None


def _is_participle(word: str) -> bool:
    return (word.endswith("ed") and len(word) > 3 and word not in _NO_PARTICIPLES) or word in _LAST_PARTICIPLES


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A predicate as questions have it.

    `forwards`: if it reads a property backwards, the name of that; `things`: the class of its objects, "" if it is not
    known; `is_date`: whether these are times; `many`: whether the subject has several.
    """

    predicate: str
    forwards: str = ""
    things: str = ""
    is_date: bool = False
    many: bool = False

    def which(self, subject: str) -> str:
        """Return the question for the objects of a subject.

        >>> Relation(predicate="works for (inverse)", forwards="works for", things="Person").which("Acme")
        'Who works for Acme?'
        >>> [Relation(predicate=one).which("Ann") for one in ("works for", "capital", "has part", "located in")]
        ['What does Ann work for?', 'What is the capital of Ann?', 'What part does Ann have?', 'Where is Ann located?']
        """
        name, asks = self._name, self._asks
        first, _, rest = name.partition(" ")
        if name in _OF_CLASSES:
            return f"Which {_OF_CLASSES[name].format(plural(_lower(subject)))} are there?"
        if self.forwards:
            verb = _verb(self.forwards)
            return f"{asks} {verb} {subject}?" if verb else f"{asks} has {subject} as {self.forwards}?"
        if name == INSTANCE_OF:
            return f"What is {subject}?"
        if first == "has" and rest:
            return f"Which {plural(rest)} does {subject} have?" if self.many else f"What {rest} does {subject} have?"
        if _is_participle(first) and (
            self.is_date or rest == "date" or (first in _PLACED and rest in ("", "in", "at"))
        ):
            asks = "When" if self.is_date or rest == "date" else "Where"
            return f"{asks} {'was' if asks == 'When' or first == 'born' else 'is'} {subject} {first}?"
        if _verb(name):
            return f"{asks} {_does(name, subject)}?"
        if self.many:
            return f"What are the {plural(name)} of {subject}?"
        return f"{'Who' if name.split()[-1] in _PERSONS else 'What'} is the {name} of {subject}?"

    def how_many(self, subject: str) -> str:
        """Return the question for the number of a subject's objects.

        >>> Relation(predicate="works for (inverse)", forwards="works for", things="Person").how_many("Acme")
        'How many people work for Acme?'
        """
        things = plural(_lower(self.things)) or ("people" if self._asks == "Who" else "things")
        name = self._name
        if name in _OF_CLASSES:
            return f"How many {_OF_CLASSES[name].format(plural(_lower(subject)))} are there?"
        if self.forwards:
            return f"How many {things} {_plural_verb(self.forwards, subject)}?"
        if _verb(name) and not name.startswith("has "):
            return f"How many {things} {_does(name, subject)}?"
        return f"How many {plural(name.removeprefix('has '))} does {subject} have?"

    def whether(self, subject: str, value: str) -> str:
        """Return the question whether a fact holds.

        >>> [Relation(predicate=one).whether("Ann", "Bo") for one in ("knows", "boss", "instance of", "has part")]
        ['Does Ann know Bo?', 'Is Bo the boss of Ann?', 'Is Ann a bo?', 'Does Ann have the part Bo?']
        """
        name = self._name
        if name in (INSTANCE_OF, SUBCLASS_OF):
            value = _lower(value)
            kind = "a kind of" if name == SUBCLASS_OF else "an" if value[:1] in "aeiou" else "a"
            return f"Is {subject} {kind} {value}?"
        if _verb(name):
            does = _does(name, subject)
            return f"{does[:1].upper()}{does[1:]} {value}?"
        return f"Is {value} the {name} of {subject}?"

    def at(self, subject: str, year: str) -> str:
        """Return the question for the objects of a subject in a year.

        >>> Relation(predicate="mayor", things="Person").at("Graz", "1990")
        'Who was the mayor of Graz in 1990?'
        """
        return f"{_in_past(replace(self, many=False).which(subject))[:-1]} in {year}?"

    def since(self, subject: str, value: str) -> str:
        """Return the question since when a fact holds.

        >>> Relation(predicate="mayor").since("Graz", "Bo"), Relation(predicate="works for").since("Ann", "Acme")
        ('Since when was Bo the mayor of Graz?', 'Since when did Ann work for Acme?')
        """
        asked = _in_past(self.whether(subject, value))
        return f"Since when {asked[:1].lower()}{asked[1:]}"

    def members(self, class_: str, value: str) -> str:
        """Return the question how many of a class have a value: `How many companies are located in Graz?`."""
        return f"How many {plural(_lower(class_))} {_plural_verb(self._name, value)}?"

    def first(self, class_: str) -> str:
        """Return the question which of a class has the highest value, or the latest."""
        first = "latest" if self.is_date else "highest"
        return f"Which {_lower(class_)} has the {first} {self._name.removeprefix('has ')}?"

    def over(self, subject: str, value: str) -> str:
        """Return the question whether a subject's value is above one."""
        return f"Is the {self._name.removeprefix('has ')} of {subject} more than {value}?"

    @property
    def is_noun(self) -> bool:
        """Whether it names what its objects are to a subject, as `capital` does: these can then be asked about."""
        return not (self.forwards or self.many or _verb(self._name) or self._name in _OF_CLASSES)

    def of(self, subject: str) -> str:
        """Return the object of a subject, if the predicate is a noun.

        >>> Relation(predicate="capital").of("Peru"), Relation(predicate="capital").is_noun
        ('the capital of Peru', True)
        """
        return f"the {self._name} of {subject}"

    @property
    def _name(self) -> str:
        """The predicate as it stands within a sentence."""
        return " ".join(map(_lower, self.predicate.replace(": ", " ").split()))

    @property
    def _asks(self) -> str:
        """Who, what, or which of a class."""
        things = _lower(self.things)
        first = (self.forwards or self.predicate).partition(" ")[0].lower()
        if things:
            return "Who" if things.split()[-1] in _PERSONS else f"Which {things}"
        return "Who" if first in (_OF_PERSONS if self.forwards else ("knows", "loves", "married")) else "What"


def _in_past(question: str) -> str:
    """Return a question in the past tense, by the first word of it that is a verb."""
    return re.sub(r"\b(is|are|does|do|has|have)\b", lambda verb: _PAST[verb[0].lower()], question, count=1, flags=re.I)


def plural(noun: str) -> str:
    """Return the plural of a noun.

    >>> [plural(noun) for noun in ("company", "box", "toppings", "Person", "bus", "sales person", "human", "")]
    ['companies', 'boxes', 'toppings', 'people', 'buses', 'sales people', 'humans', '']
    """
    if " of " in noun:
        first, of, rest = noun.partition(" of ")
        return f"{plural(first)}{of}{rest}"
    low = noun.rpartition(" ")[2].lower()
    if not low or low == "people" or (low.endswith("s") and not low.endswith(("ss", "us"))):
        return noun
    for ending, many in _PLURALS.items() if low not in _REGULAR else ():
        if low.endswith(ending):
            return f"{noun[: -len(ending)]}{many}"
    if low.endswith("y") and low[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}{'es' if low.endswith(('s', 'x', 'z', 'ch', 'sh')) else 's'}"


def _lower(noun: str) -> str:
    """Return a noun as it stands within a sentence; one in capitals stays, and one with digits."""
    return noun if (noun[1:] != noun[1:].lower() and " " not in noun) or any(map(str.isdigit, noun)) else noun.lower()


def _is_finite(name: str) -> bool:
    """Return whether a name begins with a verb of the present, such as `works for`, `knows`, `has part`."""
    first, _, rest = name.lower().partition(" ")
    if first in ("is", "has", "was"):
        return bool(rest)
    if first in _VERBS or first in _OF_PERSONS:
        return first.endswith("s")
    return first.endswith("s") and rest.partition(" ")[0] in _PREPOSITIONS


def _verb(name: str) -> str:
    """Return a name as what a subject does, `works for`, `is located in`, `has acted in`, `is part of`; "" for a noun."""
    words = name.lower().split()
    if not words or _is_finite(name):
        return name
    if words[0] in _PLACED:
        return f"is {name}" if len(words) > 1 else f"is {name} in"
    if _is_participle(words[0]):
        is_passive = words[0] in _PASSIVE or words[-1] in ("by", "to", "from", "as", "of")
        return f"{'is' if is_passive else 'has'} {name}"
    return f"is {name}" if words[-1] == "of" or _PREPOSITIONS.intersection((words[0], words[-1])) else ""


def _plural_verb(name: str, value: str) -> str:
    """Return what several do, `work for Acme`, `are located in Graz`, `have the director Ann`."""
    verb = _verb(name)
    if not verb:
        return f"have the {name} {value}"
    first, _, rest = verb.partition(" ")
    rest = f"the {rest}" if name.startswith("has ") else rest
    return " ".join(filter(None, ({"is": "are", "was": "were"}.get(first) or _infinitive(first), rest, value)))


def _does(name: str, subject: str) -> str:
    """Return `does Ann work for`, given `works for`, and `is Ann part of`, given `part of`."""
    first, _, rest = _verb(name).partition(" ")
    if first in ("is", "was") or (first == "has" and not name.startswith("has ")):
        return f"{first} {subject} {rest}"
    return f"does {subject} {_infinitive(first)}{' the' if first == 'has' else ''} {rest}".rstrip()


def _infinitive(verb: str) -> str:
    if verb == "has":
        return "have"
    if verb.endswith("ies"):
        return f"{verb[:-3]}y"
    return verb[:-2] if verb.endswith(("ches", "shes", "sses", "xes", "oes")) else verb.removesuffix("s")


def open_pronoun(
    question: str, named: Sequence[tuple[int, int]], is_function: Callable[[str], bool]
) -> tuple[int, int] | None:
    """Return the half-open range of the first pronoun that stands for nothing in a question; None if there is none.

    `named`: the ranges of what it names that is no class; `is_function`: whether a word names nothing by itself.

    >>> small = frozenset("and what is his who the of in has its does she".split()).__contains__
    >>> open_pronoun("And what is his email?", [], small), open_pronoun("Who is Ann, and what is her email?", [(7, 10)], small)
    ((12, 15), None)
    >>> open_pronoun("Which company has its headquarters in Graz?", [], small)
    >>> open_pronoun("Which department does she lead?", [], small)
    (22, 25)
    """
    words = [(one.group().lower(), *one.span()) for one in re.finditer(r"[^\W_]+", question)]
    for number, (word, start, stop) in enumerate(words):
        if word not in _SUBJECT_PRONOUNS | _OTHER_PRONOUNS or question[start:stop] == "IT":
            continue
        if any(begin <= start < end or begin < start for begin, end in named):  # a part of a name, or after one
            continue
        comma = question.find(",", stop)
        if comma >= 0 and any(begin > comma for begin, _ in named):  # "In his life, what did Ann write?"
            continue
        before, after = [one for one, *_ in words[:number]], [one for one, *_ in words[number + 1 :]]
        if after[:1] and after[0] in _NO_THING:
            continue
        is_asked = any(one in _ASKING and not is_function(other) for one, other in pairwise(before))
        if word in _OTHER_PRONOUNS and is_asked:
            continue
        if word in _PLURAL_PRONOUNS and any(one == plural(one) and not is_function(one) for one in before):
            continue
        return start, stop
    return None
