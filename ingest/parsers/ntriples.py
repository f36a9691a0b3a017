r"""The grammar of N-Triples (https://www.w3.org/TR/rdf12-n-triples/), line by line, without anything about Wikidata.

A line is a triple, white space, a comment, a version, or malformed. Escapes are decoded; a wrong escape makes a line
malformed. The base direction of a literal (`@en--ltr`) is not part of its language.

Nearly all lines of a dump are `<iri> <iri> <iri> .` or `<iri> <iri> "text"suffix .` with single spaces. Their parts are
found by arithmetic on the positions of the few bytes that structure a line (`>`, `"`, `\`, line ends): numpy works on
a whole block, and lets other threads run meanwhile. A line is taken only if all its bytes are accounted for; any other
is left to the grammar of `refactx.ingest.parsers.ntriples`, line by line.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from refactx.entity_ids import entity_number, entity_numbers
from refactx.ingest.parsers.parsed import Parsed, decode_lines, fault, not_utf8

_TAGGED = r"http://www\.w3\.org/1999/02/22-rdf-syntax-ns#(?:langString|dirLangString)"
"""The datatypes of literals with a language, which no literal has without one."""
_ESCAPE = r"\\(?:[tbnrf\"'\\]|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8})"
_IRI = r'<([A-Za-z][A-Za-z0-9+.\-]*:[^\x00-\x20<>"{}|^`\\]*(?:\\u[0-9A-Fa-f]{4}[^\x00-\x20<>"{}|^`\\]*)*)>'
_BAD_IRI = re.compile(
    r'[^"]*?(<[A-Za-z][A-Za-z0-9+.\-]*:(?:[^\x00-\x20<>"{}|^`\\]|\\u)*+([\x00-\x20<"{}|^`\\])[^<>]*>)'
)
_FIRST = (
    r"\w\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c\u200d\u2070-\u218f\u2c00-\u2fef"
    r"\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_LATER = rf"{_FIRST}\-:\u00b7\u0300-\u036f\u203f\u2040"
_BLANK = rf"(_:[{_FIRST}](?:[{_LATER}.]*[{_LATER}])?)"
"""Labels as N-Triples has them: marks, vowels and joiners count as letters. A colon is one of its version 1.1."""
_TAG = r"@([a-zA-Z]{1,8}(?:-[a-zA-Z0-9]+)*)(?:--(?:ltr|rtl))?"
_LITERAL = (
    rf'"([^"\\\n\r]*(?:{_ESCAPE}[^"\\\n\r]*)*)"'
    rf"(?:{_TAG}|[ \t]*\^\^[ \t]*(?!<{_TAGGED}>){_IRI})?"
)
_START = rf"[ \t]*(?:{_IRI}|{_BLANK})[ \t]*{_IRI}[ \t]*(?:{_IRI}|{_BLANK}|{_LITERAL})[ \t]*"
_TERM = re.compile(rf"<<\({_START}\)>>(?=[ \t]*(?:\.|\)>>))")  # the object of a triple, or of a term
_NESTED_TERMS = 8
TRIPLE_TERM = "refactx:triple-term"
"""What stands for a triple term in a triple, as an IRI."""
_TRIPLE = re.compile(rf"{_START}\.[ \t]*(?:#.*)?\r?")
_REIFIES = re.compile(
    rf"[ \t]*(?:{_IRI}|{_BLANK})[ \t]*<http://www\.w3\.org/1999/02/22-rdf-syntax-ns#reifies>[ \t]*<<\({_START}\)>>"
    r"[ \t]*\.[ \t]*(?:#.*)?\r?"
)
_EMPTY = re.compile(r"[ \t\r\ufeff]*")
_VERSION = re.compile(r"""[ \t\ufeff]*VERSION[ \t]*(?:"[^"]*"|'[^']*')[ \t]*(?:#.*)?\r?""")
_TURTLE_LINE = re.compile(
    rf"{_START}[;,].*|[ \t\ufeff]*(?:@(?:prefix|base|version)|(?i:PREFIX[ \t]+[^ \t<]*:|BASE)[ \t]*<).*"
)
_NODE = rb'[ \t]*(?:<[^<>"\s]*>|_:[^\s<>"]+)'
_VALUE = rb'[ \t]*(?:<<.*>>|"(?:[^"\\\n]|\\.)*"(?:@[\w-]+|[ \t]*\^\^%b)?)' % _NODE
_QUAD = re.compile(
    rb"^(%b%b(?:%b|%b))%b[ \t]*(?=\.[ \t]*(?:#.*)?$)" % (_NODE, _NODE, _NODE, _VALUE, _NODE), re.MULTILINE
)
_ENTITY_IRI = re.compile(r"https?://www\.wikidata\.org/entity/([QP][1-9][0-9]{0,17})")
_ONE_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_SHORT = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
NOT_NTRIPLES = "not N-Triples"
"""What the description of a line says after the name of the syntax that it is in."""
_LINE_FEED, _RETURN, _QUOTE, _CLOSE, _BACKSLASH = 10, 13, 34, 62, 92
_CHUNK = 1 << 18  # bytes searched at a time: they and the result fit the processor's cache
_ENTITY = b"http://www.wikidata.org/entity/"
_ID_DIGITS = 18
# What an IRI without escapes may be, in its brackets, and a literal with escapes that stand for a character.
_PLAIN_IRI = r'<[A-Za-z][A-Za-z0-9+.\-]*:[^\x00-\x20<>"{}|^`\\]*>'
_SECURE_ENTITY = r"^<https://www\.wikidata\.org/entity/"
_ESCAPES = (
    r"\\(?:[tbnrf\"'\\]|u(?:[0-9A-CE-Fa-ce-f][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2})"
    r"|U000[1-9A-Fa-f][0-9A-Fa-f]{4}|U0010[0-9A-Fa-f]{4})"
)
_ESCAPED_TEXT = rf'^"(?:[^"\\\r]|{_ESCAPES})*"$'
_SUFFIX = re.compile(rf"(?:{_TAG}|\^\^<(?!{_TAGGED}>)(http://[A-Za-z0-9:/.#_-]+)>)?")
_PREDICATE = re.compile(r"<([A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]*)>")


