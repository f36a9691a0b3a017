"""A language model as judge of answers: a model in this process, or a server with an OpenAI-compatible API.

The judge's prompt is data (`refactx.prompts`): judge.toml takes an answer with one of several gold answers as right,
judge-complete.toml only one with all, as in the paper. A reply is a verdict only if it is one of the prompt's two
words, apart from case, white space, asterisks and a full stop around it; what it thinks (`<think>`) is ignored.
Other replies are counted separately, as neither right nor wrong. Only given answers are judged: a question without one
counts as wrong.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from refactx.ask.chat_server import RETRIES, ChatServer, ServerRole
from refactx.ask.prompt import Prompt
from refactx.decoding.thoughts import without_thoughts
from refactx.errors import InputError
from refactx.eval.run import RunLog
from refactx.eval.statistics import share
from refactx.paths import read_toml
from refactx.progress import progress_bar

KEY_VARIABLE = "REFACTX_JUDGE_KEY"
"""The environment variable with the key for a judge's server."""

PROMPT = "judge"
"""The prompt of the judge by default; `judge-complete` has the rule of the paper."""
MAX_REPLY_TOKENS = 1024
"""Enough for a judge that reasons first."""

_SERVER = ServerRole(name="the judge", option="--judge-url", key=KEY_VARIABLE, extra="eval")

