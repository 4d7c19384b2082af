"""Each service that a harness may be given, with the real thing behind it."""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from harness.contracts.model import Ask, UserTurn
from harness.contracts.tool import ToolContext, ToolFailure
from harness.errors import LogLocked, UsageError
from harness.events import Message, TextDelta
from harness.lab import LabServer, ScriptRun, parse_script
from harness.session.adapters.browser import PROGRAMS, ChromiumBrowser
from harness.session.adapters.gateway import ChatGateway
from harness.session.adapters.pubsub import LocalPubSub
from harness.session.adapters.traces import TraceFile
from harness.session.catalogue import ModelCatalogue
from harness.session.locking import FileThreadLock
from harness.session.services import AvailableModel, ModelAuthStatus
from lacking import lacking
from surroundings import TOOLS


def test_what_is_published_reaches_the_subscribers_of_its_topic() -> None:
    pubsub, received = LocalPubSub(), []

    def fail(_message: bytes) -> None:
        raise RuntimeError("deaf")

    pubsub.subscribe("a", fail)
    stop = pubsub.subscribe("a", received.append)
    pubsub.publish("a", b"1")
    pubsub.publish("b", b"2")
    stop()
    pubsub.publish("a", b"3")
    assert received == [b"1"]


def test_spans_are_lines_that_a_collector_can_read(tmp_path: Path) -> None:
    file = TraceFile(str(tmp_path / "deep" / "traces.jsonl"), service_name="mine")
    span = file.start_span("invoke_agent native", attributes={"gen_ai.agent.name": "native"})
    child = file.start_span("chat", attributes={}, context={"traceId": span.trace_id, "spanId": span.span_id})
    child.end(attributes={"n": 3, "ok": True, "ratio": 0.5, "list": ["a"]})
    span.end(attributes={}, error="it broke")

    lines = [
        json.loads(line) for line in (tmp_path / "deep" / "traces.jsonl").read_bytes().split(b"\n") if line
    ]
    inner, outer = (line["resourceSpans"][0]["scopeSpans"][0]["spans"][0] for line in lines)
    assert inner["parentSpanId"] == outer["spanId"]
    assert inner["traceId"] == outer["traceId"]
    assert int(inner["startTimeUnixNano"]) <= int(inner["endTimeUnixNano"])
    assert outer["status"] == {"code": 2, "message": "it broke"}
    assert {"key": "n", "value": {"intValue": "3"}} in inner["attributes"]


def test_a_place_that_cannot_be_written_is_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    TraceFile(str(tmp_path / "file" / "traces.jsonl")).start_span("x", attributes={}).end(attributes={})


def test_a_gateway_reaches_a_real_server() -> None:
    async def run(url: str) -> None:
        gateway = ChatGateway(id="house", url=f"{url}/v1", model_names=["big", "small"])
        catalogue = ModelCatalogue(gateways=[gateway], environ={})
        listed = {model.id: model for model in await catalogue.list_available()}
        assert listed["house/small"].has_api_key
        events = [event async for event in catalogue.resolve("house/big").answer(Ask(turns=[UserTurn("hi")]))]
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "from the house"
        assert any(isinstance(event, Message) for event in events)

    with LabServer(ScriptRun(parse_script({"turns": [{"text": "from the house"}]}))) as server:
        asyncio.run(run(server.url))
        assert server.requests[0].body["model"] == "big"


def test_a_gateway_without_its_key_is_left_out() -> None:
    gateway = ChatGateway(id="g", url="http://localhost", model_names=["m"], key_variable="G_KEY", environ={})
    assert ModelCatalogue(gateways=[gateway], environ={}).gateways == ()


def test_a_catalogue_merges_what_everybody_knows() -> None:
    async def run() -> None:
        calls = []

        def custom() -> list[object]:
            calls.append(1)
            return [
                {"id": "mine/a", "provider": "mine", "modelName": "a", "hasApiKey": True},
                {"id": "mine/b", "provider": "mine"},
                AvailableModel(id="anthropic/x", provider="anthropic", model_name="x", has_api_key=False),
            ]

        catalogue = ModelCatalogue(
            custom=custom,
            use_counts=lambda: {"mine/a": 7},
            auth_checker={"anthropic": True}.get,
            environ={},
        )
        models = {model.id: model for model in await catalogue.list_available()}
        assert models["mine/a"].use_count == 7
        assert "mine/b" not in models
        assert models["anthropic/x"].has_api_key
        await catalogue.list_available()
        assert len(calls) == 1
        catalogue.invalidate()
        await catalogue.list_available()
        assert len(calls) == 2
        assert await catalogue.auth_status("mine/a") == ModelAuthStatus(has_auth=True)
        assert await catalogue.auth_status("nobody/knows") == ModelAuthStatus(has_auth=True)

    asyncio.run(run())


def test_missing_credentials_name_the_variable() -> None:
    async def run() -> None:
        status = await ModelCatalogue(environ={}).auth_status("anthropic/claude-sonnet-4-6")
        assert status == ModelAuthStatus(has_auth=False, api_key_env_var="ANTHROPIC_API_KEY")

    asyncio.run(run())


def test_a_catalogue_that_fails_costs_only_its_own_models(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async def broken() -> list[object]:
            raise RuntimeError("no network")

        assert await ModelCatalogue(custom=broken, environ={}).list_available()

    asyncio.run(run())
    assert "could not be read" in caplog.text


def test_a_thread_lock_names_its_holder_and_is_free_when_that_dies(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "from harness.session.locking import FileThreadLock\n"
        f"FileThreadLock({str(tmp_path)!r}).acquire('thread-1')\n"
        "print('held', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        lock = FileThreadLock(str(tmp_path))
        with pytest.raises(LogLocked, match=str(holder.pid)):
            lock.acquire("thread-1")
        lock.acquire("thread-2")
        holder.kill()
        holder.wait()
        lock.acquire("thread-1")
        lock.release("thread-1")
        lock.release("never held")


def test_a_lock_has_no_name_that_leads_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(LogLocked, match="no lock can be named"):
        FileThreadLock(str(tmp_path)).acquire("../outside")


_BROWSER = os.path.realpath(next((path for name in PROGRAMS if (path := shutil.which(name))), TOOLS))


@pytest.mark.skipif(
    _BROWSER.startswith(os.path.realpath(TOOLS)), reason=lacking("Chromium that prints a page")
)
def test_a_browser_reads_what_a_page_becomes_and_takes_its_picture(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p id=p>before</p><script>p.textContent='af' + 'ter'</script>")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(tmp_path))  # type: ignore[arg-type]

        def log_message(self, *_args: object) -> None:
            """Be quiet."""

    async def run(url: str) -> None:
        read, picture = ChromiumBrowser().tools()
        context = ToolContext(cwd=str(tmp_path))
        assert "after" in (await read.run({"url": url}, context)).text
        shown = await picture.run({"url": url}, context)
        assert shown.attachments[0].media_type == "image/png"
        assert len(shown.attachments[0].data) > 1000
        with pytest.raises(ToolFailure, match="only http"):
            await read.run({"url": "file:///etc/passwd"}, context)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        asyncio.run(run(f"http://127.0.0.1:{server.server_port}/"))
        server.shutdown()


def test_without_a_browser_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "PATH", "")
    with pytest.raises(UsageError, match="no browser was found"):
        ChromiumBrowser()
