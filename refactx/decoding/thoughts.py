"""Thoughts of models: the marks around them, in one table, and their reading, in replies and id by id.

A model that thinks writes a thought and then its answer. How its template marks a thought is found by `marks_in`; a
text is split at the marks while it is written (`ThoughtReader`) or afterwards (`without_thoughts`).

A mark that is a token of its own counts as that token alone, never as a text that looks like it. What is in a fact is
data: the label `</think>` closes no thought.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

_WORD = r"(?:\w+:)?(?:think|thinking|thoughts?|reasoning|reflection|analysis|scratchpad)"
_FINAL = "<|channel|>final<|message|>"
_LINES = {"begin": "\n", "before": "\n"}

_CHANNEL = re.compile(
    r"<\|channel\|>\s*(\w*)[^<]*<\|message\|>(.*?)(?=<\|(?:channel|start|end|return|call)\|>|\Z)", re.DOTALL
)
_NAMES = re.compile(rb"\xff\d+\xff")


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The texts around a thought.

    `opens`, `closes`: the marks; `begin`: what follows `opens`; `before`, `after`: what stands around `closes`, where
    we write it; `then`: what has to follow `closes`, whoever writes it; `skips`: what begins a reply without a thought.
    """

    opens: str
    closes: str
    begin: str = ""
    before: str = ""
    after: str = ""
    then: str = ""
    skips: str = ""

    @property
    def closing(self) -> str:
        """The text that ends a thought."""
        return f"{self.before}{self.closes}{self.then}{self.after}"


@dataclass(frozen=True, slots=True)
class _Form:
    """A way to mark thoughts: patterns of the marks, in any case, and the marks, where `{}` is the word in a pattern."""

    opened: str
    closed: str
    marks: Marks | None = None


_FORMS = (
    # gpt-oss (OpenAI's harmony format), and what is left of it without its special tokens
    _Form(
        r"<\|channel\|>\s*analysis\s*<\|message\|>",
        r"<\|channel\|>\s*final\s*<\|message\|>",
        Marks(
            opens="<|channel|>analysis<|message|>",
            closes="<|end|>",
            then=f"<|start|>assistant{_FINAL}",
            skips=_FINAL,
        ),
    ),
    _Form(r"\A(?-i:analysis(?=[A-Z<]))", r"(?-i:assistantfinal)"),
    # Gemma 4
    _Form(r"<\|channel>\s*thought\b", r"<channel\|>", Marks(opens="<|channel>thought", closes="<channel|>", **_LINES)),
    # Mistral, Ministral
    _Form(rf"\[{_WORD}\]", rf"\[/{_WORD}\]", Marks(opens="[{}]", closes="[/{}]")),
    # Kimi
    _Form("◁think▷", "◁/think▷", Marks(opens="◁think▷", closes="◁/think▷")),
    # Command A; OpenThinker
    _Form(
        r"<\|start_thinking\|>",
        r"<\|end_thinking\|>",
        Marks(opens="<|START_THINKING|>", closes="<|END_THINKING|>"),
    ),
    _Form(
        r"<\|begin_of_thought\|>",
        r"<\|end_of_thought\|>",
        Marks(opens="<|begin_of_thought|>", closes="<|end_of_thought|>", after="\n\n", **_LINES),
    ),
    # Qwen, DeepSeek, GLM, MiniMax, Nemotron, Kimi K2, LFM2, SmolLM3, Granite 3.3; EXAONE (thought), Seed (seed:think)
    _Form(
        rf"<{_WORD}(?:\s[^<>]*)?>",
        rf"</{_WORD}\s*>",
        Marks(opens="<{}>", closes="</{}>", after="\n\n", **_LINES),
    ),
    # Granite 3.1 and 3.2
    _Form(
        r"here(?:'s| is) my thought process:",
        r"here(?:'s| is) my response:",
        Marks(
            opens="Here is my thought process:", closes="Here is my response:", after="\n", begin="\n", before="\n\n"
        ),
    ),
)
"""The table of marks: what a template has is taken for the first form that it matches."""


def marks_in(text: str) -> Marks | None:
    """Return the marks of thoughts that a text has, such as a chat template; None if it has none.

    >>> marks_in("... <think>\\n\\n</think>\\n\\n").closing
    '\\n</think>\\n\\n'
    >>> marks_in("a [/THINK] b").opens, marks_in("<b>")
    ('[THINK]', None)
    """
    for form in _FORMS:
        found = re.search(f"{form.opened}|{form.closed}", text, re.IGNORECASE) if form.marks else None
        if found is not None and form.marks is not None:
            word = next(iter(re.findall(_WORD, found.group(), re.IGNORECASE)), "")
            opens, closes = (mark.replace("{}", word) for mark in (form.marks.opens, form.marks.closes))
            return replace(form.marks, opens=opens, closes=closes)
    return None


_OPENED = rf"^[ \t]*(?:{'|'.join(form.opened for form in _FORMS)})"
_CLOSED = rf"(?:{'|'.join(form.closed for form in _FORMS)})"
_WHOLE = re.compile(rf"{_OPENED}.*?{_CLOSED}", re.IGNORECASE | re.DOTALL | re.MULTILINE)
_REST = re.compile(rf"\A.*{_CLOSED}|{_OPENED}.*\Z", re.IGNORECASE | re.DOTALL | re.MULTILINE)


