"""Makes a session of another agent: new files only, the agent's own import where it has one, read back and compared.

What was made is noted in a manifest before anything is written, so that it can always be removed.

    <data>/harness/hand-overs/<id>/manifest.json    which files were made, for which agent, from which session
    <data>/harness/hand-overs/<id>/…                files that an agent is given by their path
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from itertools import zip_longest

import msgspec
from msgspec.structs import replace

from harness.contracts.conversation import (
    NO_OUTPUT,
    HandedCall,
    HandedConversation,
    HandedPrompt,
    HandedTurn,
    with_texts,
)
from harness.contracts.history import Home, StoredSession
from harness.contracts.writer import (
    Delivered,
    HandoverPlace,
    HandoverWriter,
    NewFile,
    NewIds,
    origin_note,
)
from harness.errors import HarnessError, StoreError, UsageError
from harness.folds.handed_conversation import conversation_of
from harness.histories.registry import load
from harness.histories.stored_log import StoredLog
from harness.log.ids import is_log_id, new_run_id
from harness.log.private_files import (
    append_all,
    make_private_directory,
    open_private,
    replace_private,
)
from harness.log.redact.redactor import redact_text
from harness.process.child import Child
from harness.process.invocation import Enclosure, Invocation
from harness.system import exact_json

_SHOWN = 80


def stored_conversation(
    writer: HandoverWriter, place: HandoverPlace, delivered: Delivered
) -> HandedConversation:
    """The session that was written, read back as any session of its agent. Raises StoreError if there is none."""
    history = load(writer.agent)
    assert history is not None, f"the sessions of {writer.agent} can be read"
    session: StoredSession | None
    if writer.importing:
        session = next(
            (session for session in history.find(place.home) if session.session_id == delivered.session_id),
            None,
        )
    elif writer.as_text:  # its ids are made of where a file is
        home = replace(place.home, projects=(os.path.dirname(delivered.file),))
        session = next(history.find(home), None)
    else:
        session = StoredSession(
            agent=writer.agent, session_id=delivered.session_id, path=delivered.file, mark="", changed_ms=0
        )
    if session is None:
        raise StoreError(f"{writer.agent} has no session {delivered.session_id}")
    return conversation_of(StoredLog(history, session, redact=False).events())


def differences(
    expected: HandedConversation, actual: HandedConversation, writer: HandoverWriter
) -> list[str]:
    """A line for each part that is not the same; empty if all parts are."""
    if writer.as_text:
        return _as_text(expected, actual)
    pairs = zip_longest(_parts(expected, writer), _parts(actual, writer))
    return [
        f"{_shown(expected_part)} became {_shown(actual_part)}"
        for expected_part, actual_part in pairs
        if expected_part is None or actual_part is None or not _is_same(expected_part, actual_part, writer)
    ]


def _is_same(expected: tuple[str, str], actual: tuple[str, str], writer: HandoverWriter) -> bool:
    if expected == actual:
        return True
    is_alike = actual[1] in expected[1] or expected[1] in actual[1] or actual[1] == NO_OUTPUT
    return not writer.keeps_outputs and expected[0] == actual[0] and expected[0].endswith("call") and is_alike


def _parts(conversation: HandedConversation, writer: HandoverWriter) -> Iterator[tuple[str, str]]:
    for turn in conversation.turns:
        if isinstance(turn, HandedPrompt):
            yield "prompt", turn.text.strip()
            continue
        if turn.text.strip():
            yield "answer", turn.text.strip()
        yield from ((_kind(call, writer), call.output.strip()) for call in turn.calls)


def _kind(call: HandedCall, writer: HandoverWriter) -> str:
    return "failed call" if call.has_failed and writer.keeps_failures else "call"


def _as_text(expected: HandedConversation, actual: HandedConversation) -> list[str]:
    """Calls are text there: each output must be part of it, in order."""
    text = _folded("\n".join(turn.text for turn in actual.turns))
    missing_parts = [
        part
        for turn in expected.turns
        for part in (
            turn.text,
            *(() if isinstance(turn, HandedPrompt) else (call.output for call in turn.calls)),
        )
    ]
    position, missing = 0, list[str]()
    for part in filter(None, map(_folded, missing_parts)):
        at = text.find(part, position)
        if at < 0:
            missing.append(f"{_shown(('text', part))} is missing")
        else:
            position = at
    return missing


def _folded(text: str) -> str:
    """With each run of white space as one space."""
    return " ".join(text.split())


def _shown(item: tuple[str, str] | None) -> str:
    return "nothing" if item is None else f"{item[0]} {item[1][:_SHOWN]!r}"


_MANIFEST = "manifest.json"
_IMPORT_S = 120.0
_LONGEST_OUTPUT = 300


class MadeFile(msgspec.Struct, frozen=True):
    path: str
    sha256: str
    """Of what was written: a file that has another one was changed since."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a hand-over has made."""

    id: str
    at_ms: int
    source: str
    """The session that it came from, by a name that `harness sessions` knows."""
    agent: str
    """That continues it."""
    session_id: str
    cwd: str
    files: tuple[MadeFile, ...] = ()
    is_imported: bool = False
    """The session is in the agent's own store, made by its own import."""
    note: str = ""
    """The words that it begins with, and every copy that the agent makes of it."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Who is to continue a conversation, and where."""

    at_ms: int
    """Now."""
    source: str
    cwd: str
    home: Home
    binary: str
    """The program of the agent."""
    version: str = ""
    model: str = ""
    env: Mapping[str, str] = {}
    """Variables for the agent's own import, beside those of the home."""
    wall: Enclosure | None = None
    """Around that import, where the folder has settings that nobody trusts."""


