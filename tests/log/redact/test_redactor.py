"""Credentials never reach disk or a reader; all else stays byte for byte."""

from __future__ import annotations

import base64
import json
import random
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.log.redact.redactor import Redactor, redact_text, secrets_in
from harness.log.redact.secret_shapes import KEY_SHAPES
from planted_secrets import KEY, KNOWN, PEM, PEM_BODY, SHAPES, assert_unseen, json_line, made_up, redacted

SHAPE_IDS = [f"{name}-{index}" for index, (name, _, _) in enumerate(SHAPES)]
LETTERS = string.ascii_letters + string.digits


@pytest.mark.parametrize(("name", "text", "secret"), SHAPES, ids=SHAPE_IDS)
def test_a_key_shape_is_masked_in_plain_text(name: str, text: str, secret: str) -> None:
    output = redacted(f"see\n{text}\nand more\n".encode())
    assert f"[REDACTED:{name}]".encode() in output
    assert_unseen(secret, output)
    assert output.startswith(b"see\n")
    assert output.endswith(b"\nand more\n")
    assert output.count(b"\n") == 3 + text.count("\n")


@pytest.mark.parametrize(("name", "text", "secret"), SHAPES, ids=SHAPE_IDS)
@pytest.mark.parametrize("before", ["", "key ", "a\n", "\t", "\x1b[32m", "x=", "→"])
def test_a_key_shape_is_masked_in_json(name: str, text: str, secret: str, before: str) -> None:
    for value in ({"output": before + text + "\nend"}, {"input": json.dumps({"env": before + text})}):
        for line in (json_line(value), json.dumps(value).encode() + b"\n"):
            output = redacted(line)
            assert f"[REDACTED:{name}]".encode() in output
            assert_unseen(secret.replace("\n", "\\n"), output)
            json.loads(output)


PREFIXES = [
    (shape.name, prefix.decode()) for shape in KEY_SHAPES for prefix in shape.prefixes if shape.name != "jwt"
]


