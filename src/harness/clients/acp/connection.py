"""One client of ACP: its requests, and ours to it. Version 1 of the protocol, or the draft of version 2 if it asks for it.

Rules
1. Every request is answered: by a result, or by an error of the protocol, after which the connection goes on.
2. All clients of a session see it and are asked; the first answer counts, and the questions to the others are withdrawn.
3. A client that is lost loses nothing: what runs goes on, and what is asked stays open, as long as this process lives.
4. `session/prompt` is answered after the last update of its turn (version 1), or at once (version 2).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, ClassVar, Literal, TypeAlias

from harness.clients.acp import options
from harness.clients.acp.host import AcpHost, OpenedSession
from harness.clients.acp.questions import EditorQuestion, question_of
from harness.clients.acp.rpc_connection import Fields, MessageOutput, RpcConnection
from harness.clients.acp.watch import SessionWatch, WatchListener, options_of
from harness.clients.acp.wire import (
    CANCELLED,
    INVALID_PARAMETERS,
    INVALID_REQUEST,
    NO_SESSION,
    UNKNOWN_METHOD,
    RpcError,
    absolute_path,
    prompt_of,
    text_field,
)
from harness.clients.commands import Cancel, Command, Deny, Submit
from harness.errors import AlreadyAnswered, HarnessError, UsageError
from harness.events import Relay
from harness.version import __version__

_MOST_SESSIONS = 64
_LOOKS, _LOOK_S = 100, 0.02
_MOST_TRIES = 3
_NO_ANSWER = "The editor gave no answer that fits the question."
_INFO = {"name": "harness", "title": "Harness", "version": __version__}
_LOGIN = "agents"


class OpenInEditor:
    """A session that this client has opened."""

    def __init__(self, session_id: str, opened: OpenedSession, cwd: str) -> None:
        self.id, self.opened, self.cwd = session_id, opened, cwd
        self.watch: SessionWatch | None = None
        self.is_continued = False
        """Whether prompts go to the conversation that is watched."""
        self.continuing = asyncio.Lock()
        self.stops = 0
        """How often its turn was to be stopped: a prompt that has not begun then does not begin."""
        self.refused: Counter[str] = Counter()
        """How often a question got an answer that was none."""


Method: TypeAlias = "Callable[[AcpConnection, Fields, list[Callable[[], None]]], Awaitable[Fields]]"


class AcpConnection(RpcConnection):
    """Contract: that of `RpcConnection`."""

    PROTOCOL = "ACP"
    MOST_REQUESTS = 256

    def __init__(self, host: AcpHost, output: MessageOutput) -> None:
        super().__init__(output)
        self._host = host
        self._version: Literal[0, 1, 2] = 0
        self._capabilities: Fields = {}
        self._sessions: dict[str, OpenInEditor] = {}
        self._prompted: dict[Any, OpenInEditor] = {}
        """The sessions of prompts that are being answered, by the ids of the requests."""
        self._asked: dict[str, tuple[OpenInEditor, EditorQuestion]] = {}
        """Our requests, by their ids."""
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._stop_listening = host.listen(self._changed)
        host.clients.append(self)

    def close(self) -> None:
        """The client is gone. What it has started goes on."""
        self._stop_listening()
        self._host.clients.remove(self)
        for attached in self._sessions.values():
            if attached.watch is not None:
                attached.watch.close()
        super().close()
        for task in list(self._tasks):
            task.cancel()
        self._sessions.clear()

    # Requests of the client

    async def _result(
        self, request_id: Any, method: str, parameters: Fields, after: list[Callable[[], None]]
    ) -> Fields:
        if method == "initialize":
            return self._initialize(parameters)
        if not self._version:
            raise RpcError(INVALID_REQUEST, "`initialize` comes first")
        handler = self._METHODS.get(method)
        if (
            handler is None
            or (self._version == 2 and method in _ONLY_1)
            or (self._version == 1 and method in _ONLY_2)
        ):
            raise RpcError(UNKNOWN_METHOD, f"there is no method {method[:80]!r}", {"method": method[:80]})
        if method == "session/prompt":
            self._prompted[request_id] = self._session(parameters)
        try:
            return await handler(self, parameters, after)
        finally:
            self._prompted.pop(request_id, None)

    def _initialize(self, parameters: Fields) -> Fields:
        wanted = parameters.get("protocolVersion")
        if not isinstance(wanted, int) or isinstance(wanted, bool):
            raise RpcError(INVALID_PARAMETERS, "protocolVersion must be a number")
        self._version = 2 if wanted >= 2 else 1
        given = parameters.get("clientCapabilities" if self._version == 1 else "capabilities")
        self._capabilities = given if isinstance(given, dict) else {}
        login = {
            "name": "Logins of the agents",
            "description": "Agents use their own logins: `harness doctor` checks them",
        }
        if self._version == 2:
            session: Fields = {"prompt": {"image": {}, "embeddedContext": {}}, "delete": {}}
            methods = [{"type": "agent", "methodId": _LOGIN, **login}]
            return {
                "protocolVersion": 2,
                "info": _INFO,
                "capabilities": {"session": session},
                "authMethods": methods,
            }
        sessions: Fields = {"list": {}, "resume": {}, "close": {}, "delete": {}, "fork": {}}
        return {
            "protocolVersion": 1,
            "agentInfo": _INFO,
            "authMethods": [{"id": _LOGIN, **login}],
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
                "mcpCapabilities": {"http": False, "sse": False},
                "sessionCapabilities": sessions,
            },
        }

    async def _authenticate(self, parameters: Fields, after: list[Callable[[], None]]) -> Fields:
        """Agents have their own logins, which only their own programs can renew."""
        del parameters, after
        return {}

    async def _list(self, parameters: Fields, after: list[Callable[[], None]]) -> Fields:
        del after
        cwd = absolute_path(parameters) if parameters.get("cwd") else ""
        cursor = parameters.get("cursor") or "0"
        if not isinstance(cursor, str) or not cursor.isdecimal() or len(cursor) > 6:
            raise RpcError(INVALID_PARAMETERS, "this is not a cursor of `session/list`")
        rows, following = await self._host.rows(cwd, int(cursor))
        return {"sessions": rows, **({"nextCursor": str(following)} if following is not None else {})}

    async def _new(self, parameters: Fields, after: list[Callable[[], None]]) -> Fields:
        cwd = absolute_path(parameters)
        self._check_servers(parameters)
        log_id = await self._host.create(cwd)
        attached = await self._attach(log_id, cwd, is_told=False)
        attached.is_continued = True
        return await self._opened(attached, after) | {"sessionId": log_id}

    async def _load(self, parameters: Fields, after: list[Callable[[], None]]) -> Fields:
        session_id = text_field(parameters, "sessionId")
        self._check_servers(parameters)
        attached = await self._attach(session_id, absolute_path(parameters), is_told=True)
        return await self._opened(attached, after)

    async def _resume(self, parameters: Fields, after: list[Callable[[], None]]) -> Fields:
        session_id = text_field(parameters, "sessionId")
        self._check_servers(parameters)
        is_told = self._version == 2 and bool(parameters.get("replayFrom"))
        attached = await self._attach(session_id, absolute_path(parameters), is_told=is_told)
        return await self._opened(attached, after)

    async def _fork(self, parameters: Fields, after: list[Callable[[], None]]) -> Fields:
        cwd = absolute_path(parameters)
        log_id = await self._host.fork(text_field(parameters, "sessionId"), cwd)
        attached = await self._attach(log_id, cwd, is_told=False)
        attached.is_continued = True
        return await self._opened(attached, after) | {"sessionId": log_id}

    def _check_servers(self, parameters: Fields) -> None:
        servers = parameters.get("mcpServers")
        if servers is not None and not isinstance(servers, list):
            raise RpcError(INVALID_PARAMETERS, "mcpServers must be a list")

    async def _attach(self, session_id: str, cwd: str, *, is_told: bool) -> OpenInEditor:
        if session_id not in self._sessions and len(self._sessions) >= _MOST_SESSIONS:
            raise RpcError(INVALID_REQUEST, f"{_MOST_SESSIONS} sessions are open: close one")
        opened = await self._host.open(session_id)
        await self._host.revive(opened)
        self._detach(session_id)
        attached = OpenInEditor(session_id, opened, cwd)
        await self._watch(attached, opened.log_id, is_told=is_told)
        self._detach(session_id)  # it was opened twice at once
        self._sessions[session_id] = attached
        return attached

    async def _watch(self, attached: OpenInEditor, log_id: str, *, is_told: bool) -> SessionWatch:
        listener = WatchListener(
            partial(self._update, attached),
            partial(self._ask, attached),
            partial(self._withdraw, attached),
            partial(self._output.room, attached.id),
        )
        assert self._version, "initialize comes first"
        chosen = options_of(self._version, self._capabilities)
        watch = SessionWatch(self._host.store, self._host.backend, log_id, chosen, listener)
        attached.watch = watch
        try:
            if log_id:
                await watch.start(is_told=is_told)
            else:
                await watch.replay(attached.opened.batches(), is_told=is_told)
        except BaseException:
            watch.close()
            raise
        watch.refresh()  # what was changed meanwhile
        return watch

    async def _opened(self, attached: OpenInEditor, after: list[Callable[[], None]]) -> Fields:
        setup = self._host.setup(self._current(attached))
        commands = await self._commands(attached)
        after.append(partial(self._greet, attached, commands))
        if self._version == 2:
            about: Fields = {"configOptions": self._host.options.options(setup, 2)}
            return about | {"availableCommands": commands}
        return {
            "modes": self._host.options.modes(setup),
            "configOptions": self._host.options.options(setup, 1),
        }

    async def _commands(self, attached: OpenInEditor) -> list[Fields]:
        setup = self._host.setup(self._current(attached))
        return await asyncio.to_thread(options.available_commands, self._version, setup)

    def _tell_commands(self, attached: OpenInEditor, commands: list[Fields]) -> None:
        self._update(attached, {"sessionUpdate": "available_commands_update", "availableCommands": commands})

    def _greet(self, attached: OpenInEditor, commands: list[Fields]) -> None:
        self._tell_commands(attached, commands)
        if attached.watch is not None:
            attached.watch.ask_open_questions()

    def _current(self, attached: OpenInEditor) -> OpenedSession:
        watch = attached.watch
        if watch is None or not watch.log_id or watch.log_id == attached.opened.log_id:
            return attached.opened
        return OpenedSession(watch.log_id, self._host.store.metadata(watch.log_id))

    async def _prompt(self, parameters: Fields, after: list[Callable[[], None]]) -> Fields:
        del after
        attached = self._session(parameters)
        prompt, stops = prompt_of(parameters.get("prompt")), attached.stops
        watch = await self._continue(attached)
        if await self._answer_by_prompt(watch, prompt.text):
            return (
                {"stopReason": "end_turn"} if self._version == 1 else {"messageId": f"answer-{self._count}"}
            )
        command = options.slash_command(prompt.text)
        if command is not None:
            await self._host.carry_out(watch.log_id, command)
            self._tell_options(attached)
            self._tell_commands(attached, await self._commands(attached))
            return (
                {"stopReason": "end_turn"} if self._version == 1 else {"messageId": f"command-{self._count}"}
            )
        if self._version == 1 and (await self._is_answering(watch) or watch.turn is not None):
            raise RpcError(INVALID_REQUEST, "a prompt is being answered: cancel it first, or wait")
        if attached.stops != stops:
            return self._not_begun()
        turn = watch.prompted(prompt.text)
        try:
            await self._host.carry_out(watch.log_id, Submit(prompt=prompt.text, attachments=prompt.files))
        except HarnessError:
            watch.turn = None
            raise
        watch.refresh()
        if self._version == 2:
            turn.done.add_done_callback(lambda done: done.exception())
            self._count += 1
            return {"messageId": f"prompt-{self._count}"}
        return {"stopReason": await turn.done}

    def _not_begun(self) -> Fields:
        """The answer to a prompt that was stopped before it was sent."""
        if self._version == 2:  # which has no turn that could end
            raise RpcError(CANCELLED, "the prompt was cancelled before it was sent")
        return {"stopReason": "cancelled"}

    async def _is_answering(self, watch: SessionWatch) -> bool:
        """A run that has said its last word takes a moment to be over: clients send the next prompt at once."""
        for _ in range(_LOOKS):
            if watch.turn is not None or not self._host.backend.status(watch.log_id).is_running:
                break
            await asyncio.sleep(_LOOK_S)
        return watch.turn is not None or self._host.backend.status(watch.log_id).is_running

    async def _continue(self, attached: OpenInEditor) -> SessionWatch:
        """The conversation that answers prompts; one that continues the session, if it is none itself."""
        async with attached.continuing:
            watch = attached.watch
            assert watch is not None, "it is watched since it was opened"
            if not attached.is_continued:
                log_id = await self._host.continued(attached.opened, attached.cwd)
                if log_id != watch.log_id:
                    watch.close()
                    watch = await self._watch(attached, log_id, is_told=False)
                attached.is_continued = True
            return watch

    async def _answer_by_prompt(self, watch: SessionWatch, text: str) -> bool:
        """A client that cannot show forms answers a question by its next prompt."""
        for relay in watch.open_questions.values():
            question = question_of(relay, watch.row(relay), self._version, self._capabilities)
            if question.is_message:
                await self._host.carry_out(watch.log_id, question.answer_of_text(text))
                return True
        return False

    async def _close(self, parameters: Fields, after: list[Callable[[], None]]) -> Fields:
        del after
        session_id = text_field(parameters, "sessionId")
        attached = self._sessions.get(session_id)
        if attached is None:
            await self._host.open(session_id)  # raises for one that does not exist
            return {}
        watch = attached.watch
        log_id = watch.log_id if watch is not None else ""
        is_alone = not self._host.has_another(self, log_id)
        is_loaded = bool(log_id) and self._host.backend.hub(log_id) is not None
        turn = watch.turn if watch is not None else None
        if is_loaded and (is_alone or turn is not None):
            await self._host.carry_out(log_id, Cancel(queue="keep"))
        if turn is not None:
            turn.stop()
        self._detach(session_id)
        if is_loaded and is_alone:
            await self._host.forget(log_id)
        return {}

    def has_open(self, log_id: str) -> bool:
        watches = (attached.watch for attached in self._sessions.values())
        return any(watch is not None and watch.log_id == log_id for watch in watches)

    async def _delete(self, parameters: Fields, after: list[Callable[[], None]]) -> Fields:
        del after
        session_id = text_field(parameters, "sessionId")
        self._detach(session_id)
        await self._host.delete(session_id)
        return {}

    async def _set_mode(self, parameters: Fields, after: list[Callable[[], None]]) -> Fields:
        del after
        attached = self._session(parameters)
        await self._configure(attached, "mode", text_field(parameters, "modeId"))
        return {}

    async def _set_option(self, parameters: Fields, after: list[Callable[[], None]]) -> Fields:
        del after
        attached = self._session(parameters)
        await self._configure(attached, text_field(parameters, "configId"), text_field(parameters, "value"))
        setup = self._host.setup(self._current(attached))
        return {"configOptions": self._host.options.options(setup, self._version)}

    async def _configure(self, attached: OpenInEditor, option: str, value: str) -> None:
        watch = await self._continue(attached)
        await self._host.carry_out(watch.log_id, options.change(option, value))
        if option == "agent":  # another one takes others
            self._tell_commands(attached, await self._commands(attached))

    async def _set_title(self, parameters: Fields, after: list[Callable[[], None]]) -> Fields:
        del after
        await self._configure(self._session(parameters), "title", text_field(parameters, "title"))
        return {}

    def _tell_options(self, attached: OpenInEditor) -> None:
        setup = self._host.setup(self._current(attached))
        chosen = self._host.options.options(setup, self._version)
        self._update(attached, {"sessionUpdate": "config_option_update", "configOptions": chosen})

    def _session(self, parameters: Fields) -> OpenInEditor:
        session_id = text_field(parameters, "sessionId")
        attached = self._sessions.get(session_id)
        if attached is None:
            words = "this session is not open here: load or resume it first"
            raise RpcError(NO_SESSION, words, {"sessionId": session_id[:200]})
        return attached

    def _detach(self, session_id: str) -> None:
        attached = self._sessions.pop(session_id, None)
        if attached is None:
            return
        for asker, question in list(self._asked.values()):
            if asker is attached:
                self._withdraw(attached, question.relay.id)
        if attached.watch is not None:
            attached.watch.close()

    # Notifications of the client, and changes here

    def _notified(self, method: str, parameters: Fields) -> None:
        if method == "$/cancel_request":
            request_id = parameters.get("requestId")
            if (work := self._work_on(request_id)) is None:
                return
            attached = self._prompted.get(request_id)
            if attached is None or attached.watch is None or attached.watch.turn is None:
                work.cancel()
            else:  # its turn is stopped, and that is its answer
                self._stop(attached)
        elif method == "session/cancel":
            attached = self._sessions.get(str(parameters.get("sessionId")))
            if attached is not None:  # behind the beginning of a prompt that has come just before
                asyncio.get_running_loop().call_soon(self._stop, attached)

    def _stop(self, attached: OpenInEditor) -> None:
        attached.stops += 1
        watch = attached.watch
        if watch is not None and watch.log_id:
            watch.is_stopping = watch.turn is not None
            if len(self._tasks) < self.MOST_REQUESTS:
                self._spawn(self._host.carry_out(watch.log_id, Cancel(queue="clear")))

    def _changed(self, log_id: str) -> None:
        for attached in self._sessions.values():
            if attached.watch is not None and attached.watch.log_id == log_id:
                attached.watch.refresh()

    # Our requests to the client

    def _ask(self, attached: OpenInEditor, relay: Relay) -> None:
        assert attached.watch is not None, "a question comes from a log that is watched"
        question = question_of(relay, attached.watch.row(relay), self._version, self._capabilities)
        for update in question.updates:
            self._update(attached, update)
        if question.is_message:
            return
        self._count += 1
        request_id = f"h{self._count}"
        self._asked[request_id] = (attached, question)
        parameters = {"sessionId": attached.id, **question.parameters}
        self._send({"id": request_id, "method": question.method, "params": parameters})

    def _withdraw(self, attached: OpenInEditor, relay_id: str) -> None:
        for request_id, (asked, question) in list(self._asked.items()):
            if asked is attached and question.relay.id == relay_id:
                del self._asked[request_id]
                self._send({"method": "$/cancel_request", "params": {"requestId": request_id}})
                for update in question.last_updates:
                    self._update(attached, update)

    def _answered(self, message: Fields) -> None:
        attached, question = self._asked.pop(str(message.get("id")), (None, None))
        if attached is None or question is None or attached.watch is None:
            return  # too late, or never asked
        for update in question.last_updates:
            self._update(attached, update)
        result = message.get("result")
        command = question.answer(result if isinstance(result, dict) else {})
        if command is not None:
            self._spawn(self._answer_question(attached, question.relay, command))

    async def _answer_question(self, attached: OpenInEditor, relay: Relay, command: Command) -> None:
        """What is no answer to it is asked again; a client that has none is taken for one that does not want to answer."""
        watch = attached.watch
        assert watch is not None, "it was asked in a session that is watched"
        try:
            await self._host.carry_out(watch.log_id, command)
        except AlreadyAnswered:
            return  # somebody else was first
        except UsageError:
            if relay.id not in watch.open_questions:
                return
            attached.refused[relay.id] += 1
            if attached.refused[relay.id] < _MOST_TRIES:
                self._ask(attached, relay)
            elif attached.refused[relay.id] == _MOST_TRIES:
                await self._host.carry_out(watch.log_id, Deny(relay_id=relay.id, reason=_NO_ANSWER))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """What the client has no answer for: a late answer to a question, a stop of what has stopped."""

        async def quietly() -> None:
            try:
                await work
            except UsageError:
                return  # somebody else was first
            except HarnessError as error:
                asyncio.get_running_loop().call_exception_handler(
                    {"message": error.words, "exception": error}
                )

        task = asyncio.get_running_loop().create_task(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Messages to the client

    def _update(self, attached: OpenInEditor, update: Fields) -> None:
        parameters = {"sessionId": attached.id, "update": update}
        self._send({"method": "session/update", "params": parameters})

    def _cancelled(self, request_id: Any) -> None:
        self._error(request_id, RpcError(CANCELLED, "the request was cancelled"))

    _METHODS: ClassVar[Mapping[str, Method]] = {
        "authenticate": _authenticate,
        "auth/login": _authenticate,
        "session/list": _list,
        "session/new": _new,
        "session/load": _load,
        "session/resume": _resume,
        "session/fork": _fork,
        "session/prompt": _prompt,
        "session/close": _close,
        "session/delete": _delete,
        "session/set_mode": _set_mode,
        "session/set_config_option": _set_option,
        "session/set_title": _set_title,
    }


_ONLY_1 = frozenset(("authenticate", "session/load", "session/set_mode"))
_ONLY_2 = frozenset(("auth/login",))
