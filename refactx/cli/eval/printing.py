"""What `refactx eval` prints at its end."""

from collections.abc import Callable, Iterable
from typing import Any

import click

from refactx.cli.options import print_json
from refactx.fact import counted


def print_report(
    report: dict[str, Any], lines: Callable[[dict[str, Any]], Iterable[str]], as_json: bool, where: str
) -> None:
    """Print a report, or what a shard did. `lines`: returns those of a report; `where`: its files."""
    if as_json:
        return print_json(report)
    if "shard" in report:
        done, are = report["questions"], "is" if report["questions"] == 1 else "are"
        return click.echo(
            f"shard {report['shard']}: its {counted(done, 'question')} {are} done; once all shards are, the same command "
            "without --shard writes the report"
        )
    for line in lines(report):
        click.echo(line)
    return click.echo(f"report: {where}")