class HandoverFailed(HarnessError):
    """The session could not be made, or is not what it should be; nothing of it is left."""


class HandoverFolder:
    """All hand-overs of a user. Contract: never writes over a file, and removes only what it has made."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def folder(self, handover_id: str) -> str:
        return os.path.join(self._directory, handover_id)

    def deliver(self, writer: HandoverWriter, conversation: HandedConversation, target: Target) -> Delivered:
        """Make the session. Raises HandoverFailed, after everything was removed again."""
        handover_id = new_run_id(target.at_ms)
        place = HandoverPlace(
            home=target.home,
            cwd=os.path.realpath(target.cwd),
            folder=self.folder(handover_id),
            session_id=writer.new_id(NewIds(handover_id), target.at_ms),
            version=target.version,
            model=target.model,
        )
        manifest = Manifest(
            id=handover_id,
            at_ms=target.at_ms,
            source=target.source,
            agent=writer.agent,
            session_id=place.session_id,
            cwd=place.cwd,
            note=origin_note(conversation),
        )
        files = writer.files(conversation, place)
        files_of_manifest = tuple(MadeFile(file.path, sha256(file.data).hexdigest()) for file in files)
        manifest = replace(manifest, files=files_of_manifest, is_imported=bool(writer.importing))
        if there := [file.path for file in files if os.path.lexists(file.path)]:
            raise HandoverFailed(f"cannot write the session: {there[0]} exists")
        files_so_far: list[MadeFile] = []
        try:
            self._save(manifest)
            for file, note in zip(files, files_of_manifest, strict=True):
                _write_new(file)
                files_so_far.append(note)
            delivered = Delivered(session_id=place.session_id, file=files[0].path)
            if writer.importing:
                delivered = _import(writer, delivered, place, target)
                self._save(replace(manifest, session_id=delivered.session_id))
            _require_same(writer, conversation, place, delivered)
        except (OSError, HandoverFailed) as error:
            self._remove_files(replace(manifest, files=tuple(files_so_far)), is_forced=True)
            if isinstance(error, HandoverFailed):
                raise
            where = f" {error.filename}" if error.filename else ""
            raise HandoverFailed(f"cannot write the session:{where} {error.strerror or error}") from error
        return delivered

    def all(self) -> list[Manifest]:
        """The newest first."""
        try:
            names = os.listdir(self._directory)
        except OSError:
            return []
        manifests = [manifest for name in names if (manifest := self._load(name)) is not None]
        return sorted(manifests, key=lambda manifest: manifest.at_ms, reverse=True)

    def find(self, text: str) -> Manifest:
        """By its id, or the new session's, or a beginning of them. Raises UsageError."""
        name = text.strip()
        manifests = [
            manifest
            for manifest in self.all()
            if name and (manifest.id.startswith(name) or manifest.session_id.startswith(name))
        ]
        if len(manifests) != 1:
            what = f"{len(manifests)} hand-overs begin with" if manifests else "there is no hand-over"
            raise UsageError(f"{what} {name[:60]!r}", hint="`harness hand-over --list` lists them")
        return manifests[0]

    def remove(self, manifest: Manifest, *, is_forced: bool) -> list[str]:
        """Returns the files that were changed since, and are still there unless it is forced."""
        return self._remove_files(manifest, is_forced=is_forced)

    def _remove_files(self, manifest: Manifest, *, is_forced: bool) -> list[str]:
        changed = [file.path for file in manifest.files if _is_changed(file)]
        if changed and not is_forced:
            return changed
        for file in manifest.files:
            with suppress(FileNotFoundError):
                os.unlink(file.path)
        for own in session_folders(manifest):
            with suppress(OSError):  # the agent has put more into it
                os.rmdir(own)
        folder = self.folder(manifest.id)
        with suppress(OSError):
            os.unlink(os.path.join(folder, _MANIFEST))
            os.rmdir(folder)
        return changed

    def _save(self, manifest: Manifest) -> None:
        folder = self.folder(manifest.id)
        make_private_directory(folder)
        replace_private(os.path.join(folder, _MANIFEST), exact_json.encode(manifest) + b"\n")

    def _load(self, name: str) -> Manifest | None:
        if not is_log_id(name):
            return None
        try:
            with open(os.path.join(self.folder(name), _MANIFEST), "rb") as file:
                manifest = exact_json.decode(file.read(), Manifest)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return manifest if manifest.id == name else None