class Triple(NamedTuple):
    """One triple.

    `subject` is an IRI or a blank node (`_:b1`); `predicate` an IRI. The object is either `node` (an IRI or a blank
    node) or `text`, a literal, with its `language` tag or its `datatype` IRI, or neither. `TRIPLE_TERM` stands for a
    triple term in `subject` or `node`. `reifier`: the node that this triple is a term of, by `rdf:reifies`: then no line
    asserts it here.
    """

    subject: str
    predicate: str
    node: str | None = None
    text: str | None = None
    language: str | None = None
    datatype: str | None = None
    reifier: str | None = None


def id_of_iri(iri: str) -> str | None:
    """Return the id of an item or property, given its IRI; None for any other IRI.

    >>> id_of_iri("http://www.wikidata.org/entity/Q42"), id_of_iri("http://www.wikidata.org/entity/L42")
    ('Q42', None)
    """
    match = _ENTITY_IRI.fullmatch(iri)
    return match[1] if match else None


def parse_line(line: str) -> Triple | None:
    r"""Return the triple on a line without its line feed; None if the line is malformed, blank or a comment.

    >>> parse_line(r'<x:s> <x:p> "a \"b\" \u00e9"@en . # comment')
    Triple(subject='x:s', predicate='x:p', node=None, text='a "b" é', language='en', datatype=None, reifier=None)
    >>> parse_line("<relative> <x:p> <x:o> .") is None
    True
    """
    match = _TRIPLE.fullmatch(line)
    if match is None and "<<" in line:
        match = _REIFIES.fullmatch(line) or _TRIPLE.fullmatch(_without_terms(line))
    if match is None:
        return None
    *nodes, subject, blank_subject, predicate, node, blank_node, text, language, datatype = match.groups()
    reifier = next(filter(None, nodes), None)
    if "\\" in line:
        parts = subject, predicate, node, text, datatype, reifier
        try:
            subject, predicate, node, text, datatype, reifier = (
                unescape(part) if part and "\\" in part else part for part in parts
            )
        except (ValueError, OverflowError):
            return None
    return Triple(subject or blank_subject, predicate, node or blank_node, text, language, datatype, reifier)


