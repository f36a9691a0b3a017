"""The report on a pack: each way of translating, by category and by pattern, with intervals."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from refactx.eval.intervals import mean, proportion
from refactx.eval.packs.cases import Case

Record = Mapping[str, Any]
FIGURES = {
    "syntax": "SPARQL",
    "executed": "Runs",
    "f1": "F1 of rows",
    "exact": "All rows right",
    "components": "Components",
    "patterns": "Patterns, F1",
    "attempts": "Attempts",
}


def report_of(
    settings: Mapping[str, Any], cases: Sequence[Case], records: Mapping[str, Sequence[Record]]
) -> dict[str, Any]:
    """Return the report as one JSON document."""
    document: dict[str, Any] = {"settings": dict(settings), "cases": len(cases), "modes": {}}
    for mode, lines in records.items():
        by_category, by_pattern = defaultdict[str, list[Record]](list), defaultdict[str, list[Record]](list)
        for case, line in zip(cases, lines, strict=True):
            by_category[case.category or "other"].append(line)
            for pattern in case.patterns:
                by_pattern[pattern].append(line)
        document["modes"][mode] = {
            "overall": figures(lines),
            "by_category": {name: figures(some) for name, some in sorted(by_category.items())},
            "by_pattern": {name: figures(some) for name, some in sorted(by_pattern.items())},
            "results": [
                {"id": case.id, "question": case.question, **{k: v for k, v in line.items() if k != "features"}}
                for case, line in zip(cases, lines, strict=True)
            ],
        }
    return document


def figures(lines: Sequence[Record]) -> dict[str, Any]:
    """Return the figures of some cases, each an estimate with its interval. A case that could not be asked is wrong."""
    count = len(lines)
    found: dict[str, Any] = {"cases": count}
    for name in ("syntax", "executed"):
        found[name] = proportion(sum(bool(line.get(name)) for line in lines), count).to_json()
    found["exact"] = proportion(sum(line.get("f1") == 1.0 for line in lines), count).to_json()
    found["f1"] = mean([float(line.get("f1") or 0.0) for line in lines]).to_json()
    for name in ("components", "patterns", "attempts"):
        found[name] = mean([float(line[name]) for line in lines if line.get(name) is not None]).to_json()
    return found


def lines_of(report: Mapping[str, Any]) -> list[str]:
    """Return the report as lines of text for a terminal."""
    width = max(map(len, FIGURES.values()))
    modes = report["modes"]
    shown = [f"{report['cases']} cases", f"{'':<{width}}" + "".join(f"{mode:>22}" for mode in modes)]
    for name, label in FIGURES.items():
        cells = [_cell(one["overall"][name]) for one in modes.values()]
        shown.append(f"{label:<{width}}" + "".join(f"{cell:>22}" for cell in cells))
    for category in next(iter(modes.values()))["by_category"] if modes else ():
        cells = [_cell(one["by_category"][category]["f1"]) for one in modes.values()]
        shown.append(f"F1, {category} ({next(iter(modes.values()))['by_category'][category]['cases']})")
        shown.append(f"{'':<{width}}" + "".join(f"{cell:>22}" for cell in cells))
    return shown


def _cell(estimate: Mapping[str, Any]) -> str:
    if estimate["value"] is None:
        return "-"
    return f"{estimate['value']:.2f} ({estimate['low']:.2f} to {estimate['high']:.2f})"