@pytest.mark.parametrize(("name", "prefix"), PREFIXES)
def test_every_prefix_of_the_table_is_found_and_needs_a_long_body(name: str, prefix: str) -> None:
    bodies = [made_up(length, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") for length in (16, 35, 160)]
    marked = f'"[REDACTED:{name}]"\n'.encode()
    assert marked in [redacted(f'"{prefix}{body}"\n'.encode()) for body in bodies]
    short = f'"{prefix}{bodies[0][:15]}"\n'.encode()
    assert redacted(short) == short


def test_sixty_planted_secrets_leave_no_trace() -> None:
    planted = {
        f"SERVICE_{number}_TOKEN": made_up(20 + number, LETTERS + "+/=._-", number) for number in range(30)
    }
    shapes = [(text, secret) for _, text, secret in SHAPES] + [
        (text := "sk-ant-" + made_up(40, LETTERS, number), text) for number in range(4)
    ]
    lines = [f"{name}={value}\n".encode() for name, value in planted.items()]
    lines += [json_line({"tool": "env", "stdout": f"{name}={value}\n"}) for name, value in planted.items()]
    lines += [f"ValueError: bad key '{value}' for {name}\n".encode() for name, value in planted.items()]
    lines += [b"url?key=" + base64.b64encode(value.encode()) + b"&x\n" for value in planted.values()]
    lines += [f'  File "a.py", line 3\n    connect("{text}")\n'.encode() for text, _ in shapes]
    lines += [json_line({"error": {"message": f"refused: {text}"}}) for text, _ in shapes]
    assert len(planted) + len(shapes) >= 60
    output = redacted(b"".join(lines), planted)
    for secret in (*planted.values(), *(secret for _, secret in shapes)):
        assert_unseen(secret, output)
        assert_unseen(secret.replace("\n", "\\n"), output)
        assert base64.b64encode(secret.encode()).rstrip(b"=") not in output
    for name in planted:
        assert output.count(f"[REDACTED:{name}]".encode()) == 4


def test_a_known_value_is_masked_in_every_spelling() -> None:
    secret = KNOWN["QUOTED_SECRET"]
    spellings = [
        secret.encode(),
        json.dumps(secret).encode(),
        json.dumps(secret, ensure_ascii=False).encode(),
        json.dumps(json.dumps(secret, ensure_ascii=False), ensure_ascii=False).encode(),
        b"a%22b%5Cc%2Fd%2B%C3%A9" + secret[-12:].encode(),
        b"a%22b%5Cc/d%2B%C3%A9" + secret[-12:].encode(),
        base64.b64encode(secret.encode()),
        base64.urlsafe_b64encode(secret.encode()),
        json.dumps(json.dumps(secret)).encode(),
        json.dumps(secret, ensure_ascii=False).replace("/", "\\/").encode(),
        b"a%22b%5cc%2fd%2b%c3%a9" + secret[-12:].encode(),
    ]
    for spelling in spellings:
        output = redacted(b"<" + spelling + b">\n", KNOWN)
        assert b"[REDACTED:QUOTED_SECRET]" in output
        assert_unseen(secret[-12:], output)


def test_a_known_value_is_masked_wherever_it_stands_in_base64() -> None:
    secret = made_up(31, LETTERS, 11)
    for before in ("", "a", "me:", "user:", "x-token:"):
        encoded = base64.b64encode(f"{before}{secret}\n".encode()).decode()
        output = redacted(f'{{"auth": "{encoded}"}}\n'.encode(), {"GIT_TOKEN": secret})
        assert b"[REDACTED:GIT_TOKEN]" in output
        shown = output.replace(b"[REDACTED:GIT_TOKEN]", b"")
        assert len(shown) < len('{"auth": ""}') + len(before) * 4 // 3 + 8


@pytest.mark.parametrize(
    ("secret", "spelling"),
    [
        ("pass&word<1>", "pass\\u0026word\\u003c1\\u003e"),
        ("long pass phrase 1", "long+pass+phrase+1"),
        ("it's(1)*secret!/", "it's(1)*secret!%2F"),
    ],
)
def test_a_known_value_is_masked_as_other_languages_write_it(secret: str, spelling: str) -> None:
    assert redacted(f"<{spelling}>\n".encode(), {"MY_SECRET": secret}) == b"<[REDACTED:MY_SECRET]>\n"


def test_only_a_data_url_may_hold_what_looks_like_a_secret() -> None:
    assert redacted(f";base64,{SECRET}\n".encode(), KNOWN) == f";base64,[REDACTED:{KEY}]\n".encode()
    assert redacted(f"see data: and ;base64,{SECRET}\n".encode(), KNOWN).endswith(
        f"[REDACTED:{KEY}]\n".encode()
    )


def test_of_overlapping_values_all_is_masked_under_the_longest_name() -> None:
    long = made_up(40, LETTERS, 8)
    secrets = {"SHORT": long[5:17], "LONG": long, "NEXT": long[-8:] + made_up(20, LETTERS, 9)}
    assert (
        redacted(f"a {long} b {long[5:17]}\n".encode(), secrets) == b"a [REDACTED:LONG] b [REDACTED:SHORT]\n"
    )
    assert redacted(f"{long}{secrets['NEXT'][8:]}\n".encode(), secrets) == b"[REDACTED:LONG]\n"


HARMLESS = [
    b"commit 3f786850e387550fdab836ed7e6dc881de23001b\n",
    b"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n",
    b'{"uuid":"6b0d549b-6f03-675a-1600-a35a099950d8","id":"toolu_01A09q90qw90lq917835lq9","m":"msg_01XFDUDYJgAACzvnptvVoYEL"}\n',
    b'{"call_id":"call_HqzKkZz8vYxJ3m2nB7QeLr5t","id":"chatcmpl-9ZxQ3mKk8vYxJ3m2nB7QeLr5tAbCd"}\n',
    b"task-ant-colony-optimization-algorithms-in-practice desk-proj-long-hyphenated-words-here\n",
    b"class='sk-fading-circle sk-circle-fade-dot' npm_config_registry_with_a_long_name hf_hub_download\n",
    b"Authorization: Bearer $TOKEN, authorization: bearer authentication, Authorization: Basic <credentials>\n",
    b"postgres://user:password@localhost/db https://username:PASS@host mysql://root:passwd@db\n",
    b"http://localhost:8080/a@b https://user@host/x postgres://${USER}:${PASSWORD}@host git@github.com:a/b.git\n",
    b'if "-----BEGIN RSA PRIVATE KEY-----" in text: raise ValueError("-----END RSA PRIVATE KEY-----")\n',
    b"-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA\n-----END PUBLIC KEY-----\n",
    b"data:image/png;base64," + base64.b64encode(random.Random(1).randbytes(3000)) + b"\n",
    b"AKIA is a prefix, eyJ is another, sk- too; -----BEGIN\n",
]


@pytest.mark.parametrize("data", HARMLESS)
def test_what_is_no_credential_is_handed_on_as_the_very_same_object(data: bytes) -> None:
    for redactor in (Redactor(), Redactor(KNOWN, ("text", "delta"))):
        assert redactor.feed(data) is data
        assert not redactor.held
        assert redactor.flush() == b""


SECRET = KNOWN[KEY]
OPAQUE = [
    {"type": "thinking", "thinking": "hm", "signature": f"Eo {SECRET} x"},
    {"delta": {"type": "signature_delta", "signature": SECRET}},
    {"encrypted_content": SECRET, "id": "rs_1"},
    {"thoughtSignature": f"a\\{SECRET}"},
    {"thought_signature": f'"{SECRET}"'},
    {"type": "redacted_thinking", "data": SECRET},
    {"source": {"type": "base64", "media_type": "image/png", "data": SECRET}},
    {"type": "image", "data": SECRET, "mimeType": "image/png"},
    {"data": SECRET, "media_type": "application/pdf", "type": "base64"},
    {"url": f"data:image/png;base64,{made_up(30)}/{SECRET}+{made_up(30)}"},
]


@pytest.mark.parametrize("value", OPAQUE)
def test_an_opaque_field_is_never_touched(value: object) -> None:
    line = json_line(value)
    assert redacted(line, KNOWN, ("text", "signature")) == line
    spaced = json.dumps(value, indent=1).replace("\n", "").encode() + b"\n"
    assert redacted(spaced, KNOWN) == spaced


def test_only_the_opaque_field_of_a_line_is_spared() -> None:
    line = json_line(
        {"signature": SECRET, "text": SECRET, "data": SECRET, "content": {"signature": [SECRET]}}
    )
    output = json.loads(redacted(line, KNOWN))
    masked = f"[REDACTED:{KEY}]"
    assert output == {"signature": SECRET, "text": masked, "data": masked, "content": {"signature": [masked]}}


@pytest.mark.parametrize("prefix", ["", "     {}\t", "    {}→"])
def test_a_private_key_that_comes_line_by_line_is_masked(prefix: str) -> None:
    lines = [f"{prefix.format(number)}{line}\n".encode() for number, line in enumerate(PEM.split("\n"))]
    redactor = Redactor()
    output = b"".join(redactor.feed(line) for line in [b"before\n", *lines, b"after\n", b"word\n"])
    for line in PEM_BODY.split("\n"):
        assert_unseen(line, output)
    assert output.count(b"[REDACTED:private-key]") == 1
    assert output.startswith(b"before\n")
    assert output.endswith(b"after\nword\n")
    assert output.count(b"\n") == len(lines) + 3


def test_redacting_twice_changes_nothing_more() -> None:
    lines = [f"{text}\n{json.dumps(text)}\n" for _, text, _ in SHAPES] + [
        f"{value}\n" for value in KNOWN.values()
    ]
    once = redacted("".join(lines).encode(), KNOWN)
    assert redacted(once, KNOWN) == once
    assert redacted(b"my_token_value\n", {"my_token_value": "my_token_value"}) == b"my_token_value\n"


def test_a_value_as_long_as_a_file_is_masked() -> None:
    value = json.dumps({"private_key": made_up(40_000), "owner": "\ud800"}, ensure_ascii=False)
    line = json_line({"stdout": value.encode("utf-8", "replace").decode()})
    assert (
        redacted(line, {"FILE_SECRET": json.loads(line)["stdout"]})
        == b'{"stdout":"[REDACTED:FILE_SECRET]"}\n'
    )
    assert redact_text(value, {"FILE_SECRET": value}) == "[REDACTED:FILE_SECRET]"


def test_a_mark_is_plain_ascii_whatever_the_variable_is_called() -> None:
    assert redacted(b"x hunter2hunter2\n", {'a"é\n]': "hunter2hunter2"}) == b"x [REDACTED:a____]\n"


def test_text_of_our_own_is_masked_too() -> None:
    prompt = f"use {SECRET} \ud800 naïve"
    assert redact_text(prompt, KNOWN) == f"use [REDACTED:{KEY}] \ud800 naïve"
    assert redact_text("nothing \udc80 here", KNOWN) == "nothing \udc80 here"


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.sampled_from(
                [
                    b'"text":"',
                    b"sk-ant-",
                    b"\\",
                    b'"',
                    b"\n",
                    b"-----BEGIN PRIVATE KEY-----\n",
                    SECRET[:20].encode(),
                    SECRET.encode(),
                ]
            ),
        ),
        max_size=12,
    )
)
def test_no_bytes_make_it_raise_or_lose_a_line(parts: list[bytes]) -> None:
    data = b"".join(parts)
    redactor = Redactor(KNOWN, ("text", "delta"))
    lines = [line + b"\n" for line in data.split(b"\n")]
    output = b"".join(redactor.feed(line) for line in lines) + redactor.flush()
    assert SECRET.encode() not in output
    assert output.count(b"\n") == len(lines)
    text = data.decode("utf-8", "surrogateescape")
    # Bytes may have the shape of another secret by chance: then that is masked, and rightly.
    if redact_text(text, KNOWN) == text and b"sk-" not in data and b"BEGIN" not in data:
        assert output == b"".join(lines)


