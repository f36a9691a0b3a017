"""The note on facts that a change left out, because it was not given the options of the index's ingest."""

from refactx.fact import counted
from refactx.ingest.report import Report
from refactx.ingest.selection import Selection
from refactx.postgres.catalogue_entry import CatalogueEntry


def note_on_left_out(entry: CatalogueEntry, action: str, selection: Selection, report: Report) -> str:
    """Return which facts a change left out that the index's ingest would have made, and what to do; "" if none."""
    own = entry.report.get("selection", {})
    other_names = bool(own.get("inverse_names")) and own["inverse_names"] != dict(selection.inverse_names)
    missing, facts = [], []
    if report.entities or own.get("inverse_names"):  # only given names invert ready-made facts
        if own.get("inverse") and not selection.inverse:
            missing.append("--inverse")
        if other_names and not (selection.inverse and report.entities):  # claims follow the names that the index has
            missing.append("--inverse-names")
        facts += ["inverse facts"] if missing else []
    if own.get("aliases") and not selection.aliases and report.dropped.get("alias"):
        missing.append("--aliases")
        facts.append("facts of aliases")
    if missing:
        return (
            f"index {entry.name!r} was ingested with {' '.join(missing)}, which this change was not given: the "
            f"{' and '.join(facts)} of these sources {'were not added' if action == 'append' else 'stay'}. "
            "Run the command again with the options of the ingest"
        )
    if other_names and action == "append" and report.names.get("inverse"):
        return (
            f"index {entry.name!r} was ingested with other --inverse-names: {counted(report.names['inverse'], 'predicate')} of "
            "inverse facts, new to it, got a name without them and will keep it. Give each change the "
            "--inverse-names of the ingest"
        )
    return ""