Reply = Callable[[Prompt, str], str]
"""A judge: it takes its prompt and a user's message, and returns its reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePrompt:
    """The texts of a judge's prompt, and the two words of a verdict. `user` has $question, $gold and $answer."""

    system: str
    user: str
    right: str
    wrong: str

    @property
    def fingerprint(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of its texts."""
        return sha256("\0".join((self.system, self.user, self.right, self.wrong)).encode()).hexdigest()[:16]

    def message(self, question: str, golds: Sequence[str], answer: str) -> str:
        """Return the user's message. Placeholders in the question and the answers are not replaced.

        >>> prompt = JudgePrompt(system="", user="$question/$gold/$answer", right="R", wrong="W")
        >>> prompt.message("Q $answer", ["a", "b"], "c")
        'Q $answer/a; b/c'
        """
        return Template(self.user).substitute(question=question, gold="; ".join(golds), answer=answer)

    def verdict(self, reply: str) -> bool | None:
        """Return the verdict of a reply: right (True) or wrong (False); None if it is neither.

        >>> prompt = JudgePrompt(system="", user="", right="RIGHT", wrong="WRONG")
        >>> [prompt.verdict(r) for r in (" right.", "**WRONG**", "<think>RIGHT</think> Wrong", "RIGHT or WRONG", "")]
        [True, False, False, None, None]
        """
        word = without_thoughts(reply).strip().strip("*").rstrip(".").strip().casefold()
        return {self.right.casefold(): True, self.wrong.casefold(): False}.get(word)


def load_judge_prompt(name: str = PROMPT) -> JudgePrompt:
    """Return a judge's prompt: a built-in one, or that in a TOML file. Raise InputError if it is not valid."""
    source = Path(name) if name.endswith(".toml") else files("refactx.prompts") / f"{name}.toml"
    try:
        prompt = JudgePrompt(**read_toml(source.read_text(encoding="utf-8")))
        for text in (prompt.system, prompt.right, prompt.wrong):
            if not isinstance(text, str) or not text.strip():
                raise ValueError("system, right and wrong must be texts")
        prompt.message("question", ["gold"], "answer")
    except (OSError, TypeError, ValueError, KeyError) as error:
        raise InputError(
            f"{source} is not a judge's prompt ({error}): it needs the texts system, user, right and wrong, and user "
            "needs $question, $gold and $answer"
        ) from error
    return prompt


def local_judge(name: str) -> Reply:
    """Return a judge in this process, with greedy decoding. `name`: a Hugging Face id, folder, or a GGUF file, which
    llama.cpp runs.

    Raises ModelError if the model cannot be loaded.
    """
    from refactx.ask.chat_text import ChatModel
    from refactx.engines.language_models import load_language_model

    model = ChatModel(load_language_model(name), is_alike=True)
    return lambda prompt, message: model.generate(prompt.messages(message), MAX_REPLY_TOKENS)


def remote_judge(name: str, url: str, key: str | None = None, retries: int = RETRIES) -> Reply:
    """Return a judge on a server with an OpenAI-compatible API, such as http://127.0.0.1:8000/v1.

    `key`: by default $REFACTX_JUDGE_KEY; `retries`: as of `ChatServer`. Raises InputError if `url` is not one; the judge
    raises ModelError if the server cannot be reached or refuses a request.
    """
    server = ChatServer(name, url, _SERVER, key=key, retries=retries)
    return lambda prompt, message: server.generate(prompt.messages(message), MAX_REPLY_TOKENS)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedAnswer:
    """An answer to judge. `key`: unique in a run."""

    key: str
    question: str
    golds: tuple[str, ...]
    answer: str


def judge_all(
    folder: Path, cases: Sequence[JudgedAnswer], who: str, prompt: JudgePrompt, judge: Callable[[], Reply]
) -> dict[str, Any]:
    """Return the verdict on each case by its key: right (True), wrong (False), or None if the reply was neither.

    Verdicts are stored in `judge.jsonl` with the judge's name, so a second call continues a first one. `judge` is called,
    to load the model, only if any case is left. Raises InputError if the folder has the verdicts of another judge.
    """
    by = f"{who}, prompt {prompt.fingerprint}"
    with RunLog(folder, "judge") as log:
        others = {record.get("judge") for record in log.records.values()} - {by}
        if others:
            raise InputError(
                f"{folder} has the verdicts of another judge or prompt ({others.pop()}, now {by}): give that one, or delete "
                "judge.jsonl there"
            )
        left = [case for case in cases if log.records.get(case.key, {}).get("answer") != case.answer]
        if left:
            reply, asked = judge(), Prompt(system=prompt.system)
            for case in progress_bar("verdicts", len(left), iterable=left, unit=" questions", leave=False):
                try:
                    said = reply(asked, prompt.message(case.question, case.golds, case.answer))
                except InputError as error:  # for example if the message is too long for the judge
                    said = f"(not asked: {error})"
                verdict = prompt.verdict(said)
                log.add(case.key, {"judge": by, "answer": case.answer, "verdict": verdict, "reply": said})
        return {case.key: log.records[case.key]["verdict"] for case in cases}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """An answer with the verdict of a person. `why`: the reason."""

    case: JudgedAnswer
    is_right: bool
    why: str


def read_judgements(path: Path, rule: str) -> list[Judgement]:
    """Return the judgements of a file, one JSON object a line: `question`, `answers` (gold), `answer`, `verdicts`, `why`.

    `rule`: which of the verdicts, by name of the judge's prompt: `{"judge": true, "judge-complete": false}`. Raises InputError
    if a line is none.
    """
    found = []
    try:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            one = json.loads(line)
            answers, verdict = tuple(map(str, one["answers"])), one["verdicts"][rule]
            if not isinstance(verdict, bool) or not answers:
                raise TypeError("a verdict is true or false, and there are gold answers")
            case = JudgedAnswer(key=str(number), question=one["question"], golds=answers, answer=one["answer"])
            found.append(Judgement(case=case, is_right=verdict, why=str(one.get("why", ""))))
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        raise InputError(
            f"{path}, line {len(found) + 1}: {error!r}: expected question, answers, answer, and verdicts with {rule}"
        ) from error
    if not found:
        raise InputError(f"{path} has no judgements: write one JSON object a line")
    return found


def agreement(judgements: Sequence[Judgement], verdicts: Mapping[str, bool | None]) -> dict[str, Any]:
    """Return how often the verdicts of a judge are those of a person, and which are not, with the person's reasons."""
    pairs = [(one, verdicts[one.case.key]) for one in judgements]
    return {
        "agreement": share(verdict is one.is_right for one, verdict in pairs).to_json(),
        "wrong_called_right": sum(verdict is True and not one.is_right for one, verdict in pairs),
        "right_called_wrong": sum(verdict is False and one.is_right for one, verdict in pairs),
        "without_verdict": sum(verdict is None for _, verdict in pairs),
        "others": [
            {"line": int(one.case.key), "question": one.case.question, "answer": one.case.answer, "verdict": verdict}
            | {"is_right": one.is_right, "why": one.why}
            for one, verdict in pairs
            if verdict is not one.is_right
        ],
    }
