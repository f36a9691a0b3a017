"""More examples of a pack, made of those that it has: with other values of the data, and two of them as one.

A **variation** has another text in place of one that stands in the question and, as a whole string or with the anchors of
a REGEX, in the query: one that the same variable has in the data. A **pair** asks what is an answer to both of two
examples whose first variable has the same name. All of them pass the pack's checks and have rows.
"""

import random
import re
from collections.abc import Iterator
from dataclasses import replace

from refactx.sparql.engines import EngineError, QueryRefusedError, Rows, SparqlEngine, SparqlSyntaxError
from refactx.sparql.packs.pack import Pack, PackExample
from refactx.sparql.packs.prompt import with_prefixes, without_prefixes
from refactx.sparql.packs.validation import validate
from refactx.sparql.syntax.tokens import Token, tokens_of

VALUES = 300
"""The values of a variable that are looked at."""
OF_EXAMPLE = 3
"""The most variations of one example."""
_TEXT = re.compile(r"[^\W\d_]+(?: [^\W\d_]+){0,3}")
"""Values that a question can name."""
_ANCHORED = re.compile(r"(\^?)(.*?)(\$?)", re.DOTALL)
_VALUE = "?anotherValue"
_SELECT = re.compile(r"SELECT\b(.*?)(?:\bWHERE\b\s*)?(\{.*\})", re.IGNORECASE | re.DOTALL)
_VARIABLE = re.compile(r"[?$]\w+")


def variations(pack: Pack, engine: SparqlEngine, *, seed: int = 0, seconds: float = 20.0) -> Iterator[PackExample]:
    """Yield examples made of those of a pack, variations and pairs by turns, in an order by chance (`seed`).

    `engine`: has the data; `seconds`: the most time of a query. Each needs about two queries.
    """
    chance = random.Random(seed)  # noqa: S311 - it hides nothing
    known = {question for one in pack.examples for question in one.questions}
    drawn = chance.sample(pack.examples, len(pack.examples))
    others = chance.sample(drawn, len(drawn))
    for one, other in zip(drawn, others, strict=True):
        made = [*_varied(one, pack, engine, chance, seconds), *_pairs(one, other, pack)]
        for example in made:
            if example.question not in known and _has_rows(example, pack, engine, seconds):
                known.add(example.question)
                yield example


def _has_rows(example: PackExample, pack: Pack, engine: SparqlEngine, seconds: float) -> bool:
    report = validate(example.sparql, pack, engine, rows=1, seconds=seconds)
    return report.ok and not report.failure and bool(report.count)


def _varied(
    one: PackExample, pack: Pack, engine: SparqlEngine, chance: random.Random, seconds: float
) -> Iterator[PackExample]:
    """Yield an example with other texts in place of the first one that its question and its query have."""
    tokens = tokens_of(one.sparql)
    for at, token in enumerate(tokens):
        found = _ANCHORED.fullmatch(token.text[1:-1]) if token.kind == "string" else None
        text = "" if found is None else found[2]
        named = re.search(rf"(?<!\w){re.escape(text)}(?!\w)", one.question) if text.strip() else None
        if found is None or named is None:
            continue
        after = re.sub(r"^([^\s()]*)\s*\([^()]*\)", r"\1", one.question[named.end() :])  # a translation of the text
        values = [value for value in _values(tokens, at, pack, engine, seconds) if value != text]
        for number, value in enumerate(chance.sample(values, min(OF_EXAMPLE, len(values))), 1):
            quote = token.text[0]
            string = f"{quote}{found[1]}{value}{found[3]}{quote}"
            sparql = one.sparql[: token.start] + string + one.sparql[token.start + len(token.text) :]
            question = one.question[: named.start()] + value + after
            yield replace(one, id=f"{one.id}-{number}", question=question, sparql=sparql, variants={})
        return


def _values(tokens: list[Token], at: int, pack: Pack, engine: SparqlEngine, seconds: float) -> list[str]:
    """Return texts that the data has where the query has the string of a token, sorted; none if that is not found."""
    texts, begin = [one.text for one in tokens], at
    while begin and texts[begin] not in "{}" and texts[begin].upper() != "FILTER":
        begin -= 1
    if texts[begin].upper() == "FILTER":
        end, depth = begin, 0
        while end + 1 < len(texts) and (not depth or end <= at):
            end += 1
            depth += (texts[end] == "(") - (texts[end] == ")")
            if end > at and not depth:
                break
        variable = next((text for text in texts[begin:end] if _VARIABLE.fullmatch(text)), None)
        texts[begin : end + 1] = [" "]
    else:
        variable, texts[at] = _VALUE, _VALUE
        if at + 1 < len(texts) and tokens[at + 1].kind == "language":
            texts[at + 1] = ""
    asked = _SELECT.search(without_prefixes("".join(texts), {}))
    if variable is None or asked is None:
        return []
    head = "".join(texts).partition("SELECT")[0]
    query = with_prefixes(f"{head}SELECT DISTINCT {variable} WHERE {asked[2]} LIMIT {VALUES}", pack.prefixes)
    try:
        result = engine.run(query, limit=VALUES, seconds=seconds)
    except (EngineError, QueryRefusedError, SparqlSyntaxError):
        return []
    rows = result.rows if isinstance(result, Rows) else ()
    found = {getattr(row[0], "value", "") for row in rows if row[0] is not None}
    return sorted(value for value in found if _TEXT.fullmatch(value))


def _pairs(one: PackExample, other: PackExample, pack: Pack) -> Iterator[PackExample]:
    """Yield the question for what is an answer to both of two examples, if they are of one variable."""
    asked = [_SELECT.search(without_prefixes(example.sparql, pack.prefixes)) for example in (one, other)]
    if one.id == other.id or not all(asked):
        return
    variables, inner = [], []
    for found in filter(None, asked):
        variable = _VARIABLE.search(found[1])
        variables.append("" if variable is None or "(" in found[1] else variable[0])
        inner.append(f"{{ SELECT {variables[-1]} WHERE {found[2]} }}")
    if variables[0] and variables[0] == variables[1]:
        sparql = with_prefixes(f"SELECT DISTINCT {variables[0]} WHERE {{ {' '.join(inner)} }}", pack.prefixes)
        question = f"What is an answer to both of these? {one.question} {other.question}"
        patterns = {**other.patterns, **one.patterns}
        yield PackExample(id=f"{one.id}+{other.id}", question=question, sparql=sparql, patterns=patterns)
