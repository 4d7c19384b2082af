"""Makes docs/demo.svg, the moving picture of the README, from a real `harness demo` in a real terminal.

usage: python site/picture.py OUTPUT

A person's answers are typed by this program; everything else is what Harness wrote, when it wrote it. Long pauses are
shortened. The picture needs no script and no font of another host: each line appears by an animation of CSS.
"""

from __future__ import annotations

import os
import pty
import re
import select
import sys
import tempfile
import time
from html import escape
from pathlib import Path

COLUMNS, ROWS = 100, 30
LINE_PX, CHARACTER_PX, MARGIN_PX = 19, 8.4, 18
QUESTION = "[n] No, or why not"
LONGEST_PAUSE_S = 1.2
HARNESS = (sys.executable, "-m", "harness", "demo")
STYLE = re.compile(r"\x1b\[([0-9;]*)m")
OTHER_SEQUENCES = re.compile(r"\x1b\[[0-9;?]*[A-Za-ln-z]|\r")
COLORS = {
    "31": "#ff7b72",
    "32": "#7ee787",
    "33": "#e3b341",
    "34": "#79c0ff",
    "35": "#d2a8ff",
    "36": "#76e3ea",
    "90": "#8b949e",
    "2": "#8b949e",
    "1": "#ffffff",
}


def main(output: Path) -> int:
    lines = _lines(_record())
    output.write_text(_svg(lines), encoding="utf-8")
    print(f"{output}: {len(lines)} lines, {output.stat().st_size / 1000:.0f} kB", file=sys.stderr)
    return 0


def _record() -> list[tuple[float, str]]:
    """What the terminal was sent, and when; each question gets a yes."""
    with tempfile.TemporaryDirectory() as home:
        child, terminal = pty.fork()
        if child == 0:
            os.environ.update(HOME=home, TERM="dumb", FORCE_COLOR="1", COLUMNS=str(COLUMNS), LC_ALL="C.UTF-8")
            os.execv(sys.executable, HARNESS)  # noqa: S606 # our own program
        pieces, answered, began = [], 0, time.monotonic()
        while select.select([terminal], [], [], 60)[0]:
            try:
                data = os.read(terminal, 65_536)
            except OSError:
                break  # it has ended
            text = data.decode("utf-8", "replace").replace(home, "~")
            pieces.append((time.monotonic() - began, text))
            if "".join(text for _, text in pieces).count(QUESTION) > answered:
                answered += 1
                time.sleep(1.0)  # a person reads
                os.write(terminal, b"y\n")
        os.waitpid(child, 0)
    return pieces


def _lines(pieces: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """Every line, and when its first character came; pauses are cut."""
    lines: list[list[object]] = []
    shown_s = before_s = 0.0
    is_new = True
    for moment_s, text in pieces:
        shown_s += min(moment_s - before_s, LONGEST_PAUSE_S)
        before_s = moment_s
        for part in re.split(r"(\n)", OTHER_SEQUENCES.sub("", text)):
            if part == "\n":
                if is_new:
                    lines.append([shown_s, ""])
                is_new = True
            elif part:
                if is_new:
                    lines.append([shown_s, ""])
                lines[-1][1] = f"{lines[-1][1]}{part}"
                is_new = False
    return [(0.4, "$ \x1b[1mharness demo\x1b[0m"), *((float(str(at)) + 1.2, str(text)) for at, text in lines)]


def _svg(lines: list[tuple[float, str]]) -> str:
    width, height = COLUMNS * CHARACTER_PX + 2 * MARGIN_PX, ROWS * LINE_PX + 2 * MARGIN_PX
    texts = [
        f'<text y="{number * LINE_PX + 14}" style="animation-delay:{at:.2f}s">{_spans(text)}</text>'
        for number, (at, text) in enumerate(lines)
        if text.strip()
    ]
    end_s = lines[-1][0] + 1
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}" role="img">
<title>harness demo: an agent finds a mistake, asks, edits, and the check passes</title>
<style>
text {{ font: 14px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #e6edf3; white-space: pre; opacity: 0;
  animation: appear 0.01s linear forwards }}
@keyframes appear {{ to {{ opacity: 1 }} }}
#lines {{ animation: scroll {end_s:.2f}s step-end forwards }}
@keyframes scroll {{ {_scrolling(lines, end_s)} }}
</style>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
<svg x="{MARGIN_PX}" y="{MARGIN_PX}" width="{width - 2 * MARGIN_PX:.0f}" height="{ROWS * LINE_PX}"><g id="lines">
{chr(10).join(texts)}
</g></svg>
</svg>
"""


def _scrolling(lines: list[tuple[float, str]], end_s: float) -> str:
    """The group of lines moves up by one line whenever the screen is full."""
    steps = {"0%": 0}
    for number, (at, _) in enumerate(lines):
        if number >= ROWS:
            steps[f"{100 * at / end_s:.2f}%"] = (number - ROWS + 1) * LINE_PX
    last = max(steps.values())
    steps["100%"] = last
    return " ".join(f"{when} {{ transform: translateY(-{up}px) }}" for when, up in steps.items())


def _spans(text: str) -> str:
    """The line with its colours; what is too long for the picture is cut, as a terminal would wrap it."""
    spans, color, used = [], "", 0
    for part in re.split(r"(\x1b\[[0-9;]*m)", text.expandtabs(8)):
        if style := STYLE.fullmatch(part):
            codes = style[1].split(";")
            color = next(
                (COLORS[code] for code in codes if code in COLORS), "" if codes in (["0"], [""]) else color
            )
            continue
        cut = part[: COLUMNS - used]
        used += len(cut)
        if cut:
            spans.append(
                f'<tspan fill="{color}">{escape(cut)}</tspan>' if color else f"<tspan>{escape(cut)}</tspan>"
            )
    return "".join(spans)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
