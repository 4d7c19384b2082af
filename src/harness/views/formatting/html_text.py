"""Text of agents as HTML: escaped throughout, with the plain parts of Markdown (code, headings, lists, emphasis).

Nothing of a text becomes a tag, an attribute or an address: what is not one of these parts stays text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from harness.views.formatting.escapes import neutralised

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")
_HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
_ITEM = re.compile(r"^(\s*)(?:[-*+]|(\d{1,9})[.)])\s+(.*)$")
_RULE = re.compile(r"^ {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$")
_TABLE = re.compile(r"^\s*\|.*\|\s*$")
_CODE = re.compile(r"(`+)(.+?)\1(?!`)", re.DOTALL)
_STRONG = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*", re.DOTALL)
_EMPHASIS = re.compile(r"(?<![\w*])\*(?=[^\s*])(.+?)(?<=[^\s*])\*(?![\w*])", re.DOTALL)


def html_of(text: str) -> str:
    """One line or many, as they are."""
    return escape(neutralised(text), quote=True)


def html_of_markdown(text: str) -> str:
    return "".join(_blocks(neutralised(text).split("\n")))


def _blocks(lines: list[str]) -> Iterator[str]:
    position = 0
    paragraph: list[str] = []
    while position < len(lines):
        line = lines[position]
        taken, block = _block(lines, position)
        if taken or not line.strip():
            yield from _paragraph(paragraph)
            paragraph = []
            yield block
            position += max(1, taken)
        else:
            paragraph.append(line)
            position += 1
    yield from _paragraph(paragraph)


def _block(lines: list[str], position: int) -> tuple[int, str]:
    """How many lines a block takes, and what it is; 0: a line of a paragraph."""
    line = lines[position]
    if fence := _FENCE.match(line):
        return _fenced(lines, position, fence[1])
    if heading := _HEADING.match(line):
        level = min(6, len(heading[1]) + 2)
        return 1, f"<h{level}>{_inline(heading[2])}</h{level}>"
    if _RULE.match(line):
        return 1, "<hr>"
    if _ITEM.match(line):
        return _list(lines, position)
    if _TABLE.match(line):
        end = position
        while end < len(lines) and _TABLE.match(lines[end]):
            end += 1
        return end - position, f"<pre>{escape(chr(10).join(lines[position:end]))}</pre>"
    return 0, ""


def _fenced(lines: list[str], position: int, mark: str) -> tuple[int, str]:
    end = position + 1
    while end < len(lines) and not (
        lines[end].strip().startswith(mark) and not lines[end].strip().strip(mark[0])
    ):
        end += 1
    code = "\n".join(lines[position + 1 : end])
    return end - position + 1, f"<pre><code>{escape(code)}</code></pre>"


def _list(lines: list[str], position: int) -> tuple[int, str]:
    """Items of one level; deeper ones are indented."""
    end, items = position, list[str]()
    is_ordered = bool((_ITEM.match(lines[position]) or [""])[2])
    while end < len(lines) and (item := _ITEM.match(lines[end])) is not None:
        depth = min(6, len(item[1].expandtabs(4)) // 2)
        style = f' class="in{depth}"' if depth else ""
        items.append(f"<li{style}>{_inline(item[3])}</li>")
        end += 1
    name = "ol" if is_ordered else "ul"
    return end - position, f"<{name}>{''.join(items)}</{name}>"


def _paragraph(lines: list[str]) -> Iterator[str]:
    if lines:
        yield f"<p>{_inline(chr(10).join(lines))}</p>"


def _inline(text: str) -> str:
    """Code first: nothing within it means anything."""
    parts, end = list[str](), 0
    for code in _CODE.finditer(text):
        parts += [_emphasised(text[end : code.start()]), f"<code>{escape(code[2].strip())}</code>"]
        end = code.end()
    return "".join([*parts, _emphasised(text[end:])])


def _emphasised(text: str) -> str:
    strong = _STRONG.sub(r"<strong>\1</strong>", escape(text))
    return _EMPHASIS.sub(r"<em>\1</em>", strong)
