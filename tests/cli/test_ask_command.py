"""`refactx ask` in a terminal and without one: conversations, Ctrl-C, files, prompts, mistakes."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.command import complains

from refactx.cli.main import cli
from refactx.errors import RefactxError

REFACTX = str(Path(sys.executable).with_name("refactx"))
SHORT = ("--max-new-tokens", 20)
LONG = 20_000  # tokens, which take the tiny model a minute


def in_process(*arguments: object, **options: Any) -> Result:
    """A command without a terminal, in this process."""
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], **options)


class Shown:
    """The output of a terminal."""

    def __init__(self, terminal: int) -> None:
        self._terminal, self._seen = terminal, ""

    def wait_for(self, pattern: str, seconds: float = 120) -> str:
        """The output from the last pattern to this one."""
        end = time.monotonic() + seconds
        while (found := re.search(pattern, self._seen)) is None:
            assert time.monotonic() < end, f"no {pattern!r} in {self._seen[-2000:]!r}"
            self.read()
        shown, self._seen = self._seen[: found.end()], self._seen[found.end() :]
        return shown

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def press(self, key: str, pattern: str) -> str:
        """Type a key, again and again until something is shown: a signal may come before the prompt waits for one."""
        for _ in range(20):
            self.type(key)
            with suppress(AssertionError):
                return self.wait_for(pattern, 6)
        raise AssertionError(f"no {pattern!r} in {self._seen[-2000:]!r}, however often {key!r} was typed")

    def read(self) -> None:
        if select.select([self._terminal], [], [], 0.05)[0]:
            with suppress(OSError):  # the other side has closed it
                self._seen += os.read(self._terminal, 65536).decode("utf-8", "replace")


def new_terminal() -> tuple[int, int]:
    """The outer and the inner end of a terminal of 100 columns."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    return outer, inner


TAKE_THE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)


@contextmanager
def in_a_terminal(*arguments: object) -> Iterator[tuple[Shown, "subprocess.Popen[bytes]"]]:
    """A command with a terminal of its own, in which Ctrl-C is a signal."""
    outer, inner = new_terminal()
    command = [sys.executable, "-c", TAKE_THE_TERMINAL, REFACTX, *map(str, arguments)]
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(
        command, stdin=inner, stdout=inner, stderr=inner, start_new_session=True, env=environment
    ) as running:
        os.close(inner)
        try:
            yield Shown(outer), running
        finally:
            running.kill()
            os.close(outer)


INTERRUPTED = r"(?s)\(interrupted\).*\n> $"  # and the prompt for the next question


@pytest.mark.long
def test_ctrl_c_ends_an_answer_and_keeps_the_conversation(url: str, tiny_folder: Path) -> None:
    command = ("ask", "--chat", "--model", tiny_folder, "--db", url, "--max-new-tokens", LONG)
    with in_a_terminal(*command) as (chat, running):
        chat.wait_for("> ")
        chat.type("Fact:\r")
        shown = chat.wait_for(r"\d{3,} tokens, [1-3] facts?, \d+ s")  # it is in the middle of it
        chat.type("\x03")
        shown += chat.wait_for(INTERRUPTED)
        assert "\x1b[4;34m<" in shown, "blue and underlined"
        assert re.search(r"\n\x1b\[1m(Ann|Bé)\x1b\[0m\r\n  p\r\n", shown), "the facts, by subject"
        chat.type("hello\r")
        chat.wait_for(r"\d{3,} tokens, \d facts?, \d+ s")
        chat.type("\x03")
        chat.wait_for(INTERRUPTED)
        chat.type("/new\r")
        chat.wait_for(r"(?s)a new conversation.*> $")
        chat.press("\x03", r"(?s)/quit.*> $")
        chat.type("\x04")
        assert running.wait(30) == 0


@pytest.mark.long
def test_without_a_conversation_ctrl_c_prints_the_answer_so_far_and_exits_with_130(url: str, tiny_folder: Path) -> None:
    outer, inner = new_terminal()
    command = [REFACTX, "ask", "Fact:", "never asked", "--model", str(tiny_folder), "--db", url, "--json"]
    with subprocess.Popen([*command, "--max-new-tokens", str(LONG)], stdout=subprocess.PIPE, stderr=inner) as running:
        Shown(outer).wait_for(r"\d{3,} tokens .*facts=[123]")
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=30)
    for end in (outer, inner):
        os.close(end)
    assert running.returncode == 130
    answer = json.loads(out)
    assert (answer["question"], answer["finish_reason"]) == ("Fact:", "interrupted")
    assert answer["facts"]
    assert 100 <= answer["tokens"] < LONG


def test_questions_of_a_file_are_answered_in_order_and_one_that_cannot_be_asked_is_reported(
    url: str, tiny_folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "questions.jsonl"
    asked = ["Fact:", "</s>", "What? Fact:", "hello"]
    file.write_text("".join(json.dumps({"question": text}) + "\n" for text in asked))
    done = in_process("ask", "--file", file, "--batch-size", 3, "--model", tiny_folder, "--db", url, "--json", *SHORT)
    assert "1 of 4 questions cannot be asked; the first is '</s>'" in str(done.exception)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["question"] for answer in answers] == asked
    assert "the question is empty" in answers[1]["error"]
    assert answers[2]["facts"]


def test_a_conversation_takes_its_questions_from_a_pipe_too(url: str, tiny_folder: Path) -> None:
    lines = "hello\n\n/new\nFact:\n/quit\nnever asked\n"
    done = in_process("ask", "Fact:", "--chat", "--model", tiny_folder, "--db", url, "--json", *SHORT, input=lines)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["question"] for answer in answers] == ["Fact:", "hello", "Fact:"]
    assert answers[0]["text"] == answers[2]["text"]
    assert done.exit_code == 0


def test_a_prompt_that_does_not_fit_the_index_is_reported(url: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('system = "S"\ntrigger = "Proof:"\n')
    said = complains("ask", "Who?", "--model", "demo", "--db", url, "--prompt", file)
    assert "the prompt's trigger is 'Proof:', but that of index 'default' is 'Fact:'" in said


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "there is no question"),
        (("a", "--chat", "--file", "q"), "--chat was given with --file or --batch-size"),
        (("a", "--top-k", 5), "give a temperature above 0"),
        (("a", "--num-beams", 2, "--fact-beams", 2), "leave out num_beams"),
        (("--file", "/none/such"), "cannot read the questions in /none/such"),
        (("a", "--prompt", "none.toml"), "there is no prompt none.toml"),
        (("a", "--free", "--device", "cuda:7"), "PyTorch finds no device cuda:7"),
        (("a", "--free", "--device", "gpu"), "'gpu' is not a device"),
    ],
)
def test_wrong_options_are_reported_before_anything_is_read(arguments: tuple[object, ...], expected: str) -> None:
    done = in_process("ask", *arguments, "--model", "demo", "--db", "postgresql://nobody@127.0.0.1:1/none")
    assert isinstance(done.exception, RefactxError)
    assert expected in str(done.exception)
    assert done.stdout == ""
