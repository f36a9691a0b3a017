"""A language model as judge of answers: one in this process, or one behind an OpenAI-compatible URL.

The judge's prompt is data (`refactx.prompts`, judge.toml). A reply is a verdict only if it is one of the prompt's two
words, but for case, white space around it, asterisks and a full stop; what stands before the last `</think>` is not
part of it. Any other reply is no verdict: it is counted apart, and as neither right nor wrong. Only answers given are
judged; the others are wrong as they are.
"""

import json
import os
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import urlsplit

from tqdm import tqdm

from refactx.asking.prompt import Prompt
from refactx.errors import InputError, ModelError
from refactx.eval.log import AnswerLog, write_whole

KEY_VARIABLE = "REFACTX_JUDGE_KEY"
"""The environment variable with the key of a judge behind a URL; a name of our own, so that no other key is sent there."""

MAX_REPLY_TOKENS = 1024
"""Room for a judge that reasons first."""

_SECONDS = 120.0

Reply = Callable[[Prompt, str], str]
"""From the judge's prompt and a user's message to what the model writes."""


@dataclass(frozen=True, slots=True)
class JudgePrompt:
    """`system` and `user` text, and the two words of a verdict. `user` has $question, $gold and $answer."""

    system: str
    user: str
    right: str
    wrong: str

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that change with any of its texts."""
        return sha256("\0".join((self.system, self.user, self.right, self.wrong)).encode()).hexdigest()[:16]

    def message(self, question: str, golds: Sequence[str], answer: str) -> str:
        """The user's message. What is put in is not looked at for placeholders.

        >>> JudgePrompt("", "$question/$gold/$answer", "R", "W").message("Q $answer", ["a", "b"], "c")
        'Q $answer/a; b/c'
        """
        return Template(self.user).substitute(question=question, gold="; ".join(golds), answer=answer)

    def verdict(self, reply: str) -> bool | None:
        """Whether a reply says right (True) or wrong (False); None if it is neither.

        >>> prompt = JudgePrompt("", "", "RIGHT", "WRONG")
        >>> [prompt.verdict(r) for r in (" right.", "**WRONG**", "<think>RIGHT</think> Wrong", "RIGHT or WRONG", "")]
        [True, False, False, None, None]
        """
        word = reply.rpartition("</think>")[2].strip().strip("*").rstrip(".").strip().casefold()
        return {self.right.casefold(): True, self.wrong.casefold(): False}.get(word)


def load_judge_prompt(path: Path | None = None) -> JudgePrompt:
    """The judge's prompt, from a TOML file or our own. Raises InputError."""
    source = path or files("refactx.prompts") / "judge.toml"
    try:
        prompt = JudgePrompt(**tomllib.loads(source.read_text(encoding="utf-8")))
        for text in (prompt.system, prompt.right, prompt.wrong):
            if not isinstance(text, str) or not text.strip():
                raise ValueError("system, right and wrong must be texts")
        prompt.message("question", ["gold"], "answer")
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, TypeError, ValueError, KeyError) as error:
        raise InputError(
            f"{source} is no prompt of a judge ({error}): it has the texts system, user, right and wrong, and user "
            "has $question, $gold and $answer"
        ) from error
    return prompt


def local_judge(name: str) -> Reply:
    """A judge in this process: a Hugging Face id, folder or GGUF file. Decoding is greedy. Raises ModelError."""
    from refactx.asking.asker import Asker
    from refactx.models.loading import load_model

    model, tokenizer = load_model(name)
    askers: dict[Prompt, Asker] = {}

    def reply(prompt: Prompt, message: str) -> str:
        asker = askers.setdefault(prompt, Asker(model, tokenizer, None, prompt))
        return asker.ask(message, max_new_tokens=MAX_REPLY_TOKENS, free=True).text

    return reply


def remote_judge(name: str, url: str, key: str | None = None, retries: int = 4) -> Reply:
    """A judge behind an OpenAI-compatible URL such as http://127.0.0.1:8000/v1; `key`: default $REFACTX_JUDGE_KEY.

    Requests that fail for a while (no connection, time-out, 429, 5xx) are tried again, `retries` times, at growing
    intervals. Raises InputError for a URL that
    is none; the reply raises ModelError where the server cannot be reached or refuses.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"{url!r} is not the address of a server: give one such as http://127.0.0.1:8000/v1")
    import openai  # a second

    shown = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
    # a server that wants no key takes any; the client wants one
    client = openai.OpenAI(
        api_key=key or os.environ.get(KEY_VARIABLE) or "none", base_url=url, timeout=_SECONDS, max_retries=retries
    )

    def reply(prompt: Prompt, message: str) -> str:
        messages: Any = prompt.messages(message)
        try:
            completion = client.chat.completions.create(
                model=name, messages=messages, temperature=0, max_tokens=MAX_REPLY_TOKENS
            )
            return completion.choices[0].message.content or ""
        except openai.APIConnectionError as error:
            raise ModelError(f"the judge at {shown} cannot be reached: check --judge-url and that it runs") from error
        except openai.AuthenticationError as error:
            raise ModelError(f"the judge at {shown} wants another key: set {KEY_VARIABLE}") from error
        except openai.APIStatusError as error:
            said = " ".join(str(error.message).split())[:200]
            raise ModelError(f"the judge at {shown} refused the request for model {name!r}: {said}") from error
        except (openai.OpenAIError, AttributeError, IndexError, TypeError, ValueError) as error:
            raise ModelError(f"the judge at {shown} gave an answer that is no chat completion: {error}") from error

    return reply


@dataclass(frozen=True, slots=True)
class Case:
    """An answer to judge: `key` tells it from all others of a run."""

    key: str
    question: str
    golds: tuple[str, ...]
    answer: str


def judge_all(
    folder: Path, cases: Sequence[Case], who: str, prompt: JudgePrompt, judge: Callable[[], Reply]
) -> dict[str, Any]:
    """The verdict on each case by its key: True, False, or None where the reply is none.

    Verdicts are kept in `judge.jsonl`, and `judge.json` says whose they are: a second call goes on where one stopped.
    `judge` is called for the model only if something is left to judge. Raises InputError where another judge was there.
    """
    settings, path = {"judge": who, "prompt": prompt.fingerprint}, folder / "judge.json"
    with AnswerLog(folder / "judge.jsonl") as log:
        _same_judge(path, settings)
        left = [case for case in cases if log.records.get(case.key, {}).get("answer") != case.answer]
        if left:
            reply, asked = judge(), Prompt(prompt.system)
            for case in tqdm(left, desc="verdicts", disable=None, leave=False):
                try:
                    said = reply(asked, prompt.message(case.question, case.golds, case.answer))
                except InputError as error:  # too long for the judge, say
                    said = f"(not asked: {error})"
                log.add(case.key, {"answer": case.answer, "verdict": prompt.verdict(said), "reply": said})
        return {case.key: log.records[case.key]["verdict"] for case in cases}


def _same_judge(path: Path, settings: dict[str, str]) -> None:
    if not path.exists():
        return write_whole(path, settings)
    try:
        recorded = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}): delete it and judge.jsonl beside it") from error
    if recorded != settings:
        raise InputError(
            f"{path.parent} holds the verdicts of another judge or prompt ({recorded}): give that one, or delete "
            "judge.json and judge.jsonl there"
        )
    return None