def empty_line(line: str) -> str | None:
    """Return `blank` or `comment` for a line that needs no triple; None for any other line.

    >>> empty_line(" "), empty_line("# made by hand"), empty_line('VERSION "1.2"'), empty_line("<x:s>")
    ('blank', 'comment', 'comment', None)
    """
    if _EMPTY.fullmatch(line):
        return "blank"
    return "comment" if line.lstrip(" \t\ufeff").startswith("#") or _VERSION.fullmatch(line) else None


def triples_of(block: bytes, first_line: int, result: Parsed) -> Iterator[Triple]:
    """Yield the triples in a block of lines of any form; add to `result` the numbers of lines and statements, the lines
    that need no triple and the malformed ones. `first_line` is the number of the block's first line in its file."""
    lines = decode_lines(block)
    result.lines += len(lines)
    for number, line in enumerate(lines, first_line):
        if isinstance(line, bytes):
            result.faults.append((number, not_utf8(line)))
            continue
        triple = parse_line(line.removeprefix("\ufeff") if number == 1 else line)
        if triple is not None:
            result.statements += 1
            yield triple
        elif reason := empty_line(line):
            result.dropped[reason] += 1
        else:
            result.faults.append((number, _fault_of(line)))


def _fault_of(line: str) -> str:
    """Return the description of a line that is no triple."""
    if other := other_syntax(line):
        return fault(f"{other}, {NOT_NTRIPLES}", line)
    if match := _BAD_IRI.match(line):
        iri, bad = match.groups()
        what = "a space" if bad == " " else repr(bad)
        return fault(f"an IRI has {what} in it (write %{ord(bad):02X})", iri)
    if "<<" in line:
        return fault("a triple within a triple has to be its object, as <<( ... )>>", line)
    return fault("not a triple", line)


def other_syntax(line: str) -> str | None:
    """Return the syntax that a line is in which is certainly no N-Triples: `Turtle` or `N-Quads`; None for other lines.

    >>> other_syntax("<x:s> <x:p> <x:o> ;"), other_syntax("<x:s> <x:p> <x:o> <x:g> ."), other_syntax("junk ;")
    ('Turtle', 'N-Quads', None)
    """
    if _TURTLE_LINE.fullmatch(_without_terms(line)):
        return "Turtle"
    return "N-Quads" if _QUAD.match(line.encode()) else None


def _without_terms(line: str) -> str:
    """Return a line with `TRIPLE_TERM` for each triple term, from the innermost on."""
    for _ in range(_NESTED_TERMS):
        shorter = _TERM.sub(f"<{TRIPLE_TERM}>", line) if "<<" in line else line
        if shorter == line:
            break
        line = shorter
    return line


def without_graphs(block: bytes) -> bytes:
    """Return a block of N-Quads lines as N-Triples: without the names of graphs.

    >>> without_graphs(b'<x:s> <x:p> "o"@en <x:g> .')
    b'<x:s> <x:p> "o"@en .'
    """
    return _QUAD.sub(rb"\1 ", block)


def unescape(text: str) -> str:
    r"""Return the text that escapes stand for. A surrogate pair, which some exporters write, becomes one character.

    Raises:
        ValueError, OverflowError: an escape stands for no character (half a surrogate pair, or beyond U+10FFFF).

    >>> unescape(r"\U0001F600 \uD83D\uDE00") == "\U0001F600 \U0001F600"
    True
    """
    if "\\" not in text:
        return text
    decoded = _ONE_ESCAPE.sub(lambda m: _SHORT[m[3]] if m[3] else chr(int(m[1] or m[2], 16)), text)
    if decoded.isascii():
        return decoded
    return decoded.encode("utf-16", "surrogatepass").decode("utf-16")


