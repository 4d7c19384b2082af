"""Text files as tools see them: lines end with a line feed, whatever the file does; the rest stays as it is."""

from __future__ import annotations

import msgspec

from harness.sources.tool import ToolFailure

SNIFFED_BYTES = 8192
MOST_EDITABLE_BYTES = 32 * 1024 * 1024
_MARK = "\ufeff"
UTF_16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
"""By the mark that such a file begins with."""


class TextFile(msgspec.Struct, frozen=True):
    """What a file says, and how it was written, so that it can be written the same way."""

    text: str
    has_carriage_returns: bool = False
    has_mark: bool = False
    encoding: str = "utf-8"

    def encode(self, text: str) -> bytes:
        """Another text, written like this one."""
        if self.has_carriage_returns:
            text = text.replace("\r\n", "\n").replace("\n", "\r\n")
        try:
            # Bytes that were no UTF-8 are carried through as lone surrogates.
            errors = "surrogateescape" if self.encoding == "utf-8" else "strict"
            return ((_MARK if self.has_mark else "") + text).encode(self.encoding, errors)
        except UnicodeEncodeError as error:
            raise ToolFailure(
                f"nothing was written: the text has a lone surrogate at {error.start}"
            ) from None


def is_binary(data: bytes) -> bool:
    return b"\0" in data[:SNIFFED_BYTES] and data[:2] not in UTF_16


def decode(data: bytes, path: str) -> TextFile:
    """Raises ToolFailure for what is no text."""
    if is_binary(data):
        raise ToolFailure(f"{path} is a binary file")
    encoding = UTF_16.get(data[:2], "utf-8")
    try:
        text = data.decode(encoding, "surrogateescape" if encoding == "utf-8" else "strict")
    except UnicodeDecodeError:
        raise ToolFailure(f"{path} is a binary file") from None
    has_mark = text.startswith(_MARK)
    if has_mark:
        text = text[1:]
    returns = text.count("\r\n")
    has_carriage_returns = bool(returns) and returns == text.count("\n")
    if has_carriage_returns:
        text = text.replace("\r\n", "\n")
    return TextFile(text, has_carriage_returns, has_mark, encoding)


def lines_of(text: str) -> list[str]:
    """Without their ends; the end of the last line begins no further one."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def changed_lines(before: str, after: str) -> tuple[int, int] | None:
    """First and last line of what is new, numbered from 1 as they are afterwards; of lines that were only taken
    out, the one that stands there now.
    """
    if before == after:
        return None
    old, new = lines_of(before), lines_of(after)
    shorter = min(len(old), len(new))
    start = 0
    while start < shorter and old[start] == new[start]:
        start += 1
    end = 0
    while end < shorter - start and old[-1 - end] == new[-1 - end]:
        end += 1
    first = min(start + 1, max(1, len(new)))
    return first, max(first, len(new) - end)
