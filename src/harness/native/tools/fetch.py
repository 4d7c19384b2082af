"""`fetch`: get a web page as text, or an image. Needs the extra `models`."""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple
from urllib.parse import urljoin, urlsplit

from msgspec import Meta

from harness.approvals.globs import escaped
from harness.contracts.tool import (
    Attachment,
    Tool,
    ToolContext,
    ToolFailure,
    ToolOutput,
    ToolPermission,
)
from harness.contracts.tool_arguments import Arguments, spec, take
from harness.errors import how_to_install
from harness.events import Operation
from harness.events.operation import Fetch
from harness.workspace.commands import HeadAndTail, OutputFolder

if TYPE_CHECKING:
    import httpx


_SILENT = re.compile(r"script|style|noscript|template|svg|iframe|object|canvas")
_BREAKING = re.compile(
    r"address|article|aside|blockquote|br|dd|div|dl|dt|fieldset|figure|footer|form|header|hr|li|main|nav|ol|p|pre|"
    r"section|table|tbody|td|th|thead|title|tr|ul|h[1-6]"
)
_HEADING = re.compile(r"h([1-6])")


def text_of_page(html: str, url: str) -> str:
    """The text of a page. Never raises: broken HTML is read as far as possible."""
    reader = _Reader(url)
    reader.feed(html)
    reader.close()
    text = "".join(reader.parts)
    text = re.sub(r"[ \t\r\f\v]+", " ", text)
    return re.sub(r" ?\n[ \n]*\n ?", "\n\n", re.sub(r" ?\n ?", "\n", text)).strip()


