"""`python -m bench.serving MODEL [INDEX] [--clients N] [--questions FILE] [--engine E] ...`: the figures of `refactx serve`.

The server is a process of its own. The throughput of N clients that stream at once is compared with that of the same
questions one after another, each with and without facts, after a warm-up: tokens a second, forced ones included. Then
`GET /v1/facts` is compared with the same lookup without a server.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from bench.serving.lookups import lookup_seconds
from bench.serving.streams import stream_all
from refactx.ask.examples import Examples
from refactx.index.index import Index
from refactx.index.open import open_index
from refactx.walks import TreeFacts

NAME = "bench"


@click.command()
@click.argument("model")
@click.argument("index", default="default")
@click.option("--clients", default=16, show_default=True, type=click.IntRange(2), help="At once.")
@click.option(
    "--questions", type=click.Path(exists=True, path_type=Path), help="As of refactx eval; default: examples."
)
@click.option("--tokens", default=120, show_default=True, type=click.IntRange(1), help="At most, of each text.")
@click.option("--lookups", default=500, show_default=True, type=click.IntRange(1), help="How many are timed.")
@click.option("--engine", default="auto", show_default=True, help="As of refactx serve.")
@click.option("--threads", type=click.IntRange(1), help="As of refactx serve.")
def main(
    model: str,
    index: str,
    clients: int,
    questions: Path | None,
    tokens: int,
    lookups: int,
    engine: str,
    threads: int | None,
) -> None:
    """Print the figures of a server of MODEL on INDEX."""
    options = ["--engine", engine, *(["--threads", str(threads)] if threads else []), "--max-running", str(clients)]
    with open_index(index) as opened, serving(model, index, options) as url:
        asked = questions_of(opened, questions, clients)
        click.echo(f"{len(asked)} questions, at most {tokens} tokens each")
        for title, name in (("free", f"{NAME}:free"), ("with facts", NAME)):
            stream_all(url, name, asked[:2], tokens=8, clients=1)  # the beginning of the prompt is read once
            one = stream_all(url, name, asked, tokens=tokens, clients=1)
            many = stream_all(url, name, asked, tokens=tokens, clients=clients)
            click.echo(
                f"{title}: {many.rate:.1f} tokens/s by {clients} clients over {one.rate:.1f} by one: "
                f"{many.rate / one.rate:.2f} ({one.tokens} tokens in {one.passes} passes)"
            )
        http, direct = lookup_seconds(url, opened, lookups)
        click.echo(
            f"GET /v1/facts: p50 {http * 1e3:.2f} ms, without a server {direct * 1e3:.2f} ms: "
            f"overhead {(http - direct) * 1e3:.2f} ms"
        )


def questions_of(index: Index, file: Path | None, number: int) -> list[str]:
    """Return questions from a file, or else examples that facts of the index answer."""
    if file is not None:
        lines = file.read_text(encoding="utf-8").splitlines()[:number]
        return [json.loads(line)["question"] for line in lines]
    return [example.question for example in Examples(index, TreeFacts(index)).some(number, seed=0)]


@contextmanager
def serving(model: str, index: str, options: list[str]) -> Iterator[str]:
    """Run `refactx serve` and yield its URL when it is ready."""
    command = [sys.executable, "-m", "refactx", "serve", "--model", model, "--name", NAME, "--index", index]
    with subprocess.Popen(
        [*command, "--port", "0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ},
    ) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if " is served at " not in line:
                raise click.ClickException(f"refactx serve has not begun: run {' '.join(command)} to see why")
            yield line.split(" is served at ")[1].split(" ")[0]
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


if __name__ == "__main__":
    main()
