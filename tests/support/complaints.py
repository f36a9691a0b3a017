"""The errors of commands for a hostile index, in bounded memory."""

import resource

from support.command import run_refactx


def complains(url: str, *command: object) -> str:
    done = run_refactx(*command, "--db", url, preexec_fn=limited)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    return done.stderr


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
