"""One shell command line → its simple commands, by the quoting rules of POSIX shells.

Rules
1. Quotes, backslashes, `$'…'`, comments, redirections and here-documents are understood.
2. Whatever could hide another command in a word (`$(…)`, backquotes, `<(…)`), grouping with
   parentheses, and unbalanced quotes are `Unreadable`: the caller then knows that it does not know.
3. Variables and patterns stay as written.
"""

from __future__ import annotations

import re

import msgspec


class Unreadable(Exception):
    """The line is not a plain sequence of simple commands."""


class Simple(msgspec.Struct):
    """One simple command: its words without quotes, and where its input and output go."""

    words: list[str] = msgspec.field(default_factory=list)
    inputs: list[str] = msgspec.field(default_factory=list)
    """Files of `< file`."""
    outputs: list[str] = msgspec.field(default_factory=list)
    """Files of `> file`, `>> file`, `2> file` …; devices are left out."""
    documents: list[str] = msgspec.field(default_factory=list)
    """Bodies of here-documents."""

    def __bool__(self) -> bool:
        return bool(self.words or self.inputs or self.outputs or self.documents)


Pipeline = list[Simple]
"""Simple commands joined with `|`, first to last."""


def pipelines_of(line: str) -> list[Pipeline]:
    """The pipelines of a line, whatever joins them (`&&`, `||`, `;`, `&`, a new line). Raises Unreadable."""
    if _ONE_COMMAND.fullmatch(line):  # most lines are: words and quotes, nothing that joins or redirects
        is_quoted = "'" in line or '"' in line
        words = [_QUOTED.sub(_content, word) for word in _WORD.findall(line)] if is_quoted else line.split()
        return [[Simple(words)]] if words else []
    return _Splitter(line).split()


class _Document(msgspec.Struct):
    """A here-document that was announced and whose body is still to come."""

    owner: Simple
    delimiter: str
    is_literal: bool
    strips_tabs: bool


# A run of one class ends where the class ends: a line that is no single command is not tried in all ways to cut it.
_ONE_COMMAND = re.compile(
    r"""
    (?: [^\s'"\\$`|&;<>()\#]+ (?![^\s'"\\$`|&;<>()\#])
      | '[^']*'
      | "[^"\\$`]*"
      | [ \t]+ (?![ \t])
    )*
    """,
    re.VERBOSE,
)
_WORD = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""")
_QUOTED = re.compile(r"""'([^']*)'|"([^"]*)\"""")


def _content(quoted: re.Match[str]) -> str:
    return quoted[1] if quoted[1] is not None else quoted[2]


_TOKEN = re.compile(
    r"""
    (?P<continuation>\\\n)
  | (?P<blank>[ \t\r\f\v]+)
  | (?P<newline>\n)
  | (?P<plain>[^\s'"\\$`|&;<>()\#]+)
  | (?P<single>'[^']*')
  | (?P<double>"(?:[^"\\]|\\.)*")
  | (?P<ansi>\$'(?:[^'\\]|\\.)*')
  | (?P<escaped>\\.)
  | (?P<redirect>&>>|&>|<<<|<<-|<<|>>|>\||>&|<&|<>|>|<)
  | (?P<pipe>\|&?(?!\|))
  | (?P<separator>&&|\|\||;|&)
  | (?P<hash>\#)
  | (?P<dollar>\$(?!\())
    """,
    re.VERBOSE | re.DOTALL,
)
_SUBSTITUTION = re.compile(r"(?<!\\)(?:\\\\)*(?:`|\$\()")
_ESCAPED_IN_DOUBLE = re.compile(r'\\([$`"\\\n])')
_ESCAPED_IN_ANSI = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|(.))", re.DOTALL
)
_ANSI_LETTERS = dict(zip("abefnrtv", "\a\b\x1b\f\n\r\t\v", strict=True))
_DEVICES = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "-")


