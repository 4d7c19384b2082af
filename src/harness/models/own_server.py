"""What a server of the user's own says of itself, in JSON."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

_TIMEOUT_S = 1.0
_MOST_BYTES = 4_000_000


def answer_of(url: str, body: dict[str, Any] | None = None, key: str = "") -> Any:
    """The JSON that a server answers; None for anything else. Only servers of the user's own are asked."""
    data = json.dumps(body).encode() if body is not None else None
    headers = {"content-type": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
    request = Request(url, data=data, headers=headers)  # noqa: S310
    try:
        with urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
            return json.loads(answer.read(_MOST_BYTES))
    except (URLError, OSError, ValueError, RecursionError):
        return None


def server_knows_tools(url: str, key: str = "") -> bool | None:
    """What llama.cpp says of the template of its model; None for another server."""
    properties = answer_of(f"{url.removesuffix('/').removesuffix('/v1')}/props", key=key)
    able = properties.get("chat_template_caps") if isinstance(properties, dict) else None
    answer = able.get("supports_tools") if isinstance(able, dict) else None
    return answer if isinstance(answer, bool) else None
