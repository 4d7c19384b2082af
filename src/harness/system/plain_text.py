"""Text as every file and terminal can hold it.

The names of files, arguments and variables are bytes. Where they are not UTF-8, Python keeps each odd byte as
half a character, which nothing but another call of the system takes back.
"""

from __future__ import annotations


def plain_text(text: str) -> str:
    """The same text; lone halves of characters become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
