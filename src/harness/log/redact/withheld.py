"""Which variables of the environment tools are not given: those that are, or may well be, credentials.

Wider than what is masked in the log: a variable that a tool misses can be given by name (`--env`), one that it
has can be sent anywhere. What counts is the name, by table, unless the value can be no secret; and whatever the
name, a value that has the shape of a key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache

from harness.log.redact.redactor import NUMBER, PATH, PLACEHOLDER, URL, WORDS, secrets_in
from harness.log.redact.secret_finder import SecretFinder

_ENDINGS = frozenset(
    [
        "KEY",
        "KEYS",
        "SK",
        "SESSION",
        "SESSIONID",
        "SID",
        "COOKIE",
        "COOKIES",
        "AUTH",
        "AUTHORIZATION",
        "AUTHTOKEN",
        "PASS",
        "PASSPHRASE",
        "PW",
        "OTP",
        "TOTP",
        "JWT",
        "BEARER",
        "SIGNATURE",
        "HMAC",
        "PEM",
        "PRIVATE",
        "DSN",
        "PAT",
        "SALT",
        "PEPPER",
        "MNEMONIC",
        "TOKEN",
        "TOKENS",
        "SECRET",
        "SECRETS",
        "PASSWORD",
        "PASSWORDS",
        "PASSWD",
        "CREDENTIAL",
        "CREDENTIALS",
        "APIKEY",
    ]  # a table of words
)
"""Last words of names."""
_PARTS = (
    "ACCESS_KEY",
    "API_KEY",
    "APIKEY",
    "PRIVATE_KEY",
    "SECRET_KEY",
    "CONNECTION_STRING",
    "CONNECTIONSTRING",
    "SERVICE_ACCOUNT",
    "AUTH_CONFIG",
    "WEBHOOK",
)
"""Parts that mark a secret anywhere in a name."""
_SETTING_ENDINGS = ("FILE", "PATH", "DIR", "SOCK", "NAME", "TYPE", "HOST", "PORT", "USER", "REGION")
_PUBLIC = ("PUBLIC", "FINGERPRINT")
_SHORTEST = 6
_LONGEST_PLAIN = 15


def withheld_from_tools(environ: Mapping[str, str]) -> frozenset[str]:
    """The names of these variables."""
    finder = _shape_finder()
    named = {
        name for name, value in environ.items() if _is_telling(name.upper()) and _may_be_secret(name, value)
    }
    shaped = {
        name for name, value in environ.items() if finder.spans(value.encode("utf-8", "surrogateescape"))
    }
    return frozenset({*secrets_in(environ), *named, *shaped})


@cache
def _shape_finder() -> SecretFinder:
    return SecretFinder({})


def _is_telling(name: str) -> bool:
    if any(part in name for part in _PUBLIC):
        return False
    last = name.rstrip("_").rpartition("_")[2]
    return last in _ENDINGS or (last not in _SETTING_ENDINGS and any(part in name for part in _PARTS))


def _may_be_secret(name: str, value: str) -> bool:
    text = value.strip()
    if len(text) < _SHORTEST or re.fullmatch(NUMBER, text) or re.fullmatch(PLACEHOLDER, text):
        return False
    if re.fullmatch(WORDS, text) and len(text) <= _LONGEST_PLAIN:
        return False
    if re.match(URL, text):
        return "WEBHOOK" in name.upper()
    return not (re.match(PATH, text) and os.path.exists(os.path.expanduser(text)))
