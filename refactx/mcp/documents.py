"""What the tools return: the fields that clients see in the schema of each tool."""

from typing_extensions import TypedDict  # pydantic takes no other one before Python 3.12


class Problem(TypedDict):
    """What is wrong with a query. `level`: L1 syntax, L2 rules and names, L3 running it; `hint`: what to do."""

    level: str
    code: str
    text: str
    hint: str


class Checked(TypedDict):
    """A query that was checked. `rows`: how many it has, null if it was not run."""

    valid: bool
    problems: list[Problem]
    rows: int | None


class Table(TypedDict):
    """Rows of a query: the columns, and a text for each, as N-Triples writes it, null for none. An ASK has the one column
    `answer`. `truncated`: whether there are more."""

    columns: list[str]
    rows: list[list[str | None]]
    truncated: bool


class Translated(TypedDict):
    """The SPARQL of a question. `confidence`: how likely it is right, null without a calibration."""

    sparql: str | None
    valid: bool
    rows: int | None
    confidence: float | None
    problems: list[str]


class Value(TypedDict):
    """A property with a value, and how both are written."""

    property: str
    value: str


class Description(TypedDict):
    """What an endpoint has about a resource. `schema`: what the pack says of it, empty if it is no term of its schema;
    `of`, `to`: where it is the subject and the object; `truncated`: whether there is more of either."""

    uri: str
    schema: str
    of: list[Value]
    to: list[Value]
    truncated: bool