ENVIRONMENT = {
    "ANTHROPIC_API_KEY": "sk-ant-api03-abcdefgh",
    "AZURE_OPENAI_API_KEY": "0123456789abcdef0123456789abcdef",
    "DB_PASSWORD": "hunter2hunter2",
    "APP_SECRET": "3b241101-e2bb-4255-8caf-4136c566a962",
    "GITLAB_PAT": "abcdefg1234",
    "SESSION_COOKIE": "s%3Aabc.def/123",
    "AWS_SECRET_ACCESS_KEY": "/wJalrXUtnFEMI/K7MDENG/bPxRfiCYZZZZZZKE1",
    "SENTRY_DSN": "https://0123456789abcdef0123456789abcdef@errors.example/1",
    "DATABASE_URL": "postgres://app:s3cret-pass@db/app",
    "HTTPS_PROXY": "http://me:p4ssw0rd%21@proxy:3128",
    "npm_config__authToken": "abcd-1234-efgh",
    "LONG_PASSWORD": "correct-horse-battery-staple",
    "SERVICE_CREDENTIALS": '{"type": "service_account", "private_key_id": "abc"}',
}
IN_URLS = {
    "SENTRY_DSN": "0123456789abcdef0123456789abcdef",
    "DATABASE_URL": "s3cret-pass",
    "HTTPS_PROXY": "p4ssw0rd%21",
}
SETTINGS = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/home/me",
    "SSH_AUTH_SOCK": "/tmp/ssh-XXXX/agent.1",
    "GPG_KEY": "A035C8C19219BA821ECEA86B64E628F8D684696D",
    "MAX_OUTPUT_TOKENS": "320000000",
    "TOKENIZERS_PARALLELISM": "false",
    "GOOGLE_APPLICATION_CREDENTIALS": "/home/me/key.json",
    "AUTH_TYPE": "oauth-personal",
    "AUTH_URL": "https://login.example/token",
    "SSO_AUTH": "disabled-here",
    "SECRET": "short",
    "API_KEY": "changeme",
    "DB_URL": "postgres://app:postgres@db/app",
    "KEYBOARD_LAYOUT": "us-intl-1234",
    "MONKEY": "a1b2c3d4e5f6",
    "NEXT_PUBLIC_API_KEY": "pk-1234567890",
    "AWS_ACCESS_KEY_ID": "something-1234",
    "GIT_AUTHOR_EMAIL": "me123456@example.com",
    "EMPTY_TOKEN": "",
    "TEMPLATE_TOKEN": "${REAL_TOKEN}",
}


def test_credentials_of_an_environment_are_distinguished_from_its_settings() -> None:
    assert secrets_in(ENVIRONMENT | SETTINGS) == ENVIRONMENT | IN_URLS
