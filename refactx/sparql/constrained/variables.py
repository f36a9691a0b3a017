"""Variables of a line of SPARQL, by SPARQL's rules, and the tokens that write them.

* A value that gets a name, of an aggregate or of BIND, gets one that no pattern has used.
* The name of an aggregate is not used within the patterns that it is computed from.
* With GROUP BY, it has all variables of SELECT, and only these and names of aggregates can be sorted by.

The rules of SPARQL are a little wider: a name may be used again in another branch of a UNION.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from refactx.decoding.matching import OpenPart
from refactx.decoding.names import Begun
from refactx.tree.tree import NO_TOKENS, Path, Tokens

LONGEST = 24
"""The most characters of a variable, without `?`."""
_FIRST, _MORE = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*"), re.compile(rb"[A-Za-z0-9_]+")
_PIECE = re.compile(rb" ?\??[A-Za-z0-9_]*")
_NOTHING = Begun(NO_TOKENS)


class VariableChoice(NamedTuple):
    """The variables that may be written: those `among` some, or if that is None all that are not in `without`."""

    without: Collection[str] = ()
    among: Collection[str] | None = None

    def has(self, name: str) -> bool:
        """Return whether a variable may be written, given its name without `?`."""
        return name not in self.without and (self.among is None or name in self.among)


@dataclass(frozen=True, slots=True)
class Frame:
    """The variables of a SELECT whose end is not written: `projected`; `named`, the values of aggregates; `counted`, those
    that these are computed from; `grouped`, by GROUP BY."""

    projected: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()
    grouped: tuple[str, ...] = ()

    @property
    def ungrouped(self) -> tuple[str, ...]:
        """The variables that GROUP BY has yet to get."""
        return tuple(name for name in self.projected if name not in self.grouped)


@dataclass(frozen=True, slots=True)
class Scope:
    """The variables so far, without `?`. `frames`: of the SELECTs that are open; `used`: by patterns and expressions;
    `subject`: the name of the last subject that was written."""

    frames: tuple[Frame, ...] = (Frame(),)
    used: frozenset[str] = frozenset()
    subject: str | None = None

    def choice(self, placeholder: OpenPart) -> VariableChoice:
        """Return the variables that may stand in place of a placeholder.

        >>> scope = Scope().after(OpenPart.PROJECTED, "x").after(OpenPart.NAMED, "n")
        >>> scope.choice(OpenPart.VARIABLE).has("n"), scope.choice(OpenPart.GROUPED).among
        (False, ('x',))
        """
        frame, names = self.frames[-1], frozenset(name for frame in self.frames for name in frame.named)
        match placeholder:
            case OpenPart.PROJECTED:
                return VariableChoice({*names, *frame.projected})
            case OpenPart.NAMED:
                return VariableChoice({*self.used, *frame.projected, *frame.counted})
            case OpenPart.ASSIGNED:
                return VariableChoice(self.used)
            case OpenPart.GROUPED if frame.ungrouped:
                return VariableChoice(among=frame.ungrouped)
            case OpenPart.GROUPED:
                return VariableChoice({*names, *frame.grouped})
            case OpenPart.ORDERED:
                return VariableChoice(among=(*frame.projected, *frame.named))
        return VariableChoice(names)

    def after(self, placeholder: OpenPart, text: str) -> "Scope":
        """Return the scope after the text of a placeholder, a name or a variable without `?`."""
        *outer, frame = self.frames
        match placeholder:
            case OpenPart.SUBJECT:
                return replace(self, subject=text)
            case OpenPart.PROJECTED:
                frame = replace(frame, projected=(*frame.projected, text))
            case OpenPart.NAMED:
                frame = replace(frame, named=(*frame.named, text))
                return replace(self, frames=(*outer, frame), used=self.used | {text})
            case OpenPart.COUNTED:
                frame = replace(frame, counted=(*frame.counted, text))
            case OpenPart.GROUPED:
                frame = replace(frame, grouped=(*frame.grouped, text))
            case OpenPart.VARIABLE | OpenPart.ASSIGNED:
                return replace(self, used=self.used | {text})
            case OpenPart.OPENS:
                return replace(self, frames=(*self.frames, Frame()))
            case OpenPart.CLOSES:
                return replace(self, frames=tuple(outer), used=self.used.union(frame.projected, frame.counted))
            case _:
                return self
        return replace(self, frames=(*outer, frame))


class PartTexts:
    """The tokens that write variables and words. `token_bytes`: the bytes of each id, by id."""

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        self._token_bytes = token_bytes
        self._ids: dict[bytes, list[int]] = {}
        for number, text in enumerate(token_bytes):
            if text and (_PIECE.fullmatch(text) or text in (b" }", b"}")):
                self._ids.setdefault(text, []).append(number)
        pieces = self._ids.items()
        self._begins = {
            before: [
                (text.removeprefix(before), number)
                for text, numbers in pieces
                if text.startswith(before) and _FIRST.fullmatch(text, len(before))
                for number in numbers
            ]
            for before in (b" ?", b"?", b"")
        }
        self._more = [(text, number) for text, numbers in pieces if _MORE.fullmatch(text) for number in numbers]
        self._arrays = {
            key: (
                np.array([number for _, number in found], np.int32),
                np.array([len(text) for text, _ in found], np.int32),
            )
            for key, found in (*self._begins.items(), (None, self._more))
        }

    def bytes_of(self, ids: Path) -> bytes:
        """Return the text of ids."""
        return b"".join(self._token_bytes[token] for token in ids)

    def word(self, text: bytes, ids: Path) -> Begun:
        """Return the beginning of a word with some ids.

        >>> from support.tiny_model import tiny_fact_tokenizer
        >>> texts = PartTexts(tiny_fact_tokenizer().token_bytes)
        >>> [texts.bytes_of((token,)) for token in texts.word(b" }", ()).tokens.tolist()]
        [b' ']
        """
        done = self.bytes_of(ids)
        if done == text:
            return Begun(NO_TOKENS, text.decode().strip())
        if not text.startswith(done):
            return _NOTHING
        return Begun(self._prefixes_of(text[len(done) :]))

    def variable(self, choice: VariableChoice, ids: Path, after_bracket: bool) -> Begun:
        """Return the beginning of a variable with some ids, whose `unit` has no `?`.

        `after_bracket`: the text before it ends in an opening bracket, so that it needs no space.
        """
        done = self.bytes_of(ids)
        head = re.match(rb" ?\??", done)
        opened, name = (head[0], done[head.end() :]) if head is not None else (b"", done)
        if opened in (b"?", b"") and not after_bracket and done:
            return _NOTHING
        if name and (not opened.endswith(b"?") or not _FIRST.fullmatch(name) or len(name) > LONGEST):
            return _NOTHING
        text = name.decode()
        if choice.among is not None:
            return self._among(sorted(choice.among), opened, text, after_bracket)
        if name:
            whole = text if choice.has(text) else None
            return Begun(self._fitting(None, text, choice), whole)
        starts = [b" ?", b"?"] if after_bracket else [b" ?"]
        found = [self._fitting(start[len(opened) :], "", choice) for start in starts if start.startswith(opened)]
        if not opened.endswith(b"?"):  # a part of the beginning, of which `opened` is written
            found += [self._prefixes_of(start[len(opened) :]) for start in starts if start.startswith(opened)]
        return Begun(np.unique(np.concatenate(found)))

    def _fitting(self, before: bytes | None, written: str, choice: VariableChoice) -> Tokens:
        """Return the tokens after which a variable is not too long, and can be one of a choice.

        `before`: the bytes before the name that the tokens begin with; None if the name has begun.
        """
        tokens, lengths = self._arrays[before]
        left = LONGEST - len(written)
        kept = lengths <= left
        if any(len(name) == LONGEST for name in choice.without):
            texts = self._more if before is None else self._begins[before]
            kept &= np.array([len(text) < left or choice.has(written + text.decode()) for text, _ in texts], np.bool_)
        return np.sort(tokens[kept])

    def _among(self, names: Sequence[str], opened: bytes, name: str, after_bracket: bool) -> Begun:
        done = opened + name.encode()
        wholes = [(f"{space}?{one}".encode(), one) for one in names for space in ("", " ")[not after_bracket :]]
        found = [self._prefixes_of(whole[len(done) :]) for whole, _ in wholes if whole.startswith(done)]
        tokens = np.unique(np.concatenate(found)) if found else NO_TOKENS
        return Begun(tokens, next((one for whole, one in wholes if whole == done), None))

    def _prefixes_of(self, text: bytes) -> Tokens:
        """Return the tokens with the beginning of a text, or all of it: int32[n], ascending."""
        found = [token for size in range(1, len(text) + 1) for token in self._ids.get(text[:size], ())]
        return np.array(sorted(found), np.int32)
