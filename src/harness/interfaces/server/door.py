"""What a person sees before the page: the way in, and why there is none. No script, no style: nothing is let in yet."""

from __future__ import annotations

from html import escape

_HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Harness</title>
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">"""

DOOR = f"""{_HEAD}<meta http-equiv="refresh" content="0;url=/"></head>
<body><a href="/">Go on</a></body></html>
""".encode()


def refusal(message: str) -> bytes:
    return f"""{_HEAD}</head>
<body><h1>Harness does not let you in</h1><p>{escape(message[:1].upper() + message[1:])}.</p>
<p>Open the link that <code>harness serve</code> printed; it works once. For another link, start it again.</p>
</body></html>
""".encode()
