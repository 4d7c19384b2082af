"""Keys that tools are not given cannot be fetched from Harness either, by an ordinary user's commands or root's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from harness.log.redact.withheld import withheld_from_tools
from lacking import lacking
from other_user import NOBODY, interpreter, libraries, process_user
from source_tree import ROOT

KEY = "sk-ant-" + "a1B2c3D4" * 4
LOOK = """
n=sk-ant-; n=$n"a1B2c3D4a1B2"
grep -la "$n" /proc/[0-9]*/environ 2>/dev/null | tee found
for p in $PPID $(ps -o ppid= -p $PPID 2>/dev/null); do
  "$PY" -I - $p "$n" >> found 2>/dev/null <<'END'
import re, sys
pid, needle = sys.argv[1], sys.argv[2].encode()
with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
    for line in maps:
        first, last = (int(part, 16) for part in line.split()[0].split("-"))
        try:
            memory.seek(first)
            if needle in memory.read(min(last - first, 1 << 26)):
                print("memory of", pid)
        except (OSError, ValueError, OverflowError):
            pass
END
done
echo looked >> looked
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="harness-own-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.mark.needs_linux_calls("there is no /proc elsewhere")
@pytest.mark.parametrize("is_root", [False, True])
def test_no_key_can_be_read_from_harness(folder: Path, is_root: bool) -> None:
    if is_root and os.geteuid() != 0:
        pytest.skip(lacking("root"))
    uid = 0 if is_root else (os.geteuid() or NOBODY)
    if not (python := interpreter(uid)):
        pytest.skip(lacking("Python for nobody"))
    look = LOOK if not is_root else LOOK.partition("for p in")[0] + "echo looked >> looked"
    call = {"type": "tool_call", "name": "bash", "input": {"command": look}}
    script = {"responses": [{"events": [call]}, {"events": [{"type": "text", "content": "Done."}]}]}
    (folder / "script.json").write_bytes(msgspec.json.encode(script))
    os.chown(folder, uid, -1)
    run = ("run", "-a", "native", "-m", "scripted/script.json", "-p", "go", "-f", "text")
    done = subprocess.run(
        [python, "-m", "harness.cli.main", *run],
        **process_user(uid), cwd=folder, capture_output=True, text=True, check=False,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": libraries(uid), "HOME": str(folder), "PY": python, "ANTHROPIC_API_KEY": KEY},
    )  # fmt: skip
    assert (folder / "looked").exists(), done.stderr
    assert (folder / "found").read_text() == ""


WITHHELD = {
    "STRIPE_SK": "whsec-0123456789abcdef",
    "NPM_CONFIG__AUTH": "dXNlcjpwYXNzd29yZA==",
    "SESSION": "s%3Aabcdefgh.ijklmnop",
    "APP_SESSION": "0f3a9bcd8812",
    "AWS_ACCESS_KEY_ID": "some-id-1234",
    "DOCKER_AUTH_CONFIG": '{"auths": {"r.example": {"auth": "dXNlcjpwYXNz"}}}',
    "AZURE_STORAGE_CONNECTION_STRING": "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=abc==",
    "SLACK_WEBHOOK_URL": "https://hooks.example/services/T000/B000/abcdefgh",
    "GCP_SERVICE_ACCOUNT": '{"type": "service_account"}',
    "SMTP_PASS": "hunter2hunter2",
    "MY_OTP": "abc123def",
    "COSIGN_PRIVATE": "abc123-def456",
    "ENCRYPTION_KEY": "0123456789abcdef0123456789abcdef",
    "TLS_PEM": "-----BEGIN CERTIFICATE-----",
    "ANTHROPIC_API_KEY": KEY,
    "UNKNOWN_THING": "ghp_" + "a1B2c3D4" * 5,
    "NOTES": "curl -H 'Authorization: Bearer abcDEF0123456789abcd'",
    "SOME_URL": "postgres://me:s3cr3t-word@db/x",
    "NPM_SK": "secretvalue",
    "AWS_SECRET_ACCESS_KEY_ID": "wordsonly",
    "LOGIN_SESSION": "opensesame",
    "npm_config__auth": "letmein",
    "DB_PW": "12345678",
    "SMS_OTP": "4711",
    "dbpassword": "tiger",
    "MYSESSION": "abc123",
    "THING": "Zm9vYmFyOmJhejQyMTIzNDU2Nzg5",
    "BLOB": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
}
GIVEN = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/home/me",
    "SSH_AUTH_SOCK": "/tmp/ssh-XXXX/agent.1",
    "DESKTOP_SESSION": "ubuntu",
    "XDG_SESSION_ID": "3",
    "XDG_SESSION_TYPE": "wayland",
    "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/user/1000/bus",
    "TERM_SESSION_ID": "w0t0p0:0AB1",
    "GIT_AUTHOR_NAME": "Some Body",
    "AUTH": "disabled",
    "USE_AUTH": "true",
    "AUTH_METHOD": "oidc",
    "CACHE_KEY": "default",
    "GDMSESSION": "plasma",
    "IMAGE": "registry.example/python3.11-slim-bookworm:2024",
    "BUILD_ID": "0f3a9bcd-8812-4e0a-9f6e-1b2c3d4e5f60",
    "TOKENIZERS_PARALLELISM": "false",
    "AUTH_URL": "https://login.example/token",
    "NEXT_PUBLIC_API_KEY": "pk-1234567890",
    "MONKEY": "a1b2c3d4e5f6",
    "KEYBOARD_LAYOUT": "us-intl-1234",
    "DATABASE_HOST": "db.example",
    "COMMIT": "0123456789abcdef0123456789abcdef01234567",
    "GITHUB_SHA": "0123456789abcdef0123456789abcdef01234567",
    "LS_COLORS": "rs=0:di=01;34:ln=01;36",
    "CI_JOB_ID": "12345678",
    "PASSWORD_STORE_DIR": "/home/me/.password-store",
}


def test_what_may_be_a_credential_is_not_given_to_tools() -> None:
    assert withheld_from_tools(WITHHELD | GIVEN) == WITHHELD.keys()


@pytest.mark.needs_linux_calls("only Linux shows the environment in /proc")
def test_a_wiped_variable_is_still_there_for_harness_itself() -> None:
    program = (
        "import os, ctypes\n"
        "environ = open('/proc/self/environ')\n"  # afterwards only root may open it
        "from harness.native.loop.loop_context import environment_for_tools\n"
        "environment_for_tools({}, {}); environment_for_tools({}, {})\n"
        "libc = ctypes.CDLL(None); libc.getenv.restype = ctypes.c_char_p\n"
        "print(os.environ['MY_TOKEN'], libc.getenv(b'MY_TOKEN').decode(), os.environ['PLAIN'])\n"
        "print(environ.read().count('value-0123456789'))\n"
    )
    env = {"MY_TOKEN": "value-0123456789", "PLAIN": "plain", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout == "value-0123456789 value-0123456789 plain\n0\n"
