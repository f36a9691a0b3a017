"""The plan of a query's data: a value for each of its variables, so that all of its conditions hold."""

from collections.abc import Mapping, Sequence
from itertools import islice, product

from pyoxigraph import Store

from refactx.nl2sparql.frozen.candidates import Fresh, candidates, test_of, used_together, variable_of
from refactx.nl2sparql.frozen.expressions import conjuncts, counted
from refactx.nl2sparql.frozen.profile import Profile
from refactx.nl2sparql.parsed import Call, Data, Expression, ParsedQuery, is_blank, is_variable

_TRIED = 400
"""The most combinations of values that are tried for conditions over several variables."""
_SOME = 40
"""The most values of one variable that are tried."""
_EMPTY = Store()


class CannotFreezeError(Exception):
    """A query for which no values were found. Its text says which condition they miss."""


class Plan:
    """The values of one query. `copies`: how many of them a group needs; `keys`: variables that those copies share."""

    def __init__(self, query: ParsedQuery, profile: Profile) -> None:
        self.query, self._profile = query, profile
        self._literals = profile.literals(query)
        terms = [term for one in query.patterns for term in (*one.terms, one.graph or "", one.service or "")]
        self._names = [term for term in dict.fromkeys(terms) if is_variable(term) or is_blank(term)]
        self._conditions = [one for one in conjuncts(query) if used_together(one) <= set(self._names)]
        self._classes = self._equal()
        self.copies = counted(query)
        self.keys = self._keys()

    def values(self, suffix: str, number: int = 0, shared: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return a term for each variable. `suffix`: what fresh values end with; `number`: of the copy, which chooses among
        constants; `shared`: values that are given.

        Raises CannotFreezeError if none are found that keep all conditions.
        """
        given = shared or {}
        choices: dict[str, list[str]] = {}
        for root, members in self._classes.items():
            have = [given[name] for name in members if name in given]
            found = have[:1] or self._choices(members, suffix)
            constants = [term for term in found if suffix not in term]
            shift = number % len(constants) if len(constants) > 1 and constants == found[: len(constants)] else 0
            choices[root] = [*found[shift:], *found[:shift]]
        for chosen in islice(product(*choices.values()), _TRIED):
            by_root = dict(zip(choices, chosen, strict=True))
            values = {name: by_root[root] for root, members in self._classes.items() for name in members}
            wrong = self._wrong(values)
            if not wrong:
                return values
            if len(choices) > 1:
                narrow = {root for root, members in self._classes.items() if used_together(wrong[0]) & set(members)}
                choices = {root: found if root in narrow else found[:1] for root, found in choices.items()}
                return self._searched(choices)
        raise CannotFreezeError("no values keep its conditions")

    def filtered(self) -> list[str]:
        """Return the variables that a condition compares with a constant."""
        roots = [
            members[0]
            for members in self._classes.values()
            if any(self._about(one, members) for one in self._conditions)
        ]
        return [name for name in roots if name in self._literals]

    def fresh(self, name: str, suffix: str) -> str:
        """Return a fresh value of a variable."""
        return Fresh(_word(name), name in self._literals).named(suffix)

    # --- Values

    def _searched(self, choices: Mapping[str, Sequence[str]]) -> dict[str, str]:
        """Return the first combination of choices that keeps all conditions."""
        wrong: list[Expression] = []
        for chosen in islice(product(*choices.values()), _TRIED):
            by_root = dict(zip(choices, chosen, strict=True))
            values = {name: by_root[root] for root, members in self._classes.items() for name in members}
            wrong = self._wrong(values)
            if not wrong:
                return values
        raise CannotFreezeError(f"no values keep its condition {wrong[0] if wrong else ''}")

    def _choices(self, members: Sequence[str], suffix: str) -> list[str]:
        """Return values for variables that are equal, each of which keeps the conditions on them alone."""
        name = members[0]
        about = [one for one in self._conditions if used_together(one) & set(members)]
        alone = [one for one in about if used_together(one) <= set(members)]
        fresh = Fresh(_word(name), name in self._literals)
        found = [cell for data in self.query.data for cell in self._column(data, members)]
        if alone and not found and not fresh.is_literal:
            found += self._near(members)
        if any(name in (one.graph, one.service) for one in self.query.patterns):
            found += self._profile.graphs
        found += islice(candidates(members, about, fresh, suffix), _SOME)
        kept = [term for term in dict.fromkeys(found) if _holds(alone, dict.fromkeys(members, term))]
        if not kept:
            raise CannotFreezeError(f"no value of {name} keeps its conditions")
        return kept

    def _near(self, members: Sequence[str]) -> list[str]:
        """Return the constants that stand where variables do."""
        places = self._profile.constants
        found = [places.get((one.predicate, "object"), ()) for one in self.query.patterns if one.object in members]
        found += [places.get((one.predicate, "subject"), ()) for one in self.query.patterns if one.subject in members]
        return [term for terms in found for term in terms]

    def _column(self, data: Data, members: Sequence[str]) -> list[str]:
        variables, rows = data.variables, data.rows
        places = [at for at, name in enumerate(variables) if name in members]
        return [term for row in rows for at in places if (term := row[at]) is not None]

    def _wrong(self, values: Mapping[str, str]) -> list[Expression]:
        return [
            one for one in self._conditions if not _holds([one], {name: values[name] for name in used_together(one)})
        ]

    # --- What hangs together

    def _equal(self) -> dict[str, list[str]]:
        """Return the variables by the first of those that a condition makes equal."""
        root = {name: name for name in self._names}
        for condition in self._conditions:
            if isinstance(condition, Call) and condition.name == "=" and len(condition.arguments) == 2:
                one, other = (variable_of(argument) for argument in condition.arguments)
                if one in root and other in root and (one in self._literals) == (other in self._literals):
                    first, second = root[one], root[other]
                    root = {name: first if at == second else at for name, at in root.items()}
        found: dict[str, list[str]] = {}
        for name in self._names:
            found.setdefault(root[name], []).append(name)
        return found

    def _keys(self) -> list[str]:
        """Return the variables by which a query with HAVING groups, and those equal to them."""
        levels = {one.group for one in self.query.conditions if one.kind == "having"}
        keys = {
            name
            for one in self.query.conditions
            if one.kind == "group" and one.group in levels
            for name in used_together(one.expression)
        }
        return [name for members in self._classes.values() if keys & set(members) for name in members]

    def _about(self, condition: Expression, members: Sequence[str]) -> bool:
        return used_together(condition) <= set(members) and bool(used_together(condition))


def _holds(conditions: Sequence[Expression], values: dict[str, str]) -> bool:
    if not conditions:
        return True
    try:
        return bool(_EMPTY.query(test_of(conditions, values)))
    except SyntaxError:
        return False


def _word(name: str) -> str:
    return name[1:] if is_variable(name) else f"node{name[2:]}-"