Positions = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class BlockLines:
    """The positions of the n lines of a block. `starts`, `ends`: int64[n]; a line is `block[starts[i]:ends[i]]`.

    `marks` are the positions of the bytes that structure lines, ascending, and `kinds` the bytes there. The marks of a
    line begin with `marks[first_mark[i]]` and end with its line feed, `marks[last_mark[i]]`.
    """

    buffer: NDArray[np.uint8]
    starts: Positions
    ends: Positions
    marks: Positions
    kinds: NDArray[np.uint8]
    first_mark: Positions
    last_mark: Positions


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Statements:
    """n statements of a block, in columns of n rows.

    `line`: int64, which line of the block. `subject`, `object`: int64, an entity's number (`entity_number`), or -1.
    `predicate`: int32, which of `predicates` (IRIs). `suffix`: int32, which of `suffixes` (language, datatype) follows
    a literal; -1 if the object is an IRI or a blank node. `subject_span`, `object_span`: int64[n, 2], begin and end in
    `buffer`, without brackets or quotes. `decode`: returns what a literal in it stands for. `reifiers`: as `Triple` has
    them; none if the statements are asserted.
    """

    line: Positions
    subject: Positions
    predicate: NDArray[np.int32]
    object: Positions
    suffix: NDArray[np.int32]
    subject_span: Positions
    object_span: Positions
    predicates: Sequence[str]
    suffixes: Sequence[tuple[str | None, str | None]]
    buffer: NDArray[np.uint8]
    decode: Callable[[str], str]
    reifiers: Sequence[str] = ()

    @classmethod
    def of_triples(cls, triples: Sequence[Triple]) -> "Statements":
        """Return triples, in whatever form they were written, as statements."""
        predicates: dict[str, int] = {}
        suffixes: dict[tuple[str | None, str | None], int] = {}
        codes = [predicates.setdefault(one.predicate, len(predicates)) for one in triples]
        suffix = [
            -1 if one.text is None else suffixes.setdefault((one.language, one.datatype), len(suffixes))
            for one in triples
        ]
        nodes = [(one.subject, one.node or "") for one in triples]
        texts = [text.encode() for one in triples for text in (one.subject, one.node or one.text or "")]
        ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
        spans = np.stack([ends[:-1], ends[1:]], 1)
        numbers = [[entity_number(id_) if (id_ := id_of_iri(node)) else -1 for node in pair] for pair in nodes]
        entities = np.array(numbers, np.int64).reshape(-1, 2)
        return cls(
            line=np.arange(len(triples)),
            subject=entities[:, 0],
            predicate=np.array(codes, np.int32),
            object=entities[:, 1],
            suffix=np.array(suffix, np.int32),
            subject_span=spans[0::2],
            object_span=spans[1::2],
            predicates=list(predicates),
            suffixes=list(suffixes),
            buffer=np.frombuffer(b"".join(texts) or b" ", np.uint8),
            decode=str,
            reifiers=[one.reifier for one in triples if one.reifier is not None],
        )

    def subjects(self, rows: Positions | slice = slice(None)) -> pa.Array:
        """Return the IRIs or blank nodes of subjects (large_string)."""
        return texts_at(self.buffer, self.subject_span[rows])

    def objects(self, rows: Positions | slice = slice(None)) -> pa.Array:
        """Return the IRIs or blank nodes of objects, or the texts of literals, for `decode` (large_string)."""
        return texts_at(self.buffer, self.object_span[rows])


def find_lines(block: bytes) -> BlockLines:
    """Return the lines of a block, which must end with a line feed."""
    buffer = np.frombuffer(block, np.uint8)
    found = []
    for start in range(0, len(buffer), _CHUNK):
        chunk = buffer[start : start + _CHUNK]
        is_mark = chunk == _LINE_FEED
        for byte in (_CLOSE, _QUOTE, _BACKSLASH, _RETURN):
            is_mark |= chunk == byte
        found.append(np.flatnonzero(is_mark) + start)
    marks = np.concatenate(found)
    kinds = buffer[marks]
    last_mark = np.flatnonzero(kinds == _LINE_FEED)
    ends = marks[last_mark]
    first_mark, starts = np.zeros_like(last_mark), np.zeros_like(ends)
    first_mark[1:], starts[1:] = last_mark[:-1] + 1, ends[:-1] + 1
    return BlockLines(
        buffer=buffer, starts=starts, ends=ends, marks=marks, kinds=kinds, first_mark=first_mark, last_mark=last_mark
    )


