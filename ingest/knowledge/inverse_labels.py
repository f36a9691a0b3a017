"""Names for the inverses of properties: templates (`director` → `director of`) and files of names that a user gives.

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
"""

import re
from pathlib import Path

from refactx.errors import InputError
from refactx.fact import clean_part, counted
from refactx.ingest.selection import read_text
from refactx.paths import read_toml


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
    " judges kills links lives lost lists maintains makes manages marks merges mentions met mutates notates"
    " obtains occupies operates oversees owns partially participates permits physically possessed practices"
    " prevents produces prohibits promotes proves provides publishes realizes receives records reduces regulates"
    " replaces represents requires restricts runs satisfies seconds see sees sells separates serves shares should"
    " shows signs skips solves speaks starts studies succeeds supersedes supports symbolizes takes talks teaches"
    " treats turns used uses was wears wins won writes"
)
_LAST_PARTICIPLES = _words("held made met read spoken sung taught won worn written")
_NO_PARTICIPLES = _words("breed creed deed feed hundred need red screed seed speed weed")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


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


def read_inverse_names(path: Path) -> tuple[tuple[str, str], ...]:
    """Return the pairs of a property and the name of its inverse in a file: lines `P57<TAB>director of`, or TOML.

    A file `.toml` has lines `P57 = "director of"`. The first column is a property's id, or its name, since ready-made
    facts have no ids. Blank lines and lines that begin with `#` are skipped.

    Raises:
        InputError: the file cannot be read, a line or entry is not of that form, or a property is named twice.
    """
    entries = _toml_entries(path) if path.suffix.lower() == ".toml" else _line_entries(path)
    names: dict[str, str] = {}
    for where, property_, name in entries:
        key, clean = clean_part(property_), clean_part(name)
        if not key or not clean:
            raise InputError(f"{where}: a column is empty: expected P57<TAB>director of")
        if key in names:
            raise InputError(f"{where}: {key} has a name already: give each property one name")
        names[key] = clean
    if not names:
        raise InputError(f"{path} holds no names: expected lines such as P57<TAB>director of")
    return tuple(names.items())


def _line_entries(path: Path) -> list[tuple[str, str, str]]:
    entries = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        columns = line.rstrip("\r").split("\t")
        if len(columns) != 2:
            raise InputError(
                f"{path}:{number}: {counted(len(columns), 'column')}, separated by tabs: expected two, such as "
                "P57<TAB>director of"
            )
        entries.append((f"{path}:{number}", columns[0], columns[1]))
    return entries


def _toml_entries(path: Path) -> list[tuple[str, str, str]]:
    text = read_text(path)
    try:
        table = read_toml(text)
    except ValueError as error:
        raise InputError(f'{path} is not TOML ({error}): expected lines such as P57 = "director of"') from None
    for key, name in table.items():
        if not isinstance(name, str):
            raise InputError(f'{path}: {key} is not a string: expected lines such as P57 = "director of"')
    return [(str(path), key, name) for key, name in table.items()]


def _is_participle(word: str) -> bool:
    return (word.endswith("ed") and len(word) > 3 and word not in _NO_PARTICIPLES) or word in _LAST_PARTICIPLES