class _Reader(HTMLParser):
    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._url = url
        self._silent: list[str] = []
        self._links: list[tuple[str, int]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if _SILENT.fullmatch(tag):
            self._silent.append(tag)
        if self._silent:
            return
        if (heading := _HEADING.fullmatch(tag)) is not None:
            self.parts.append(f"\n\n{'#' * int(heading[1])} ")
        elif _BREAKING.fullmatch(tag):
            self.parts.append("\n- " if tag == "li" else "\n")
        elif tag == "a":
            self._links.append((dict(attrs).get("href") or "", len(self.parts)))
        elif tag == "img" and (description := dict(attrs).get("alt")):
            self.parts.append(f"[{description}]")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._silent:
            while self._silent.pop() != tag:
                pass
        elif self._silent:
            return
        elif _BREAKING.fullmatch(tag):
            self.parts.append("\n")
        elif tag == "a" and self._links:
            self._close_link()

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.parts.append(data)

    def _close_link(self) -> None:
        target, start = self._links.pop()
        label = "".join(self.parts[start:]).strip()
        try:
            address = urljoin(self._url, target)
        except ValueError:
            return
        if label and address.startswith(("http://", "https://")) and not target.startswith("#"):
            self.parts[start:] = [f"[{label}]({address})"]


TIMEOUT_S = 30.0
MOST_BYTES = 5 * 1024 * 1024
SHOWN_BYTES = 50_000
MOST_REDIRECTS = 5
_SCHEMES = ("http", "https")
_REDIRECTS = (301, 302, 303, 307, 308)
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_TEXTS = ("json", "xml", "javascript", "yaml", "toml", "csv", "x-sh", "x-www-form-urlencoded")
_DESCRIPTION = (
    "Get a page by its http or https address: HTML as text with its links, other text as it is, images as "
    "attachments. At most 5 MB. A redirection to another host is reported, not followed."
)


class FetchArguments(Arguments, frozen=True, kw_only=True):
    aliases: ClassVar[Mapping[str, str]] = dict.fromkeys(("uri", "link", "address", "href"), "url")
    url: Annotated[str, Meta(description="the address")]
    raw: Annotated[bool, Meta(description="HTML as it is, not as text")] = False


class _Page(NamedTuple):
    url: str
    status: int
    media_type: str
    encoding: str
    data: bytes
    is_cut: bool


class FetchTool(Tool):
    category = "read"

    def __init__(self, outputs: OutputFolder) -> None:
        self.spec = spec("fetch", _DESCRIPTION, FetchArguments)
        self._outputs = outputs

    def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
        return [Fetch(url=take(FetchArguments, arguments, "fetch").url)]

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        """Everything on the same host."""
        url = take(FetchArguments, arguments, "fetch").url
        parts = urlsplit(url)
        return ToolPermission("fetch", {"url": f"{escaped(f'{parts.scheme}://{parts.netloc}')}/**"})

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        order = take(FetchArguments, arguments, "fetch")
        try:
            import httpx
        except ImportError:
            raise ToolFailure(f"fetch needs the extra `models`: {how_to_install('models')}") from None
        try:
            async with asyncio.timeout(TIMEOUT_S):
                page = await _get(httpx, order.url)
        except TimeoutError:
            raise ToolFailure(f"{order.url}: no answer within {TIMEOUT_S:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            raise ToolFailure(f"{order.url}: {error or type(error).__name__}") from None
        return self._shown(page, order, context)

    def _shown(self, page: _Page, order: FetchArguments, context: ToolContext) -> ToolOutput:
        head = (
            f"{page.url}: status {page.status}, {page.media_type or 'unknown type'}, {len(page.data)} bytes"
        )
        success = page.status < 400
        operations: list[Operation] = [Fetch(url=page.url)]
        if page.media_type in _IMAGES and not page.is_cut:
            attachment = Attachment(page.media_type, b64encode(page.data).decode())
            return ToolOutput(text=head, attachments=(attachment,), success=success, operations=operations)
        if not _is_text(page):
            return ToolOutput(text=f"{head}: not a text", success=success, operations=operations)
        text = _decoded(page)
        if page.media_type in ("text/html", "application/xhtml+xml") and not order.raw:
            text = text_of_page(text, page.url)
        output, kept_output = (
            HeadAndTail(SHOWN_BYTES),
            self._outputs.new(context.call_id or "fetch", SHOWN_BYTES),
        )
        data = text.encode("utf-8", "replace")
        output.feed(data)
        kept_output.feed(data)
        kept_output.close()
        notes = [kept_output.notice(), "[cut at 5 MB]" if page.is_cut else ""]
        parts = [head, output.text(), *(note for note in notes if note)]
        return ToolOutput(text="\n\n".join(parts), success=success, operations=operations)


async def _get(library: Any, url: str) -> _Page:
    headers = {
        "user-agent": "harness",
        "accept": "text/html, text/*;q=0.9, */*;q=0.5",
        "accept-encoding": "gzip",
    }
    async with library.AsyncClient(follow_redirects=False, timeout=TIMEOUT_S, headers=headers) as client:
        for _ in range(MOST_REDIRECTS + 1):
            await _require_allowed(url)
            async with client.stream("GET", url) as response:
                if response.status_code not in _REDIRECTS:
                    return await _received(response, url)
                target = urljoin(url, response.headers.get("location", ""))
            if _host(target) != _host(url) or urlsplit(target).scheme not in _SCHEMES:
                raise ToolFailure(f"{url} redirects to {target}: fetch that, if it is what you want")
            url = target
    raise ToolFailure(f"{url}: more than {MOST_REDIRECTS} redirections")


async def _require_allowed(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ToolFailure(f"{url}: only http and https addresses can be fetched")
    if parts.username or parts.password:
        raise ToolFailure("an address with a name or password in it is not fetched")
    from ipaddress import ip_address

    addresses = await asyncio.get_running_loop().getaddrinfo(parts.hostname, parts.port or 80)
    for *_, address in addresses:
        # The metadata address of clouds, which returns the machine's credentials without authentication.
        if ip_address(str(address[0]).partition("%")[0]).is_link_local:
            raise ToolFailure(f"{parts.hostname} is a link-local address: not fetched")


def _host(url: str) -> tuple[str, int | None]:
    parts = urlsplit(url)
    return (parts.hostname or "").removeprefix("www."), parts.port


async def _received(response: httpx.Response, url: str) -> _Page:
    blocks: list[bytes] = []
    size_bytes = 0
    async for block in response.aiter_bytes(64 * 1024):
        blocks.append(block)
        size_bytes += len(block)
        if size_bytes > MOST_BYTES:
            break
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    encoding = response.charset_encoding or "utf-8"
    data = b"".join(blocks)
    return _Page(url, response.status_code, media_type, encoding, data[:MOST_BYTES], len(data) > MOST_BYTES)


def _decoded(page: _Page) -> str:
    try:
        return page.data.decode(page.encoding, "replace")
    except LookupError:  # servers may name an unknown encoding
        return page.data.decode("utf-8", "replace")


def _is_text(page: _Page) -> bool:
    kind = page.media_type
    if kind.startswith("text/") or any(word in kind for word in _TEXTS):
        return True
    return not kind and b"\0" not in page.data[:8192]
