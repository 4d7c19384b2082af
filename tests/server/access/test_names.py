"""Under which names a server is reached: through ports that were forwarded, and behind a proxy with TLS."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from harness.errors import UsageError
from harness.server.access.host_names import names_of
from live_server import LiveServer


@pytest.mark.parametrize(
    ("remote", "public_url", "host", "origin", "status"),
    [
        ("harness.example.com", "", "harness.example.com", "", 200),
        ("harness.example.com", "", "harness.example.com:443", "https://harness.example.com", 200),
        ("harness.example.com", "", "harness.example.com:80", "http://harness.example.com", 200),
        ("harness.example.com", "", "harness.example.com:{port}", "", 200),
        ("harness.example.com", "", "Harness.Example.com", "", 200),
        ("Harness.example.com", "", "harness.example.com", "", 200),
        ("harness.example.com", "", "harness.example.com:8080", "", 421),
        ("harness.example.com", "", "harness.example.com.", "", 421),
        ("harness.example.com", "", "harness.example.com.evil.example", "", 421),
        ("harness.example.com", "", "evil-harness.example.com", "", 421),
        ("harness.example.com", "", "harness.example.com", "https://evil.example", 403),
        ("box:8080", "", "box:8080", "http://box:8080", 200),
        ("box:8080", "", "box:{port}", "", 200),
        ("box:8080", "", "box", "", 421),
        ("box:443", "", "box", "https://box", 200),
        ("127.0.0.1:9000", "", "127.0.0.1:9000", "http://127.0.0.1:9000", 200),
        ("127.0.0.1:9000", "", "127.0.0.1:9001", "", 421),
        ("", "https://harness.example.com", "harness.example.com", "https://harness.example.com", 200),
        ("", "https://harness.example.com", "harness.example.com:443", "", 200),
        ("", "https://harness.example.com/", "127.0.0.1:{port}", "https://harness.example.com", 200),
        ("", "https://harness.example.com", "harness.example.com", "http://harness.example.com", 403),
        (
            "",
            "https://harness.example.com:8443",
            "harness.example.com:8443",
            "https://harness.example.com:8443",
            200,
        ),
        ("", "https://harness.example.com:8443", "harness.example.com", "", 421),
        ("", "https://example.com/harness/", "example.com", "https://example.com", 200),
        ("", "https://example.com/harness", "example.com", "https://example.com.evil.example", 403),
        ("", "", "harness.example.com", "", 421),
    ],
)
def test_a_server_answers_under_the_names_that_it_was_given_and_no_others(
    tmp_path: Path, remote: str, public_url: str, host: str, origin: str, status: int
) -> None:
    live = LiveServer(tmp_path)
    live.remote, live.public_url = [remote] if remote else [], public_url
    with live.serving_now(), live.http() as client:
        headers = {"Host": host.format(port=live.port), **({"Origin": origin} if origin else {})}
        assert client.get("/api/server", headers=headers).status_code == status
        answer = client.post("/api/links", json={}, headers=headers)
        assert answer.status_code == (201 if status == 200 else status)
        if status == 200:
            assert answer.json()["link"].startswith(f"{(public_url or live.url).rstrip('/')}/login?token=")


@pytest.mark.parametrize(
    ("remote", "public_url"),
    [
        ("http://box", ""),
        ("box/", ""),
        ("box:port", ""),
        ("box:99999", ""),
        ("", "harness.example.com"),
        ("", "ftp://harness.example.com"),
        ("", "https://harness.example.com/a/../b"),
        ("", "https://harness.example.com//below"),
        ("", "https://harness.example.com/be%20low"),
        ("", "https://user:secret@harness.example.com"),
        ("", "https://harness.example.com:99999"),
        ("", "https://"),
        ("*", ""),
    ],
)
def test_what_is_no_name_is_refused_before_anything_is_opened(remote: str, public_url: str) -> None:
    with pytest.raises(UsageError):
        names_of(4780, [remote] if remote else [], public_url)


def test_programs_of_this_machine_find_a_server_that_is_published_elsewhere(tmp_path: Path) -> None:
    names = names_of(4780, [], "https://harness.example.com")
    assert (names.url, names.local_url) == ("https://harness.example.com", "http://127.0.0.1:4780")
    assert httpx.URL(names.local_url).host == "127.0.0.1"


@pytest.mark.parametrize("path", ["", "/tools/harness"])
def test_a_page_below_a_path_works_whether_the_proxy_takes_it_off_or_not(tmp_path: Path, path: str) -> None:
    live = LiveServer(tmp_path)
    live.public_url = "https://example.com/tools/harness"
    headers = {"Host": "example.com"}
    with live.serving_now(), live.http() as client:
        page = client.get(f"{path}/", headers=headers)
        assert page.status_code == 200
        asset = re.search(r'src="\./(assets/[^"]+)"', page.text)
        assert asset is not None, "the page names its files from where it is"
        assert client.get(f"{path}/{asset[1]}", headers=headers).status_code == 200
        assert client.get(f"{path}/api/server", headers=headers).status_code == 200
        link = client.post(f"{path}/api/links", json={}, headers=headers).json()["link"]
        assert link.startswith("https://example.com/tools/harness/login?token=")
        code = link.partition("token=")[2]
        entered = client.post(
            f"{path}/api/login", json={"code": code}, headers={**headers, "Origin": "https://example.com"}
        )
        assert entered.status_code == 200


def test_a_path_lets_nobody_past_the_guard(tmp_path: Path) -> None:
    live = LiveServer(tmp_path)
    live.public_url = "https://example.com/harness"
    with live.serving_now(), httpx.Client(base_url=live.url) as stranger:
        for path in (
            "/harness/api/server",
            "/harness/harness/api/server",
            "/harness//api/server",
            "/harness/ws",
        ):
            assert stranger.get(path).status_code in (401, 404), path