def session_folders(manifest: Manifest) -> list[str]:
    """Folders that hold this session alone, and are named after it."""
    folders = {os.path.dirname(file.path) for file in manifest.files}
    return sorted(folder for folder in folders if os.path.basename(folder) == manifest.session_id)


def _write_new(file: NewFile) -> None:
    """Under a temporary name first; then a link, which never replaces a file that is there."""
    folder = os.path.dirname(file.path)
    make_private_directory(folder)
    temporary = os.path.join(folder, f".{os.path.basename(file.path)}.{os.getpid()}.new")
    fd = open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        try:
            append_all(fd, (file.data,))
            os.fsync(fd)
        finally:
            os.close(fd)
        os.link(temporary, file.path, follow_symlinks=False)
    finally:
        os.unlink(temporary)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _is_changed(file: MadeFile) -> bool:
    try:
        with open(file.path, "rb") as stream:
            return sha256(stream.read()).hexdigest() != file.sha256
    except OSError:
        return False


def _import(writer: HandoverWriter, delivered: Delivered, place: HandoverPlace, target: Target) -> Delivered:
    """By the agent's own program, in the directory of the conversation."""
    args = [argument.replace("{file}", delivered.file) for argument in writer.importing]
    env = {**place.home.environment, "HOME": place.home.directory, "PWD": place.cwd, **target.env}
    invocation = Invocation(argv=(target.binary, *args), env=env, cwd=place.cwd, wall=target.wall)
    code, output = _run(invocation)
    if code != 0:
        raise HandoverFailed(f"{writer.agent} has not imported the session: {_last(output)}")
    if not writer.imported_id:
        return delivered
    match = re.search(writer.imported_id, output)
    if match is None:
        raise HandoverFailed(f"{writer.agent} does not say what it has imported: {_last(output)}")
    return replace(delivered, session_id=match[1])


def _run(invocation: Invocation) -> tuple[int | None, str]:
    ends_s = time.monotonic() + _IMPORT_S
    output = b""
    with Child(invocation) as child:
        while child.exit is None:
            if time.monotonic() > ends_s:
                child.kill()
            output += b"".join(chunk.data for chunk in child.read(1.0))
    return (child.exit.code if child.exit is not None else None), output.decode("utf-8", "replace")


def _last(output: str) -> str:
    return output.strip().rpartition("\n")[2][:_LONGEST_OUTPUT] or "it said nothing"


def _require_same(
    writer: HandoverWriter, conversation: HandedConversation, place: HandoverPlace, delivered: Delivered
) -> None:
    """Read it back as any session of that agent is read, and compare."""
    try:
        actual = stored_conversation(writer, place, delivered)
    except StoreError as error:
        raise HandoverFailed(error.message) from error
    if different := differences(conversation, actual, writer):
        raise HandoverFailed(f"the session of {writer.agent} reads back differently: {different[0]}")


MARK = "[REDACTED:"


def masked(conversation: HandedConversation, secrets: Mapping[str, str]) -> HandedConversation:
    """Mask the secrets of a conversation: a store was not masked, and a log need not be.

    `secrets`: known ones by their names, beside those that are recognized by their form.
    """
    turns = tuple(_turn(turn, secrets) for turn in conversation.turns)
    count = sum(_marks(turn) for turn in turns)
    return replace(conversation, turns=turns, losses=replace(conversation.losses, masked=count))


def _turn(turn: HandedTurn, secrets: Mapping[str, str]) -> HandedTurn:
    text = redact_text(turn.text, secrets)
    if isinstance(turn, HandedPrompt):
        return replace(turn, text=text)
    return replace(turn, text=text, calls=tuple(_call(call, secrets) for call in turn.calls))


def _call(call: HandedCall, secrets: Mapping[str, str]) -> HandedCall:
    arguments = with_texts(call.input, lambda text: redact_text(text, secrets))
    return replace(call, input=arguments, output=redact_text(call.output, secrets))


def _marks(turn: HandedTurn) -> int:
    calls = () if isinstance(turn, HandedPrompt) else turn.calls
    return turn.text.count(MARK) + sum(f"{call.input}{call.output}".count(MARK) for call in calls)
