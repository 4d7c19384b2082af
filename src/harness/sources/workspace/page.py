"""What a web page says: its text, with headings, lists and links, without everything else."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import urljoin

_SILENT = re.compile(r"script|style|noscript|template|svg|iframe|object|canvas")
_BREAKING = re.compile(
    r"address|article|aside|blockquote|br|dd|div|dl|dt|fieldset|figure|footer|form|header|hr|li|main|nav|ol|p|pre|"
    r"section|table|tbody|td|th|thead|title|tr|ul|h[1-6]"
)
_HEADING = re.compile(r"h([1-6])")


def text_of_page(html: str, url: str) -> str:
    """Never raises: what is broken is read as far as it goes."""
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
