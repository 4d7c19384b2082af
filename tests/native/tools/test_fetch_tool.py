"""Getting pages: what is shown of them, and which are not got at all."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from harness.errors import how_to_install
from harness.events.operation import Fetch
from harness.native.tools import fetch as fetch_module
from harness.native.tools.fetch import FetchTool, text_of_page
from tool_kit import Bench

pytest.importorskip("httpx", reason="the tool asks with httpx: pip install httpx")

PAGE = b"""<!doctype html><html><head><title>A page</title><style>p { color: red }</style>
<script>alert("<p>no</p>")</script></head><body><h1>Head  line</h1><p>One &amp; <b>two</b>.</p>
<ul><li>first</li><li><a href="/next?x=1">a link</a></li></ul><img alt="a picture" src="x.png"></body></html>"""
PAGES: dict[str, tuple[int, dict[str, str], bytes]] = {
    "/page": (200, {"Content-Type": "text/html; charset=utf-8"}, PAGE),
    "/data": (200, {"Content-Type": "application/json"}, b'{"a": 1}'),
    "/latin": (200, {"Content-Type": "text/plain; charset=latin-1"}, b"caf\xe9"),
    "/odd": (200, {"Content-Type": "text/plain; charset=no-such"}, b"odd"),
    "/image": (200, {"Content-Type": "image/png"}, b"\x89PNG"),
    "/binary": (200, {"Content-Type": "application/octet-stream"}, b"\0\1\2"),
    "/missing": (404, {"Content-Type": "text/plain"}, b"nothing here"),
    "/large": (200, {"Content-Type": "text/plain"}, b"x" * (6 * 1024 * 1024)),
    "/near": (302, {"Location": "/data"}, b""),
    "/loop": (302, {"Location": "/loop"}, b""),
    "/file": (302, {"Location": "file:///etc/passwd"}, b""),
    "/away": (302, {"Location": "http://example.invalid/x"}, b""),
    "/nowhere": (302, {}, b""),
}


class Handler(BaseHTTPRequestHandler):
    is_over = threading.Event()

    def do_GET(self) -> None:
        if self.path == "/slow":
            self.is_over.wait()
        status, headers, body = PAGES.get(self.path, (404, {}, b""))
        if self.path == "/bomb":
            status, headers = 200, {"Content-Type": "text/plain", "Content-Encoding": "gzip"}
            body = gzip.compress(bytes(64 << 20))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except ConnectionError:
            return

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    Handler.is_over.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def fetch(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> FetchTool:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    return FetchTool(bench.outputs)


def test_a_page_is_shown_as_text(bench: Bench, fetch: FetchTool, site: str) -> None:
    output = bench.call(fetch, url=f"{site}/page")
    head, _, text = output.text.partition("\n\n")
    assert head == f"{site}/page: status 200, text/html, {len(PAGE)} bytes"
    assert "# Head line" in text
    assert "One & two." in text
    assert f"- [a link]({site}/next?x=1)" in text
    assert "[a picture]" in text
    assert "alert" not in text
    assert "color" not in text
    assert output.operations == [Fetch(url=f"{site}/page")]
    assert "<script>" in bench.call(fetch, url=f"{site}/page", raw=True).text


@pytest.mark.parametrize(
    ("path", "expected"), [("/data", '{"a": 1}'), ("/latin", "café"), ("/odd", "odd"), ("/near", '{"a": 1}')]
)
def test_other_text_is_shown_as_it_is(
    bench: Bench, fetch: FetchTool, site: str, path: str, expected: str
) -> None:
    assert bench.call(fetch, url=f"{site}{path}").text.endswith(f"\n\n{expected}")


def test_images_are_attached_and_other_bytes_named(bench: Bench, fetch: FetchTool, site: str) -> None:
    output = bench.call(fetch, url=f"{site}/image")
    assert [attachment.media_type for attachment in output.attachments] == ["image/png"]
    assert "not a text" in bench.call(fetch, url=f"{site}/binary").text


def test_an_error_of_the_server_is_a_failure_with_its_text(bench: Bench, fetch: FetchTool, site: str) -> None:
    output = bench.call(fetch, url=f"{site}/missing")
    assert not output.success
    assert "status 404" in output.text
    assert "nothing here" in output.text


@pytest.mark.parametrize("path", ["/large", "/bomb"])
def test_large_pages_are_cut(bench: Bench, fetch: FetchTool, site: str, path: str) -> None:
    output = bench.call(fetch, url=f"{site}{path}")
    assert "[cut at 5 MB]" in output.text
    assert "all of it is in" in output.text
    assert len(output.text) < 51_000


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/file", "redirects to file:///etc/passwd"),
        ("/away", "redirects to http://example.invalid/x"),
        ("/loop", "more than 5 redirections"),
    ],
)
def test_redirections_are_followed_on_the_same_host_alone(
    bench: Bench, fetch: FetchTool, site: str, path: str, said: str
) -> None:
    assert said in bench.refused(fetch, url=f"{site}{path}")


@pytest.mark.parametrize(
    "url",
    [
        *(
            "file:///etc/passwd",
            "ftp://host/x",
            "gopher://host",
            "http://",
            "https:///x",
            "data:text/html,x",
            "x",
        ),
        *("http://user:pass@127.0.0.1/", "http://169.254.169.254/latest/meta-data", "http://[fe80::1]/x"),
        *("http://127.0.0.1:99999/", "http://\0/", "http://no-such-host.invalid/", "http://127.0.0.1:1/"),
    ],
)
def test_addresses_that_are_not_fetched(bench: Bench, fetch: FetchTool, url: str) -> None:
    assert bench.refused(fetch, url=url)


def test_nothing_waits_for_a_slow_server(
    bench: Bench, fetch: FetchTool, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_module, "TIMEOUT_S", 0.2)
    assert "0.2 s" in bench.refused(fetch, url=f"{site}/slow") or "imeout" in bench.refused(
        fetch, url=f"{site}/slow"
    )


def test_a_cancelled_call_ends_at_once(bench: Bench, fetch: FetchTool, site: str) -> None:
    async def main() -> None:
        task = asyncio.create_task(fetch.run({"url": f"{site}/slow"}, bench.context()))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task  # the server answers only when the tests are over

    asyncio.run(main())


def test_always_means_the_same_host(fetch: FetchTool) -> None:
    permission = fetch.permission({"url": "https://docs.example.org/a?b"})
    assert permission.params == {"url": "https://docs.example.org/**"}


@pytest.mark.parametrize(
    "html", ["<", "<p", "<script>", "</p></script>", "<a href='http://[bad'>x</a>", "&#xd800;", "<a>" * 5000]
)
def test_broken_pages_are_read_as_far_as_they_go(html: str) -> None:
    assert isinstance(text_of_page(html, "http://host/"), str)


def test_without_the_library_it_says_what_is_missing(
    bench: Bench, fetch: FetchTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "httpx", None)
    assert how_to_install("models") in bench.refused(fetch, url="http://127.0.0.1/")
