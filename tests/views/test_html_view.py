"""The HTML document: one file, nothing of a session becomes a tag, and what was masked is counted."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.events import (
    Error,
    Event,
    Message,
    ReasoningDelta,
    Result,
    SessionStart,
    TextDelta,
    ToolEnd,
    ToolStart,
)
from harness.events.operation import Command, Read
from harness.formatting.html_text import html_of_markdown
from harness.stage import ViewOptions, run_through
from harness.views import html

ALLOWED = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "header",
        "main",
        "footer",
        "h1",
        "h3",
        "h4",
        "h5",
        "h6",
    ),
    *(
        "dl",
        "dt",
        "dd",
        "div",
        "article",
        "p",
        "b",
        "em",
        "strong",
        "span",
        "code",
        "pre",
        "ul",
        "ol",
        "li",
        "hr",
    ),
    *("br", "details", "summary"),
}
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><script>x</script>",
    "</title><base href=//evil>",
    "```\n</code></pre><iframe src=//evil>\n```",
    "`<b onclick=x>` **<i>** *<u>* # <s>",
    "- <a href=javascript:x>\n1. <form action=//evil>",
    "| <td> |\n|---|",
    "[x](javascript:alert(1)) ![y](//evil/p.png) <//evil>",
    "\x1b[2J\u202e\x00\ud800",
    "</main></body></html><meta http-equiv=refresh content=0>",
)


class _Reader(HTMLParser):
    """Collects the tags and the text of a document."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def _read(text: str) -> _Reader:
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader


def _shown(*events: Event) -> str:
    return b"".join(run_through(html.open(ViewOptions()), events)).decode()


def _session(text: str) -> list[Event]:
    about = {"run_id": "r"}
    start = SessionStart(agent=text, model=text, cwd=text, session_id=text, version=text, **about)
    operation = Command(command=text)
    return [
        start,
        Message(role="user", text=text, **about),
        ReasoningDelta(text=text, **about),
        TextDelta(id="m", text=text, **about),
        Message(role="assistant", id="m", text=text, **about),
        ToolStart(call_id="a", tool_name=text, input={text: text}, operations=[operation], **about),
        ToolEnd(call_id="a", tool_name=text, output=text, success=False, exit_code=3, **about),
        ToolStart(call_id="b", tool_name=text, input=text, **about),
        Error(message=text, **about),
        SessionStart(run_id="c", parent_id="r", name=text),
        Message(role="assistant", text=text, run_id="c"),
        Result(success=False, outcome="failed", text=text, **about),
    ]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_of_a_session_becomes_a_tag_or_an_address(text: str) -> None:
    document = _shown(*_session(text))
    tags = _read(document).tags
    assert {tag for tag, _ in tags} <= ALLOWED
    names = {name for tag, attributes in tags if tag != "meta" for name in attributes}
    assert names <= {"class", "lang"}
    assert [dict(attributes) for tag, attributes in tags if tag == "meta"] == [
        {"charset": "utf-8"},
        {
            "http-equiv": "Content-Security-Policy",
            "content": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'",
        },
        {"name": "referrer", "content": "no-referrer"},
        {"name": "viewport", "content": "width=device-width, initial-scale=1"},
    ]
    assert "url(" not in document
    assert "@import" not in document
    assert document.rstrip().endswith("</html>")


@given(st.text(alphabet=st.sampled_from("<>&\"'`*_#-+|~ \n1.a/="), max_size=120))
def test_any_text_is_only_text_and_its_plain_parts(text: str) -> None:
    reader = _read(html_of_markdown(text))
    assert {tag for tag, _ in reader.tags} <= ALLOWED
    assert all(attributes.keys() <= {"class"} for _tag, attributes in reader.tags)


def test_the_plain_parts_of_markdown_are_shown() -> None:
    text = "# Head\n\nA **b** `c<d>` *e*\n- one\n  - two\n1. three\n```py\nx = 1 < 2\n```\n---\nend"
    assert html_of_markdown(text) == (
        "<h3>Head</h3><p>A <strong>b</strong> <code>c&lt;d&gt;</code> <em>e</em></p>"
        '<ul><li>one</li><li class="in1">two</li><li>three</li></ul>'
        "<pre><code>x = 1 &lt; 2</code></pre><hr><p>end</p>"
    )


def test_a_session_is_shown_with_its_calls_and_how_it_ended() -> None:
    about = {"run_id": "r"}
    document = _shown(
        SessionStart(agent="claude", model="opus", cwd="/w", timestamp_ms=1_794_770_000_000, **about),
        Message(role="user", text="fix `it`\nplease", timestamp_ms=1_794_770_000_000, **about),
        ToolStart(call_id="a", tool_name="Read", input={"p": 1}, operations=[Read(path="/w/a.py")], **about),
        ToolEnd(call_id="a", tool_name="Read", output="x = 1", success=True, duration_ms=2_500, **about),
        Message(role="assistant", text="done", **about),
        Result(success=True, total_cost_usd=0.5, duration_ms=61_000, **about),
    )
    reader = _read(document)
    for text in (
        "fix it",
        "2026-11-15 19:13 UTC",
        "read a.py",
        "✓ 2.5s",
        "x = 1",
        "done",
        "completed",
        "1m 01s",
        "$0.500",
    ):
        assert text in reader.text
    assert "no secrets masked" in reader.text
    assert "<title>fix it</title>" in document


def test_what_is_attached_is_counted_and_calls_of_a_message_are_not() -> None:
    call, image = {"type": "tool_call", "id": "a"}, {"type": "image", "data": "AAAA"}
    messages = [
        Message(role="assistant", text="", parts=[call], run_id="r"),
        Message(role="assistant", text="said", parts=[call], run_id="r"),
        Message(role="user", text="look", parts=[image], run_id="r"),
    ]
    document = _shown(SessionStart(agent="a", run_id="r"), *messages)
    assert document.count("<article") == 2
    assert document.count("attached") == 1
    assert "1 attached" in document
    assert "AAAA" not in document


def test_secrets_are_counted_and_a_run_that_was_cut_off_is_whole() -> None:
    document = _shown(
        SessionStart(agent="a", run_id="r"),
        Message(role="user", text="[REDACTED:x] and [REDACTED:y]", run_id="r"),
        ToolStart(call_id="a", tool_name="t", run_id="r"),
        TextDelta(id="m", text="half", run_id="r"),
    )
    assert "2 secrets masked" in document
    assert "no result" in document
    assert "half" in document
    assert _shown().endswith("</html>\n")
