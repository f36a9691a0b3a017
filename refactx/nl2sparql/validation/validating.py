"""The levels of validation, one after the other."""

from collections.abc import Iterator

from refactx.nl2sparql.pack import Pack
from refactx.nl2sparql.parsed import ParsedQuery, parse
from refactx.nl2sparql.rules import Names
from refactx.nl2sparql.rules.types import Types
from refactx.nl2sparql.validation.naming import naming_problems
from refactx.nl2sparql.validation.report import Problem, Report
from refactx.nl2sparql.validation.running import run
from refactx.nl2sparql.validation.scoping import scoping_problems
from refactx.nl2sparql.validation.syntax import syntax_problems
from refactx.sparql.engines import QueryRefusedError, SparqlEngine, SparqlSyntaxError
from refactx.sparql.engines.worker import within

ROWS, SECONDS = 10, 30.0


def validate(
    sparql: str, pack: Pack, engine: SparqlEngine | None = None, *, rows: int = ROWS, seconds: float = SECONDS
) -> Report:
    """Return what is wrong with a query for the endpoint of a pack, and its first rows if nothing is.

    L1: pyoxigraph's parser, and prefixes that are not declared. L2: the rules of the pack, whether its names, graphs and
    services exist, whether variables have values, and texts where resources are expected. L3, if L1 and L2 find nothing
    and there is an engine: at most `rows` rows. L1 and L2 take at most `seconds` together, and so does L3.

    >>> from refactx.nl2sparql.pack import load_pack
    >>> query = "PREFIX elita: <http://w3id.org/elita/> SELECT ?e { ?e elita:HasEmotion elita:Joy }"
    >>> report = validate(query, load_pack("liita"))
    >>> report.ok, report.problems[0].text
    (False, 'elita:Joy is unknown: liita has no such name')
    """
    try:
        problems = within(seconds, lambda: _first_levels(sparql, pack))
    except TimeoutError:
        text = f"the check of the query takes more than {seconds:g} s"
        return Report(problems=(Problem("L1", "time", text, "write it with fewer patterns and values"),))
    if problems or engine is None:
        return Report(problems=tuple(dict.fromkeys(problems)))
    return run(sparql, engine, rows, seconds)


def _first_levels(sparql: str, pack: Pack) -> list[Problem]:
    problems, whole = syntax_problems(sparql, pack)
    if all(problem.code == "prefix" for problem in problems):
        problems += _second_level(whole, pack)
    return problems


def _second_level(sparql: str, pack: Pack) -> Iterator[Problem]:
    try:
        query = parse(sparql)
    except (SparqlSyntaxError, QueryRefusedError) as error:  # syntax beyond SPARQL 1.1, which pyoxigraph knows
        text = f"the rules cannot read this query: {error}".partition(": expected a query")[0]
        yield Problem("L2", "form", text, "write it in SPARQL 1.1, as the examples are")
        return
    yield from naming_problems(query, pack)
    gives = {f"<{pack.services[name]}>": endings for name, endings in pack.gives.items()}
    yield from scoping_problems(query, gives)
    yield from _rule_problems(query, pack)


def _rule_problems(query: ParsedQuery, pack: Pack) -> Iterator[Problem]:
    texts: set[str] = set()
    for rule in pack.rules:
        for one in rule.findings(query, pack.schema):
            texts.add(one.text)
            yield Problem("L2", f"rule.{rule.id}", one.text, one.hint)
    if not texts:
        names = Names(pack.prefixes, {})
        yield from (Problem("L2", "type", one.text, one.hint) for one in Types(()).findings(query, names, pack.schema))