def texts_at(buffer: NDArray[np.uint8], spans: Positions) -> pa.Array:
    """Return the texts (large_string) at ascending, disjoint spans, int64[n, 2], of a buffer of UTF-8.

    >>> texts_at(np.frombuffer(b"a bc def", np.uint8), np.array([[2, 4], [5, 8]])).to_pylist()
    ['bc', 'def']
    """
    if not len(spans):
        return pa.array([], pa.large_string())
    # One array, without a copy, has the texts and the gaps between them in turn.
    ends = np.ascontiguousarray(spans).reshape(-1)
    both = pa.LargeStringArray.from_buffers(len(ends) - 1, pa.py_buffer(ends), pa.py_buffer(buffer))
    return both.take(pa.array(np.arange(0, len(ends) - 1, 2)))


def common_statements(lines: BlockLines) -> Statements:
    """Return those of the lines that are statements in common form. All lines must be UTF-8."""
    buffer, marks, kinds = lines.buffer, lines.marks, lines.kinds
    first, last, ends = lines.first_mark, lines.last_mark, lines.ends
    candidates = np.flatnonzero(last - first >= 3)
    first, last, start, end = first[candidates], last[candidates], lines.starts[candidates], ends[candidates]
    subject_end, predicate_end = marks[first], marks[first + 1]
    # <...> <...> _ ... _. with one `>` before each space
    good = (kinds[first] == _CLOSE) & (kinds[first + 1] == _CLOSE) & (buffer[start] == ord("<"))
    good &= (buffer[subject_end + 1] == ord(" ")) & (buffer[subject_end + 2] == ord("<"))
    good &= (buffer[predicate_end + 1] == ord(" ")) & (buffer[end - 1] == ord(".")) & (buffer[end - 2] == ord(" "))
    opening = buffer[predicate_end + 2]
    is_iri = (opening == ord("<")) & (last - first == 3) & (marks[first + 2] == end - 3) & (kinds[first + 2] == _CLOSE)
    # The last quote is the mark before the line feed, or before the bracket of a datatype.
    has_datatype = kinds[last - 1] == _CLOSE
    last_quote = np.where(has_datatype, last - 2, last - 1)
    is_literal = (opening == _QUOTE) & (last_quote > first + 2) & (kinds[last_quote] == _QUOTE)
    is_literal &= ~has_datatype | (marks[last - 1] == end - 3)
    keep = np.flatnonzero(good & (is_iri | is_literal))
    candidates, first, start, end, last_quote = (x[keep] for x in (candidates, first, start, end, last_quote))
    subject_end, predicate_end, is_literal = subject_end[keep], predicate_end[keep], is_literal[keep]
    object_end = np.where(is_literal, marks[last_quote] + 1, end - 2)

    subject, good = numbers_of_iris(buffer, start, subject_end), np.ones(len(keep), np.bool_)
    iris, object_ = np.flatnonzero(~is_literal), np.full(len(keep), -1, np.int64)
    object_[iris] = numbers_of_iris(buffer, predicate_end[iris] + 2, object_end[iris] - 1)
    subject_span = np.stack([start, subject_end + 1], 1)
    object_span = np.stack([predicate_end + 2, object_end], 1)
    # Entities' IRIs in another form (https) are left to the grammar and to `rules`.
    for spans, others in ((subject_span, subject < 0), (object_span, ~is_literal & (object_ < 0))):
        rows = np.flatnonzero(others)
        iri = texts_at(buffer, spans[rows])
        good[rows] &= _matches(iri, f"^{_PLAIN_IRI}$") & ~_matches(iri, _SECURE_ENTITY)
    # A regular expression checks the literals with a quote or an escape inside.
    odd = np.concatenate([[0], np.cumsum(kinds != _CLOSE)])
    rows = np.flatnonzero(is_literal)
    rows = rows[odd[last_quote[rows]] - odd[first[rows] + 3] > 0]
    good[rows] &= _matches(texts_at(buffer, object_span[rows]), _ESCAPED_TEXT)

    spans = np.stack([subject_end + 2, predicate_end + 1], 1)
    codes, predicates, found = _read_distinct(texts_at(buffer, spans), _PREDICATE)
    good &= found
    suffix, rows = np.full(len(keep), -1, np.int32), np.flatnonzero(is_literal)
    spans = np.stack([object_end[rows], end[rows] - 2], 1)
    suffix[rows], suffixes, found = _read_distinct(texts_at(buffer, spans), _SUFFIX)
    good[rows] &= found

    chosen, inside = np.flatnonzero(good), np.array([1, -1])
    return Statements(
        line=candidates[chosen],
        subject=subject[chosen],
        predicate=codes[chosen],
        object=object_[chosen],
        suffix=suffix[chosen],
        subject_span=subject_span[chosen] + inside,
        object_span=object_span[chosen] + inside,
        predicates=[match[1] if match else "" for match in predicates],
        suffixes=[(match[1], match[2]) if match else (None, None) for match in suffixes],
        buffer=buffer,
        decode=unescape,
    )


