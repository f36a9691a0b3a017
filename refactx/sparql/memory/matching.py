"""Labels and descriptions compared as text: which entries a mention names, and how like they are to it."""

from refactx.query.pgmr import Mention
from refactx.query.pgmr.index_names import split_name
from refactx.query.pgmr.mentions import kind_of
from refactx.sparql.memory.entry import Entry, fold


def label_keys(mention: Mention) -> set[str]:
    """Return the labels that entries of a mention's label may have: a label may also be a whole name of the index.

    >>> sorted(label_keys(Mention("entity", "Air (film)")))
    ['Air', 'Air (film)']
    """
    return {mention.label, split_name(mention.label, "")[0]}


def has_label(entry: Entry, mention: Mention) -> bool:
    """Return whether an entry is of a mention's kind and has its label, in any case.

    >>> [has_label(Entry("Q1", "Air", "film"), Mention(kind, "air")) for kind in ("entity", "relation")]
    [True, False]
    """
    return kind_of(entry.id) == mention.kind and fold(mention.label) in (fold(entry.label), fold(entry.text))


def is_described(entry: Entry, mention: Mention) -> bool:
    """Return whether an entry has the description of a mention, in any case; its id counts as one.

    An entry without a description has that of a mention with an empty one. A label that is a whole name of the index
    has its description in it.

    >>> is_described(Entry("Q1", "Air", "a film"), Mention("entity", "air", "A film"))
    True
    >>> is_described(Entry("Q1", "Air", "a film"), Mention("entity", "Air (a film)"))
    True
    """
    description = fold(mention.description or "")
    if description:
        return description in (fold(entry.description), entry.id.casefold())
    if fold(entry.text) != fold(mention.label):
        return False
    return mention.description is not None or entry.description != ""
