"""Which variables of the environment tools are not given: those that are, or may well be, credentials.

Wider than what is masked in the log: a variable that a tool misses can be given by name (`--env`), one that it
has can be sent anywhere. What counts is the name, by table, unless the value is one of the words with which
something is switched, an address or a file that is there: a password may be a word or a number. Whatever the name, a
value that has the shape of a key, or is a long random text, counts as well.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache, lru_cache

from harness.log.redact.redactor import PATH, PLACEHOLDER, URL, secrets_in
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
_DESKTOP = frozenset({"DESKTOP_SESSION", "GDMSESSION"})
"""Set by desktops, with the name of a desktop."""
_SWITCHES = frozenset(
    [
        "0",
        "1",
        "true",
        "false",
        "yes",
        "no",
        "on",
        "off",
        "enabled",
        "disabled",
        "enable",
        "disable",
        "none",
        "null",
        "auto",
        "default",
        "always",
        "never",
        "required",
        "optional",
        "basic",
        "bearer",
        "digest",
        "oauth",
        "oauth2",
        "oidc",
        "saml",
        "ldap",
        "kerberos",
        "ntlm",
        "plain",
    ]
)
"""Values that say how something is done, in lower case."""
_RANDOM = r"(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9])[A-Za-z0-9+/=_-]{24,}"
"""Letters of both cases and digits, and no words: no hash, no version, no name."""
_WORD_LENGTH = 5
"""An ending that is this long marks a secret also where it is not a word of its own (`MYSESSION`, `dbpassword`)."""

_LONG_ENDINGS = tuple(sorted(ending for ending in _ENDINGS if len(ending) >= _WORD_LENGTH))


def withheld_from_tools(environ: Mapping[str, str]) -> frozenset[str]:
    """The names of these variables."""
    return _withheld(tuple(environ.items()))


@lru_cache(maxsize=4)
def _withheld(variables: tuple[tuple[str, str], ...]) -> frozenset[str]:
    environ = dict(variables)
    finder = _shape_finder()
    by_name = {
        name for name, value in environ.items() if _is_telling(name.upper()) and _may_be_secret(name, value)
    }
    shaped = {
        name
        for name, value in environ.items()
        if _is_random(value) or finder.spans(value.encode("utf-8", "surrogateescape"))
    }
    return frozenset({*secrets_in(environ), *by_name, *shaped})


@cache
def _shape_finder() -> SecretFinder:
    return SecretFinder({})


def _is_telling(name: str) -> bool:
    if name in _DESKTOP or any(part in name for part in _PUBLIC):
        return False
    last = name.rstrip("_").rpartition("_")[2]
    is_ending = last in _ENDINGS or last.endswith(_LONG_ENDINGS)
    return is_ending or (last not in _SETTING_ENDINGS and any(part in name for part in _PARTS))


def _may_be_secret(name: str, value: str) -> bool:
    text = value.strip()
    if not text or text.lower() in _SWITCHES or re.fullmatch(PLACEHOLDER, text):
        return False
    if re.match(URL, text):
        return "WEBHOOK" in name.upper()
    return not (re.match(PATH, text) and os.path.exists(os.path.expanduser(text)))


def _is_random(value: str) -> bool:
    text = value.strip()
    return bool(re.fullmatch(_RANDOM, text)) and not re.match(PATH, text)
