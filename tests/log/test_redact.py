"""Credentials never reach disk or a reader; all else stays byte for byte."""

from __future__ import annotations

import base64
import json
import random
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.log.redact import Redactor, redact_text, secrets_in

LETTERS = string.ascii_letters + string.digits
KEY = "ANTHROPIC_API_KEY"


def made_up(length: int, alphabet: str = LETTERS, seed: int = 1) -> str:
    return "".join(random.Random(f"{seed}{length}{alphabet}").choices(alphabet, k=length))


PEM_BODY = "\n".join(made_up(64, LETTERS + "+/", seed) for seed in range(8)) + "\n" + made_up(30) + "=="
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{PEM_BODY}\n-----END RSA PRIVATE KEY-----"
JWT = "eyJ" + made_up(33) + ".eyJ" + made_up(80, LETTERS + "-_") + "." + made_up(43, LETTERS + "-_")

# name of the shape, what is written, and the part of it that must not be seen
SHAPES = [
    ("anthropic-key", token := "sk-ant-api03-" + made_up(95, LETTERS + "-_"), token),
    ("openai-key", token := "sk-proj-" + made_up(120, LETTERS + "-_"), token),
    ("openai-key", token := "sk-" + made_up(48), token),
    ("openrouter-key", token := "sk-or-v1-" + made_up(64, "0123456789abcdef"), token),
    *[("github-token", token := f"gh{kind}_" + made_up(36), token) for kind in "pousr"],
    ("github-token", token := "github_pat_" + made_up(22) + "_" + made_up(59), token),
    ("gitlab-token", token := "glpat-" + made_up(20, LETTERS + "-_"), token),
    ("slack-token", token := "xoxb-" + made_up(12, "123456789") + "-" + made_up(24), token),
    ("aws-key-id", token := "AKIA" + made_up(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"), token),
    ("aws-key-id", token := "ASIA" + made_up(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"), token),
    ("google-key", token := "AIza" + made_up(35, LETTERS + "-_"), token),
    ("npm-token", token := "npm_" + made_up(36), token),
    ("pypi-token", token := "pypi-AgE" + made_up(150, LETTERS + "-_"), token),
    ("stripe-key", token := "sk_live_" + made_up(24), token),
    ("stripe-key", token := "rk_live_" + made_up(24), token),
    ("huggingface-token", token := "hf_" + made_up(34), token),
    ("xai-key", token := "xai-" + made_up(80), token),
    ("groq-key", token := "gsk_" + made_up(52), token),
    ("together-key", token := "tgp_v1_" + made_up(43, LETTERS + "-_"), token),
    ("jwt", JWT, JWT),
    ("private-key", PEM, PEM_BODY),
    ("authorization", "Authorization: Bearer " + (token := made_up(40, LETTERS + "._-")), token),
    (
        "authorization",
        "authorization: Basic " + (token := base64.b64encode(made_up(30).encode()).decode()),
        token,
    ),
    ("url-password", f"postgres://admin:{(token := 'x7' + made_up(14))}@db.internal:5432/app", token),
]
SHAPE_IDS = [f"{name}-{index}" for index, (name, _, _) in enumerate(SHAPES)]
# A delta stream is about tokens: what everybody knows of them, and what nobody may see.
STREAMED = [
    *[
        (text, text)
        for name, text, _ in SHAPES
        if name not in {"private-key", "authorization", "url-password"}
    ],
    *[(text, secret) for name, text, secret in SHAPES if name in {"authorization", "url-password"}],
]
KNOWN = {
    KEY: "sk-ant-api03-" + made_up(60, LETTERS + "-_", 2),
    "DATABASE_PASSWORD": "correct horse " + made_up(9),
    "SIGNING_SECRET": made_up(40, "0123456789abcdef", 3),
    "DEPLOY_TOKEN": made_up(24, LETTERS, 4),
    "QUOTED_SECRET": 'a"b\\c/d+é' + made_up(12, LETTERS, 5),
}


def redacted(data: bytes, secrets: dict[str, str] | None = None, keys: tuple[str, ...] = ()) -> bytes:
    redactor = Redactor(secrets or {}, keys)
    return redactor.feed(data) + redactor.flush()


def json_line(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def delta(text: str, number: int = 0) -> bytes:
    inner = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    return json_line({"type": "stream_event", "event": inner, "uuid": f"{number:08x}-aaaa-bbbb"})


def delta_text(output: bytes) -> str:
    lines = [json.loads(line) for line in output.split(b"\n") if line]
    return "".join(line["event"]["delta"]["text"] for line in lines if line.get("type") == "stream_event")


def assert_unseen(secret: str, output: bytes, window: int = 12) -> None:
    text = output.decode("utf-8", "replace")
    for start in range(len(secret) - window + 1):
        assert secret[start : start + window] not in text, f"{secret[start : start + window]} of {secret}"


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
    ]
    for spelling in spellings:
        output = redacted(b"<" + spelling + b">\n", KNOWN)
        assert b"[REDACTED:QUOTED_SECRET]" in output
        assert_unseen(secret[-12:], output)


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


def test_a_mark_is_plain_ascii_whatever_the_variable_is_called() -> None:
    assert redacted(b"x hunter2hunter2\n", {'a"é\n]': "hunter2hunter2"}) == b"x [REDACTED:a____]\n"


def test_text_of_our_own_is_masked_too() -> None:
    prompt = f"use {SECRET} \ud800 naïve"
    assert redact_text(prompt, KNOWN) == f"use [REDACTED:{KEY}] \ud800 naïve"
    assert redact_text("nothing \udc80 here", KNOWN) == "nothing \udc80 here"


@pytest.mark.parametrize("secret", [*[text for text, _ in STREAMED], *KNOWN.values()])
@pytest.mark.parametrize("one_block", [True, False])
def test_a_secret_cut_in_two_anywhere_never_shows(secret: str, one_block: bool) -> None:
    hidden = next((hidden for text, hidden in STREAMED if text == secret), secret)
    for cut in range(1, len(secret)):
        lines = [
            delta("the key: "),
            delta(secret[:cut], 1),
            b'{"other":1}\n',
            delta(secret[cut:], 2),
            delta(" done"),
        ]
        redactor = Redactor(KNOWN, ("text",))
        blocks = [b"".join(lines)] if one_block else lines
        output = b"".join(redactor.feed(block) for block in blocks)
        assert not redactor.held
        check_streamed(output, secret, hidden)
        assert output.split(b"\n")[2] == b'{"other":1}'


def check_streamed(output: bytes, secret: str, hidden: str) -> None:
    text = delta_text(output)
    assert text.startswith("the key: ")
    assert text.endswith(" done")
    assert text.count("[REDACTED:") == 1
    shown = text.removeprefix("the key: ").partition("[REDACTED:")[0]
    assert secret.startswith(shown)
    # A prefix that everybody knows may have gone out before there was a secret behind it.
    leaked = max(0, len(shown) - secret.index(hidden))
    assert leaked < len("github_pat_") + 4
    assert_unseen(hidden[leaked:], output)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_secret_cut_in_three_with_anything_between_never_shows(data: st.DataObject) -> None:
    secret, hidden = data.draw(st.sampled_from([*STREAMED, *[(value, value) for value in KNOWN.values()]]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(secret)), min_size=2, max_size=2)))
    pieces = ["the key: " + secret[: cuts[0]], secret[cuts[0] : cuts[1]], secret[cuts[1] :] + " done"]
    noise = st.lists(st.sampled_from([b"plain\n", b'{"uuid":"6b0d549b","n":1}\n', delta("")]), max_size=2)
    lines: list[bytes] = []
    for number, piece in enumerate(pieces):
        lines += [*data.draw(noise), delta(piece, number)]
    redactor = Redactor(KNOWN, ("text", "delta"))
    output = b""
    while lines:
        count = data.draw(st.integers(1, len(lines)))
        output += redactor.feed(b"".join(lines[:count]))
        before, lines = lines[:count], lines[count:]
        assert redactor.held or output.endswith(before[-1][-4:])
    assert not redactor.held
    others = [line for line in output.split(b"\n") if b"text_delta" not in line]
    assert all(line in {b"", b"plain", b'{"uuid":"6b0d549b","n":1}'} for line in others)
    check_streamed(b"\n".join(line for line in output.split(b"\n") if b"text_delta" in line), secret, hidden)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_secret_in_many_pieces_with_flushes_shows_at_most_its_first_characters(data: st.DataObject) -> None:
    secret = data.draw(st.sampled_from(list(KNOWN.values())))
    redactor = Redactor(KNOWN, ("text",))
    output = b""
    rest = "the key: " + secret + " done"
    while rest:
        size = data.draw(st.integers(1, 9))
        output += redactor.feed(delta(rest[:size]))
        rest = rest[size:]
        if data.draw(st.booleans()):
            output += redactor.flush()
            assert not redactor.held
    output += redactor.flush()
    text = delta_text(output)
    public = len("sk-ant-") if secret.startswith("sk-ant-") else 0
    assert text.startswith("the key: ")
    assert text.endswith(" done")
    assert text.count("[REDACTED:") == 1
    shown = text.removeprefix("the key: ").removesuffix(" done").partition("[REDACTED:")[0]
    assert secret.startswith(shown)
    assert len(shown) < public + 8
    assert text.endswith("] done")


def test_a_line_waits_only_for_a_significant_beginning_and_is_released_as_it_was() -> None:
    value = KNOWN["DEPLOY_TOKEN"]
    redactor = Redactor(KNOWN, ("text",))
    for harmless in ("no secret", value[:3], "sk-ant-abc", "ghp_", "https://host:8080"):
        line = delta(harmless)
        assert redactor.feed(line) is line
        assert not redactor.held
    suspicious, other, decided = delta(f"x {value[:6]}"), b'{"text":1}\n', delta(" no")
    assert redactor.feed(suspicious) == b""
    assert redactor.feed(other) == b""
    assert redactor.held
    assert redactor.feed(decided) == suspicious + other + decided
    assert not redactor.held


def test_a_flush_masks_a_telling_tail_and_releases_a_short_one() -> None:
    value = KNOWN["DEPLOY_TOKEN"]
    redactor = Redactor(KNOWN, ("text",))
    assert redactor.feed(delta(value[:7])) == b""
    assert redactor.flush() == delta(value[:7])
    assert delta_text(redactor.feed(delta(value[7:] + "."))) == "[REDACTED:DEPLOY_TOKEN]."
    assert redactor.feed(delta(value[:9])) == b""
    assert delta_text(redactor.flush()) == "[REDACTED:DEPLOY_TOKEN]"
    assert delta_text(redactor.feed(delta(value[9:] + "."))) == "."


def test_lines_without_a_delta_key_never_wait() -> None:
    redactor = Redactor(KNOWN, ("text",))
    line = json_line({"result": KNOWN["DEPLOY_TOKEN"][:9]})
    assert redactor.feed(line) is line


def test_the_whole_message_after_its_pieces_is_no_continuation_of_them() -> None:
    redactor = Redactor(KNOWN, ("text",))
    redactor.feed(delta("sk-ant-" + made_up(40)))
    message = json_line({"type": "assistant", "message": {"content": [{"type": "text", "text": "Thekey"}]}})
    assert redactor.feed(message) == message
    assert delta_text(redactor.feed(delta("rest of it"))) == " of it"


def test_snapshots_of_a_growing_text_do_not_give_a_known_value_away() -> None:
    value = KNOWN["DEPLOY_TOKEN"]
    redactor = Redactor(KNOWN, ("text",))
    snapshots = [delta("it is " + value[:length]) for length in range(1, len(value) + 1)]
    output = b"".join(redactor.feed(line) for line in snapshots) + redactor.flush()
    assert_unseen(value, output)
    assert_unseen(value, redacted(b"".join(snapshots), KNOWN, ("text",)))


def test_a_private_key_in_many_pieces_is_masked() -> None:
    redactor = Redactor(KNOWN, ("text",))
    text = f"here:\n{PEM}\nthat was it"
    output = b"".join(redactor.feed(delta(text[start : start + 7])) for start in range(0, len(text), 7))
    shown, _, rest = delta_text(output).partition("[REDACTED:private-key]")
    assert f"here:\n{PEM}".startswith(shown)
    assert rest == "\nthat was it"
    for line in PEM_BODY.split("\n"):
        assert_unseen(line, output)


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
    redact_text(data.decode("utf-8", "surrogateescape"), KNOWN)
    if b"sk-" not in data and b"BEGIN" not in data:
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


def test_credentials_of_an_environment_are_told_from_its_settings() -> None:
    assert secrets_in(ENVIRONMENT | SETTINGS) == ENVIRONMENT | IN_URLS
