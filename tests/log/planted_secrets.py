"""Made-up credentials of every kind, the lines that carry them, and what must not be seen of them."""

from __future__ import annotations

import base64
import json
import random
import string

from harness.log.redact.redactor import Redactor

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
# A delta stream is about tokens: public words, and secrets.
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
