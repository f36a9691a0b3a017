"""The weights of the choice of facts and queries: numbers that were fitted to models, each with what it is for.

Scores and differences of scores are in nats (natural logarithms). Another model may need other weights: `load_weights` reads
a file of them, which `refactx calibrate --save` writes.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from refactx.errors import InputError
from refactx.options import check_options, option, options_of
from refactx.paths import read_toml

_TERMS, _SUBJECTS, _PROPERTIES = "Terms added to the likelihood of the question", "Subjects", "Properties"
_ANSWER, _QUERIES = "Facts and the answer", "Queries"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The weights of one model. Raises InputError for values out of range.

    >>> Weights(drop_below=5).drop_below, Weights().drop_below
    (5, 4.0)
    """

    property_weight: float = option(0.3, "times log p of a property after the text", group=_TERMS)
    name_weight: float = option(0.7, "times log p of a name after the text", group=_TERMS)
    share_weight: float = option(
        0.5,
        "times log of an entity's share of the facts of its name, or of a set's members",
        group=_TERMS,
    )
    meaning: float = option(
        3.0, "times how near a property is to the question in meaning: 1 is that of the right ones", group=_TERMS
    )
    subject_first: float = option(1.0, "for a yes or no about the entity that is named first", group=_TERMS)

    names: int = option(6, "names that are compared, other than those in the question", least=1, group=_SUBJECTS)
    subjects_of_name: int = option(3, "subjects of a name, those with most facts", least=1, group=_SUBJECTS)
    drop_names_below: float = option(9.0, "below the likeliest name, a name is left out", least=0, group=_SUBJECTS)
    unnamed_name_gap: float = option(
        4.0, "the same for a name that is not in the question, below the likeliest in it", least=0, group=_SUBJECTS
    )
    subject_gap: float = option(
        4.0, "below the best subject without the question, one is not compared by it", least=0, group=_SUBJECTS
    )
    unnamed_subject_gap: float = option(
        2.0,
        "the same for one that is not in the question, below the best in it",
        least=0,
        group=_SUBJECTS,
    )
    compared_subjects: int = option(2, "subjects whose properties are compared", least=1, group=_SUBJECTS)
    keep_within: float = option(2.0, "of the best subject, others are among these", least=0, group=_SUBJECTS)
    keep_named_within: float = option(
        8.0, "of the best subject, the best in the question is compared too", least=0, group=_SUBJECTS
    )

    nearest_properties: int = option(
        8, "properties of a subject that are compared, the nearest in meaning", least=1, group=_PROPERTIES
    )
    likely_properties: int = option(4, "the same, the likeliest after the text", least=0, group=_PROPERTIES)
    drop_properties_below: float = option(
        9.0, "below the likeliest property, one that is not near in meaning is left out", least=0, group=_PROPERTIES
    )
    drop_below: float = option(
        4.0, "below the best after a quarter of the question, a property is dropped", least=0, group=_PROPERTIES
    )
    tie_gap: float = option(
        1.0, "below the best, a property is compared again with an object", least=0, group=_PROPERTIES
    )
    self_reference_penalty: float = option(
        3.0, "from a property whose only object is the subject or its name", group=_PROPERTIES
    )
    named_value_gain: float = option(
        3.0, "for a property of which the question names an object or a qualifier", group=_PROPERTIES
    )
    other_class_penalty: float = option(
        6.0, "from a property with objects of another class than the question asks for", group=_PROPERTIES
    )

    facts_of_property: int = option(6, "facts of one subject and property, the most", least=0, group=_ANSWER)
    another_fact_gain: float = option(4.0, "above the answer, another fact follows in its place", group=_ANSWER)
    min_confidence: float = option(
        4.0, "above no fact or query, what answers the question; else the answer is unknown", group=_ANSWER
    )

    starts: int = option(2, "starts that are followed", least=1, group=_QUERIES)
    keep_starts_within: float = option(3.0, "of the best start, others are among these", least=0, group=_QUERIES)
    drop_queries_below: float = option(
        5.0, "below the best after a quarter of the question, a query is dropped", least=0, group=_QUERIES
    )
    extended: int = option(3, "pairs of a start and a predicate that get filters", least=1, group=_QUERIES)
    filter_gain: float = option(2.0, "what a filter, or a second step, has to gain", group=_QUERIES)
    left_out_penalty: float = option(
        4.0, "from a query for each name, and for a bound, of the question that it leaves out", group=_QUERIES
    )
    count_of_one_gain: float = option(
        2.0, "what a count has to gain that would be 1, where literals are filters", group=_QUERIES
    )
    least_nearness: float = option(
        0.25,
        "nearness of a predicate that is compared with a number, or of an unnamed class",
        group=_QUERIES,
    )
    sampled_members: int = option(50, "members that stand for a set", least=1, group=_QUERIES)

    def __post_init__(self) -> None:
        check_options(self)


def load_weights(path: Path | str, base: Weights | None = None) -> Weights:
    """Return the weights in a TOML file; those that it does not have are those of `base`, by default ours.

    Raises InputError for a file that cannot be read or has something else.
    """
    try:
        return weights_of(read_toml(Path(path).read_text(encoding="utf-8")), base)
    except OSError as error:
        raise InputError(
            f"there is no file of weights {path}: give one, as refactx calibrate --save writes it"
        ) from error
    except (ValueError, InputError) as error:
        raise InputError(f"the weights {path} are not valid: {error}") from error


def weights_of(table: dict[str, Any], base: Weights | None = None) -> Weights:
    """Return the weights of a table, the others as in `base`. Raise ValueError or InputError if it is not valid."""
    known = {one.name: one.type for one in fields(Weights)}
    if unknown := table.keys() - known:
        raise ValueError(f"there is no weight {', '.join(sorted(unknown))}: use {', '.join(known)}")
    for name, value in table.items():
        if isinstance(value, bool) or not isinstance(value, int if known[name] is int else int | float):
            raise ValueError(f"{name} is {value!r}: give {'a whole number' if known[name] is int else 'a number'}")
    base = base or Weights()
    return Weights(**({name: getattr(base, name) for name in known} | table))


def weights_file(weights: Weights) -> str:
    """Return the text of a file of weights, with what each is for."""
    lines, group = list[str](), ""
    for name, one in options_of(weights).items():
        if one.group != group:
            lines += ["", f"# {one.group}"]
            group = one.group
        lines.append(f"{name} = {getattr(weights, name)}  # {one.help}")
    return "\n".join(lines).lstrip() + "\n"


def weights_table() -> str:
    """Return the weights as a table in Markdown, with a value of each and what it is for."""
    lines = ["| weight | value | for what |", "|---|---|---|"]
    for name, one in options_of(Weights).items():
        lines.append(f"| `{name}` | {getattr(Weights(), name):g} | {one.help} |")
    return "\n".join(lines)
