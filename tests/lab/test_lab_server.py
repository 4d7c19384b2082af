"""The server as a server: connections, bodies, routes, and a record of everything that came."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.gateway.bodies import BodyReader
from harness.gateway.recorded import stored_of
from harness.gateway.tape import read_tape
from harness.lab import LabServer, RequestEntry, ScriptRun, parse_script
from harness.log.raw import RawRequest, RawResponse
from lab_answers import READERS
from lab_client import ROUTES, Client, Serve, ask, question

HELLO = {"turns": [{"text": "Hello."}]}
BODY = json.dumps(question("chat", "Go.", stream=False)).encode()


def test_a_connection_serves_many_requests_in_any_form(serve: Serve) -> None:
    with Client(serve(HELLO).port) as client:
        for _ in range(2):
            for stream in (True, False):
                reply = client.ask("POST", ROUTES["chat"], question("chat", "Go.", stream=stream))
                assert READERS["chat", stream](reply).text == "Hello."
        assert client.ask("HEAD", "/").status == 200
        assert client.ask("GET", "/nothing/here").status == 404
        assert client.ask("GET", "/v1/models").status == 200


def test_a_base_url_may_have_any_prefix(serve: Serve) -> None:
    with Client(serve(HELLO).port) as client:
        for path in (
            "/chat/completions",
            "/some/prefix/v1/chat/completions/",
            "/v9/chat/completions?beta=true",
        ):
            assert client.ask("POST", path, raw=BODY).status == 200


@pytest.mark.parametrize(
    ("encoding", "encode"), [("identity", bytes), ("gzip", gzip.compress), ("deflate", zlib.compress)]
)
def test_bodies_may_be_chunked_and_compressed(serve: Serve, encoding: str, encode: type[bytes]) -> None:
    data = encode(BODY)
    chunks = b"".join(b"%x;note=1\r\n%b\r\n" % (len(part), part) for part in (data[:7], data[7:]))
    headers = {"transfer-encoding": "chunked", "content-encoding": encoding}
    with Client(serve(HELLO).port) as client:
        client.send("POST", ROUTES["chat"], headers, chunks + b"0\r\nTrailer: x\r\n\r\n")
        assert READERS["chat", False](client.receive()).text == "Hello."
        assert client.ask("POST", ROUTES["chat"], raw=BODY).status == 200


@pytest.mark.parametrize(
    ("headers", "data", "noted"),
    [
        ({"content-encoding": "br", "content-length": "2"}, b"{}", "br is not understood"),
        ({"content-encoding": "gzip", "content-length": "2"}, b"{}", "not gzip"),
        ({"content-length": "many"}, b"", "no number"),
        ({"transfer-encoding": "chunked"}, b"zz\r\n", "no number"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused_and_recorded(
    serve: Serve, headers: dict[str, str], data: bytes, noted: str
) -> None:
    server = serve(HELLO)
    with Client(server.port) as client:
        client.send("POST", ROUTES["chat"], headers, data)
        reply = client.receive()
        assert reply.status == 400
        assert noted in reply.data["error"]["message"]
        assert client.is_closed()
    assert server.requests[0].outcome == "unreadable"


def test_there_is_a_page_to_fetch(serve: Serve) -> None:
    with Client(serve(HELLO).port) as client:
        page = client.ask("GET", "/lab/page")
        assert page.headers["content-type"].startswith("text/html")
        assert b"Hello from the lab." in page.body


def test_every_request_is_recorded_without_its_secrets(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    noted: list[RequestEntry] = []
    server = serve(HELLO, record_path=str(path), on_entry=noted.append)
    secrets = dict.fromkeys(("Authorization", "X-Api-Key", "x-goog-api-key", "api-key", "Cookie"), "SECRET")
    with Client(server.port) as client:
        client.ask("POST", ROUTES["chat"] + "?key=SECRET&alt=1", raw=BODY, headers=secrets)
        client.ask("DELETE", "/v1/unknown", {"a": 1})
        client.ask("POST", ROUTES["anthropic"], raw=b"not json")
    first, second, third = server.requests
    assert noted == server.requests
    assert "SECRET" not in path.read_text()
    assert first.path == ROUTES["chat"] + "?key=***&alt=1"
    assert first.headers["authorization"] == "***"
    assert first.body == json.loads(BODY)
    assert (first.wire, first.lane, first.turn, first.model, first.status) == (
        "chat",
        "main",
        0,
        "lab-model",
        200,
    )
    assert (second.method, second.outcome, second.status, second.wire) == ("DELETE", "not found", 404, "")
    assert third.body == "not json"
    tape = read_tape(str(path)).entries
    assert [entry.id for entry in tape if isinstance(entry, RawRequest)] == [1, 2, 3]
    assert [entry.status for entry in tape if isinstance(entry, RawResponse)] == [200, 404, 400]
    bodies = BodyReader()
    requests = [entry for entry in tape if isinstance(entry, RawRequest)]
    assert [bodies.read(one.id, stored_of(one)) for one in requests] == [BODY, b'{"a": 1}', b"not json"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_request_is_on_record_before_it_is_answered(serve: Serve) -> None:
    server = serve(HELLO)
    for number in range(1, 21):
        ask(server.port, "chat")
        assert len(server.requests) == number


def test_a_port_that_is_taken_is_a_clear_mistake(serve: Serve) -> None:
    port = serve(HELLO).port
    with pytest.raises(UsageError, match=f"port {port} is in use") as caught:
        LabServer(ScriptRun(parse_script(HELLO)), port=port)
    assert "--port" in caught.value.hint
    with pytest.raises(UsageError, match="cannot listen on port 99999"):
        LabServer(ScriptRun(parse_script(HELLO)), port=99999)


def test_a_record_that_cannot_be_written_is_a_clear_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot record requests"):
        LabServer(ScriptRun(parse_script(HELLO)), record_path=str(tmp_path / "none" / "file"))


def test_a_closed_server_gives_its_port_back_and_may_be_closed_again(serve: Serve) -> None:
    server = serve(HELLO)
    with Client(server.port) as client:
        client.ask("HEAD", "/")
        server.close()
        server.close()
        assert client.is_closed()
    assert serve(HELLO, port=server.port).port == server.port


def test_a_client_that_leaves_in_the_middle_harms_no_other(serve: Serve) -> None:
    server = serve({"turns": [[{"fault": "slow", "pause_s": 0.01}, {"fault": "huge", "bytes": 3_000_000}]]})
    for _ in range(3):
        with Client(server.port) as client:
            body = json.dumps(question("chat", "Go.", stream=True)).encode()
            client.send("POST", ROUTES["chat"], {"content-length": str(len(body))}, body)
            client._until(b"\r\n\r\n")
    with Client(server.port) as client:
        client.connection.sendall(b"NONSENSE\r\n\r\n")
        assert b"400" in client.connection.recv(4096)
    assert ask(server.port, "chat", stream=False).status == 200


def test_without_a_script_it_says_so(serve: Serve) -> None:
    with LabServer() as server:
        reply = ask(server.port, "gemini")
    assert (reply.status, reply.data["error"]["status"]) == (503, "UNAVAILABLE")


def test_a_record_that_cannot_be_written_any_more_does_not_stop_the_answers(serve: Serve) -> None:
    server = serve(HELLO, record_path="/dev/full")
    assert ask(server.port, "chat").status == 200
    assert ask(server.port, "chat").status == 200
    assert server.tape_failure == "No space left on device"
    assert [entry.outcome for entry in server.requests] == ["answered", "answered"]
