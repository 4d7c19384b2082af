"""Text of agents as HTML: escaped throughout, with the plain parts of Markdown (code, headings, lists, emphasis).

Nothing of a text becomes a tag, an attribute or an address: what is not one of these parts stays text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from harness.formatting.escapes import neutralised

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
        line_count, block = _block(lines, position)
        if line_count or not line.strip():
            yield from _paragraph(paragraph)
            paragraph = []
            yield block
            position += max(1, line_count)
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


# How an exported session looks: light and dark, from a phone to a wide screen, and on paper. No outside references.


STYLE = """
:root{color-scheme:light dark;--back:#fbfbfa;--card:#fff;--text:#1d1d1f;--dim:#6b6b70;--line:#e3e3e0;--code:#f3f3f1;
--accent:#2f5fd0;--user:#eef3ff;--ok:#1a7f43;--bad:#c0262d;--warn:#9a6700}
@media (prefers-color-scheme:dark){:root{--back:#141416;--card:#1b1b1e;--text:#e8e8ea;--dim:#9a9aa2;--line:#2e2e33;
--code:#232327;--accent:#8fb0ff;--user:#1e2740;--ok:#4cc38a;--bad:#ff7b81;--warn:#e3b341}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--back);color:var(--text);font:16px/1.6 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;
overflow-wrap:anywhere}
header,main,body>footer{max-width:52rem;margin:0 auto;padding:0 1.25rem}
header{padding-top:2.5rem;padding-bottom:1rem}
h1{font-size:1.5rem;line-height:1.3;margin:0 0 .75rem;letter-spacing:-.01em}
dl{display:flex;flex-wrap:wrap;gap:.15rem 1.5rem;margin:0;color:var(--dim);font-size:.85rem}
dl div{display:flex;gap:.4rem;min-width:0}
dt::after{content:":"}
dd{margin:0;color:var(--text)}
main>*{margin:0 0 .6rem}
.user{background:var(--user);border-radius:.75rem;padding:.75rem 1rem;margin-top:1.75rem}
.said{padding:.15rem 1rem}
.who{font-size:.75rem;color:var(--dim);display:flex;justify-content:space-between;gap:1rem;margin-bottom:.2rem}
.who b{color:var(--text);font-weight:600}
.said p,.user p{margin:.4rem 0;white-space:pre-wrap}
.said h3,.said h4,.said h5,.said h6,.user h3,.user h4{margin:1rem 0 .4rem;font-size:1.05rem;line-height:1.35}
.said ul,.said ol,.user ul,.user ol{margin:.4rem 0;padding-left:1.5rem}
.in1{margin-left:1rem}.in2{margin-left:2rem}.in3,.in4,.in5,.in6{margin-left:3rem}
hr{border:0;border-top:1px solid var(--line);margin:1rem 0}
code,pre,.line{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.84em}
code{background:var(--code);border-radius:.3rem;padding:.1em .3em}
pre{background:var(--code);border-radius:.5rem;padding:.7rem .85rem;margin:.5rem 0;overflow-x:auto;white-space:pre-wrap;
line-height:1.45;max-height:32rem;overflow-y:auto}
pre code{background:none;padding:0;font-size:1em}
.call{border:1px solid var(--line);border-left:3px solid var(--line);border-radius:.5rem;background:var(--card);
padding:.35rem .75rem;margin-left:1rem}
.call.ok{border-left-color:var(--ok)}
.call.failed{border-left-color:var(--bad)}
.line{display:flex;gap:.6rem;align-items:baseline;min-width:0}
.line .what{flex:1;min-width:0}
.line .verb{color:var(--accent)}
.call+.said,.child+.said{margin-top:1.1rem}
.line .mark{color:var(--dim);white-space:nowrap}
.ok>.line .mark,.ok>summary .mark{color:var(--ok)}
.failed>.line .mark,.failed>summary .mark{color:var(--bad)}
summary{cursor:pointer;list-style:none}
summary::-webkit-details-marker{display:none}
summary .line::before{content:"▸";color:var(--dim);transition:transform .1s}
details[open]>summary .line::before{transform:rotate(90deg)}
summary:focus-visible{outline:2px solid var(--accent);outline-offset:2px;border-radius:.3rem}
.part{font-size:.7rem;color:var(--dim);margin-top:.5rem;text-transform:uppercase;letter-spacing:.05em}
.thought{margin-left:1rem;color:var(--dim);font-size:.9rem}
.thought p{margin:.3rem 0;white-space:pre-wrap}
.notice{margin-left:1rem;font-size:.88rem;color:var(--dim)}
.notice.error{color:var(--bad)}.notice.warning{color:var(--warn)}
.notice p{margin:0;white-space:pre-wrap}
.child{margin-left:1.5rem;border-left:2px solid var(--line);padding-left:.75rem}
.child2{margin-left:3rem;border-left:2px solid var(--line);padding-left:.75rem}
.end{border-top:1px solid var(--line);margin:1.5rem 0 2rem;padding-top:.6rem;font-size:.85rem;color:var(--dim);
display:flex;flex-wrap:wrap;gap:.25rem 1.25rem}
.end .outcome{font-weight:600}
.end .completed{color:var(--ok)}.end .failed{color:var(--bad)}
body>footer{padding-top:.5rem;padding-bottom:3rem;font-size:.8rem;color:var(--dim)}
@media (max-width:40rem){body{font-size:15px}h1{font-size:1.25rem}header{padding-top:1.25rem}header,main,body>footer{padding-left:.85rem;
padding-right:.85rem}.call,.thought,.notice{margin-left:0}.said{padding-left:.25rem;padding-right:.25rem}
.child{margin-left:.5rem}.child2{margin-left:.75rem}pre{max-height:22rem}dl{gap:.1rem 1rem}}
@media print{:root{--back:#fff;--card:#fff}pre{max-height:none}.call{break-inside:avoid}}
"""