def statements_of(block: bytes, first_line: int, result: Parsed) -> Iterator[Statements]:
    """Yield the statements of a block of lines, those in common form and the others. `first_line`, `result`: as in
    `triples_of`."""
    if not block.endswith(b"\n"):
        block += b"\n"
    if not is_utf8(block):
        yield from _by_assertion(triples_of(block, first_line, result))
        return
    lines = find_lines(block)
    common = common_statements(lines)
    result.add(Parsed(lines=len(common.line), statements=len(common.line)))
    yield common
    others = np.delete(np.arange(len(lines.starts)), common.line)
    if len(others):
        text, found = b"".join(block[lines.starts[i] : lines.ends[i] + 1] for i in others), Parsed(lines=0)
        yield from _by_assertion(triples_of(text, 1, found))
        result.add(found, others + first_line)


def _by_assertion(triples: Iterable[Triple]) -> Iterator[Statements]:
    """Yield triples as statements: those that are asserted, then the others, if there are some."""
    some = list(triples)
    yield Statements.of_triples([one for one in some if one.reifier is None])
    if quoted := [one for one in some if one.reifier is not None]:
        yield Statements.of_triples(quoted)


def is_utf8(block: bytes) -> bool:
    offsets = pa.py_buffer(np.array([0, len(block)], np.int64))
    try:
        pa.LargeStringArray.from_buffers(1, offsets, pa.py_buffer(block)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def numbers_of_iris(buffer: NDArray[np.uint8], starts: Positions, closes: Positions) -> Positions:
    """Return the numbers of the entities whose IRIs, in brackets, are `buffer[starts[i] : closes[i] + 1]`, or -1."""
    head = len(_ENTITY) + 1  # up to the letter of the id
    letters = np.minimum(starts + head, len(buffer) - 1)
    digits = closes - starts - head - 1
    good = (digits > 0) & (digits <= _ID_DIGITS)
    # The eight bytes from each position on, as one number.
    words: NDArray[np.uint64] = np.ndarray((max(0, len(buffer) - 7),), np.dtype("<u8"), buffer.data, 0, (1,))
    for word in range(0, head, 8):
        expected = np.frombuffer((b"<" + _ENTITY)[word : word + 8], "<u8")[0]
        good &= words[np.minimum(starts + word, len(buffer) - 8)] == expected
    kind = buffer[letters]
    good &= ((kind == ord("Q")) | (kind == ord("P"))) & (buffer[np.minimum(letters + 1, len(buffer) - 1)] != ord("0"))
    rows = np.flatnonzero(good)
    closes, digits = closes[rows], digits[rows]
    numbers, are_digits = np.zeros(len(rows), np.int64), np.ones(len(rows), np.bool_)
    for place in range(int(digits.max()) if len(rows) else 0):
        digit = buffer[closes - 1 - place] - np.uint8(ord("0"))  # below zero it wraps around
        digit *= digits > place
        are_digits &= digit <= 9
        numbers += digit * np.int64(10**place)
    result = np.full(len(starts), -1, np.int64)
    result[rows] = np.where(are_digits, entity_numbers(numbers, kind[rows] == ord("P")), -1)
    return result


def _matches(texts: pa.Array, pattern: str) -> Mask:
    found: Mask = pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False)
    return found


def _read_distinct(
    texts: pa.Array, pattern: re.Pattern[str]
) -> tuple[NDArray[np.int32], list[re.Match[str] | None], Mask]:
    """Return which of the distinct texts each text is, the matches of the distinct texts, and whether each text has one."""
    encoded = texts.dictionary_encode()
    matches = [pattern.fullmatch(text) for text in encoded.dictionary.to_pylist()]
    codes = encoded.indices.to_numpy()
    return codes, matches, np.array([match is not None for match in matches], np.bool_)[codes]