def without_thoughts(text: str) -> str:
    """Return what a model says to the user: without what it thinks, also in a thought that it has not ended.

    Thoughts stand between the marks of the table, in any case, of which a prompt may have the first one, or in the
    channels of OpenAI's harmony format, of which `final` is the user's.

    >>> without_thoughts("<think>Rome?</think>Bern"), without_thoughts("Rome?</think> Bern"), without_thoughts("<think>Rome")
    ('Bern', ' Bern', '')
    >>> without_thoughts("<|channel|>analysis<|message|>Rome?<|end|><|start|>a<|channel|>final<|message|>Bern<|return|>")
    'Bern'
    """
    if channels := _CHANNEL.findall(text):
        return "".join(said for name, said in channels if name == "final")
    return _REST.sub("", _WHOLE.sub("", text))


@dataclass(frozen=True, slots=True, kw_only=True)
class ThoughtTokens:
    """The marks of thoughts for one tokenizer.

    `opens`, `closes`, `then`: as in `Marks`, as bytes in which the tokens of `names` have names of their own, which no
    text has; `closing`: the ids that end a thought; `following`: those of `then`.
    """

    opens: bytes
    closes: bytes
    then: bytes
    names: Mapping[int, bytes]
    closing: tuple[int, ...]
    following: tuple[int, ...]

    @classmethod
    def of(cls, marks: Marks, encode: Callable[[str], Sequence[int]], added: Mapping[int, str]) -> "ThoughtTokens":
        """Return the marks as a tokenizer writes them. `encode`: text to ids; `added`: the texts of added tokens."""
        texts = marks.opens, marks.closes, marks.then
        found = {number: text for number, text in added.items() if text and any(text in mark for mark in texts)}
        names = {number: b"\xff%d\xff" % number for number in found}

        def named(text: str) -> bytes:
            data = text.encode()
            for number, token in sorted(found.items(), key=lambda one: -len(one[1])):
                data = data.replace(token.encode(), names[number])
            return data

        opens, closes, then = map(named, texts)
        return cls(
            opens=opens,
            closes=closes,
            then=then,
            names=names,
            closing=tuple(encode(marks.closing)),
            following=tuple(encode(marks.then)) if marks.then else (),
        )


Said = tuple[bytes, bool]
"""Bytes of a text, and whether they are part of a thought."""


class ThoughtReader:
    """The reading of one text, id by id. `is_open`: whether a thought is open: at first, whether the prompt opened one.

    A thought that the prompt did not open is one only at the beginning of the text. What may become a mark is held back.

    >>> tokens = ThoughtTokens.of(marks_in("<think>"), lambda text: [], {})
    >>> reader = ThoughtReader(tokens, is_open=True)
    >>> [reader.read(0, piece) for piece in (b"So </", b"think> B")]
    [[(b'So ', True)], [(b' B', False)]]
    """

    def __init__(self, tokens: ThoughtTokens, *, is_open: bool) -> None:
        self.is_open, self._tokens = is_open, tokens
        self._awaited = tokens.closes if is_open else tokens.opens
        self._withheld = b""

    @property
    def is_in_mark(self) -> bool:
        """Whether the text may be in the middle of a mark."""
        return bool(self._withheld)

    @property
    def awaits_rest(self) -> bool:
        """Whether a mark was written whose second part has to follow."""
        return not self.is_open and bool(self._awaited) and self._awaited == self._tokens.then

    def read(self, token: int, piece: bytes) -> list[Said]:
        """Take an id outside of facts, and its bytes. Return what is known of the text then."""
        data, self._withheld = self._withheld + self._tokens.names.get(token, piece), b""
        found = list[Said]()
        if self.is_open:
            thought, mark, data = data.partition(self._awaited)
            if not mark:
                kept = _overlap(thought, self._awaited)
                self._withheld = thought[len(thought) - kept :]
                return self._said(thought[: len(thought) - kept])
            found = self._said(thought)
            self.is_open, self._awaited = False, self._tokens.then
        if self._awaited:  # at the beginning of the text, or of what follows a mark
            begun = data.lstrip()
            if begun.startswith(self._awaited):
                rest = begun[len(self._awaited) :]
                self.is_open = self._awaited != self._tokens.then
                self._awaited = self._tokens.closes if self.is_open else b""
                return [*found, *(self.read(-1, rest) if rest else [])]
            if self._awaited.startswith(begun):
                self._withheld = data
                return found
            self._awaited = b""
        return [*found, *self._said(data)]

    def interrupt(self) -> list[Said]:
        """Take note that a fact begins, or that nothing follows: what was held back is no mark. Return it."""
        withheld, self._withheld = self._withheld, b""
        if withheld and not self.is_open:
            self._awaited = b""
        return self._said(withheld)

    def _said(self, data: bytes) -> list[Said]:
        data = _NAMES.sub(b"", data)
        return [(data, self.is_open)] if data else []


def _overlap(data: bytes, mark: bytes) -> int:
    """Return the length of the longest end of `data` that is a beginning of `mark`, and not all of it.

    >>> _overlap(b"a </", b"</think>"), _overlap(b"a", b"</think>")
    (2, 0)
    """
    return next((size for size in range(min(len(data), len(mark) - 1), 0, -1) if data.endswith(mark[:size])), 0)
