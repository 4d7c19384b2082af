"""Secrets that are coloured, broken by invisible characters or written in escapes are masked like others."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from harness.log.redact.obscured import plain_text, resolved
from harness.log.redact.redactor import Redactor, redact_text

KEY = "sk-ant-api03-" + "a1B2c3D4" * 5
PASSWORD = "correctHorse-battery/42staple"
SECRETS = {"MY_TOKEN": PASSWORD}


def percent(text: str) -> str:
    return "".join(f"%{ord(one):02x}" for one in text)


def units(text: str) -> str:
    return "".join(f"\\u{ord(one):04X}" for one in text)


def in_half(mark: str) -> Callable[[str], str]:
    return lambda text: text[: len(text) // 2] + mark + text[len(text) // 2 :]


OBSCURED: dict[str, Callable[[str], str]] = {
    "grep --color": lambda text: f"KEY=\x1b[01;31m\x1b[K{text[:20]}\x1b[m\x1b[K{text[20:]}",
    "coloured whole": lambda text: f"\x1b[32m{text}\x1b[0m",
    "hyperlink": lambda text: f"\x1b]8;;file:///x\x07{text}\x1b]8;;\x07",
    "zero-width space": in_half("\u200b"),
    "word joiner": in_half("\u2060"),
    "byte order mark": in_half("\ufeff"),
    "soft hyphen": in_half("\u00ad"),
    "every letter": "\u200d".join,
    "percent": percent,
    "upper percent": lambda text: percent(text).upper(),
    "one letter in percent": lambda text: percent(text[0]) + text[1:],
    "units": units,
    "one letter as a unit": lambda text: text[:5] + units(text[5]) + text[6:],
}
WRITTEN: dict[str, Callable[[str], str]] = {
    "text": str,
    "JSON": lambda text: json.dumps({"text": text}),
    "JSON in UTF-8": lambda text: json.dumps({"text": text}, ensure_ascii=False),
    "JSON in JSON": lambda text: json.dumps({"outer": json.dumps({"text": text})}),
}


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize("obscured", OBSCURED.values(), ids=OBSCURED)
@pytest.mark.parametrize("secret", [KEY, PASSWORD])
def test_an_obscured_secret_is_masked(
    secret: str, obscured: Callable[[str], str], written: Callable[[str], str]
) -> None:
    line = written(f"before {obscured(secret)} behind") + "\n"
    masked = Redactor(SECRETS).feed(line.encode()).decode()

    assert "[REDACTED:" in masked
    assert masked.count("before ") == masked.count(" behind") == 1
    assert secret[-8:] not in resolved(masked.encode()).decode()
    assert secret[13:25] not in resolved(masked.encode()).decode()
    if line[0] == "{":
        json.loads(masked)


def test_a_text_of_our_own_is_masked_too() -> None:
    assert PASSWORD[4:9] not in redact_text(f"see {percent(PASSWORD)}!", SECRETS)
    assert redact_text(f"see {percent(PASSWORD)}!", SECRETS).endswith("!")


@pytest.mark.parametrize(
    "text",
    [
        "50% of “this”, a\u200bb, 100%25 and caf\\u00e9 in \x1b[1mbold\x1b[0m",
        "commit \x1b[33m0123456789abcdef0123456789abcdef01234567\x1b[m",
        "https://example.org/a%20b%2Fc?d=%7B%22e%22%3A1%7D",
    ],
)
def test_what_is_no_secret_stays_byte_for_byte(text: str) -> None:
    block = text.encode() + b"\n"
    assert Redactor(SECRETS).feed(block) is block


def test_every_part_of_the_plain_text_has_its_place() -> None:
    text = b"a%62c\x1b[1md\\u0065f\xe2\x80\x8bg"
    plain = plain_text(text)

    assert plain.text == resolved(text) == b"abcdefg"
    written = [text[slice(*plain.source(place, place + 1))] for place in range(len(plain.text))]
    assert written == [b"a", b"%62", b"c", b"d", b"\\u0065", b"f", b"g"]
    assert text[slice(*plain.source(1, 6))] == b"%62c\x1b[1md\\u0065f"