class _Splitter:
    def __init__(self, line: str) -> None:
        self.line = line
        self.position = 0
        self.word: list[str] | None = None
        self.is_quoted = False
        self.is_piped = False
        """Just after a `|`: the pipeline continues, also on the next line."""
        self.redirect = ""
        self.simple = Simple()
        self.pipeline: Pipeline = []
        self.pipelines: list[Pipeline] = []
        self.documents: list[_Document] = []

    def split(self) -> list[Pipeline]:
        while self.position < len(self.line):
            match = _TOKEN.match(self.line, self.position)
            if match is None or match.lastgroup is None:
                raise Unreadable
            self.position = match.end()
            self._take(match.lastgroup, match[0])
        self._end_pipeline()
        return self.pipelines

    def _take(self, kind: str, text: str) -> None:
        match kind:
            case "continuation":
                pass
            case "blank":
                self._end_word()
            case "newline":
                self._end_line()
            case "hash" if self.word is None:
                end = self.line.find("\n", self.position)
                self.position = len(self.line) if end < 0 else end
            case "redirect":
                self._begin_redirect(text)
            case "pipe":
                self._end_simple()
                self.is_piped = True
            case "separator":
                self._end_pipeline()
            case _:
                self._add(_unquoted(kind, text), is_quoted=kind not in ("plain", "dollar", "hash"))

    def _add(self, text: str, *, is_quoted: bool) -> None:
        self.is_piped = False
        if self.word is None:
            self.word = []
            self.is_quoted = False
        self.is_quoted |= is_quoted
        self.word.append(text)

    def _begin_redirect(self, operator: str) -> None:
        is_descriptor = self.word is not None and not self.is_quoted and "".join(self.word).isdigit()
        if is_descriptor:
            self.word = None
        self._end_word()
        if self.redirect:
            raise Unreadable
        self.redirect = operator

    def _end_word(self) -> None:
        if self.word is None:
            return
        word, self.word = "".join(self.word), None
        operator, self.redirect = self.redirect, ""
        match operator:
            case "":
                self.simple.words.append(word)
            case "<<" | "<<-":
                self.documents.append(_Document(self.simple, word, self.is_quoted, operator == "<<-"))
            case "<<<":
                self.simple.documents.append(word)
            case "<":
                self.simple.inputs.append(word)
            case "<&":
                pass
            case ">&" if word.isdigit():
                pass
            case _ if word not in _DEVICES:
                self.simple.outputs.append(word)

    def _end_simple(self) -> None:
        self._end_word()
        if self.redirect:
            raise Unreadable
        if self.simple:
            self.pipeline.append(self.simple)
        self.simple = Simple()

    def _end_pipeline(self) -> None:
        self._end_simple()
        if self.pipeline:
            self.pipelines.append(self.pipeline)
        self.pipeline = []

    def _end_line(self) -> None:
        if not self.is_piped:
            self._end_pipeline()
        self._read_documents()

    def _read_documents(self) -> None:
        documents, self.documents = self.documents, []
        for document in documents:
            body: list[str] = []
            while self.position < len(self.line):
                end = self.line.find("\n", self.position)
                end = len(self.line) if end < 0 else end
                text = self.line[self.position : end]
                self.position = end + 1
                text = text.lstrip("\t") if document.strips_tabs else text
                if text == document.delimiter:
                    break
                body.append(text)
            whole = "\n".join(body)
            if not document.is_literal and _SUBSTITUTION.search(whole):
                raise Unreadable
            document.owner.documents.append(whole)


def _unquoted(kind: str, text: str) -> str:
    match kind:
        case "single":
            return text[1:-1]
        case "double":
            if _SUBSTITUTION.search(text):
                raise Unreadable
            return _ESCAPED_IN_DOUBLE.sub(lambda match: "" if match[1] == "\n" else match[1], text[1:-1])
        case "ansi":
            return _ESCAPED_IN_ANSI.sub(_ansi_character, text[2:-1])
        case "escaped":
            return text[1:]
        case _:
            return text


def _ansi_character(match: re.Match[str]) -> str:
    for digits, base in ((match[1] or match[2] or match[3], 16), (match[4], 8)):
        if digits:
            code = int(digits, base)
            return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else match[0]
    return _ANSI_LETTERS.get(match[5], match[5])
