"""What of a provider can be reached through a gateway: the routes of the model APIs, and nothing beside them.

Which API a request is of is told by the end of its path, whatever a server puts before it. A gateway holds a key, which
opens much more (files, threads, the account), and so it passes on nothing but these routes, spelled in one way.
"""

from __future__ import annotations

import re

_VERSION = r"(?:/v[0-9]+(?:alpha|beta)?)?"
_NAME = r"(?:[A-Za-z0-9._~@:+-]|%(?:2[Ff]|3[Aa]|40))+"
_ROUTE = re.compile(
    rf"{_VERSION}/(?:messages(?:/count_tokens)?|chat/completions|responses(?:/compact)?|models(?:/{_NAME})*)/?"
)


def is_route(target: str) -> bool:
    """`target`: path and query, as they were written: what a provider makes of other spellings is not known here."""
    return _ROUTE.fullmatch(target.partition("?")[0]) is not None
