"""Programs called `pi` that hold a conversation (`--mode rpc`), each with something wrong about it.

They ask the scripted model, run the commands that it calls for, and ask before that. What is wrong is a set of words;
none of them remembers a conversation in another process.
"""

from __future__ import annotations

from pathlib import Path

from python_programs import python_program

_PROGRAM = """
import json, os, subprocess, sys, threading, urllib.request

FAULTS = {faults!r}
if "--version" in sys.argv:
    print("1.5.0")
    sys.exit()
settings = json.load(open(os.environ["PI_CODING_AGENT_DIR"] + "/models.json"))
URL = settings["providers"]["lab"]["baseUrl"] + "/chat/completions"
TOOLS = [{{"type": "function", "function": {{"name": name}}}} for name in ("bash", "ask_user")]
IS_GATED = any(word.endswith("gate.ts") for word in sys.argv)
history, queue, answers = [], [], {{}}
answered, aborted, running = threading.Condition(), threading.Event(), []


def emit(**record):
    sys.stdout.write(json.dumps(record) + "\\n")
    sys.stdout.flush()


def dialog(number, title):
    emit(type="extension_ui_request", id=number, method="input", title=title)
    with answered:
        answered.wait_for(lambda: number in answers or aborted.is_set())
    return json.loads(answers.get(number, {{}}).get("value", "{{}}"))


def command(call, given):
    title = "harness:permission " + json.dumps({{"call": call["id"], "tool": "bash", "input": given}})
    reply = dialog(call["id"], title) if IS_GATED and "never asks" not in FAULTS else {{"approved": True}}
    if not reply.get("approved"):
        return "no" if "drops the reason" in FAULTS else reply.get("reason", "no")
    process = subprocess.Popen(given["command"], shell=True, start_new_session=True)
    running.append(process)
    while process.poll() is None and not aborted.wait(0.02):
        pass
    if process.poll() is None and "leaves commands" not in FAULTS:
        os.killpg(process.pid, 9)
    return "done"


def question(call, given):
    said = dialog(call["id"], "harness:question " + json.dumps({{"call": call["id"], **given}}))
    return "no answer" if "drops the answer" in FAULTS else said.get("answer", "")


def model():
    body = json.dumps({{"model": "lab-model", "messages": history, "tools": TOOLS}}).encode()
    asked = urllib.request.Request(URL, body, {{"Content-Type": "application/json"}})
    return json.load(urllib.request.urlopen(asked))["choices"][0]["message"]


def take(text):
    history.append({{"role": "user", "content": text}})
    emit(type="message_end", message={{"role": "user", "content": [{{"type": "text", "text": text}}]}})


def turn(text):
    emit(type="agent_start")
    take(text)
    while not aborted.is_set():
        message = model()
        history.append(message)
        calls, content = message.get("tool_calls") or [], message.get("content") or ""
        usage = {{"input": 1000, "output": 50, "cacheRead": 200}}
        said = {{"role": "assistant", "content": content, "stopReason": "toolUse" if calls else "stop", "usage": usage}}
        emit(type="message_end", message=said)
        for call in calls:
            name, given = call["function"]["name"], json.loads(call["function"]["arguments"])
            emit(type="tool_execution_start", toolCallId=call["id"], toolName=name, args=given)
            output = (command if name == "bash" else question)(call, given)
            history.append({{"role": "tool", "tool_call_id": call["id"], "content": output}})
            result = {{"content": [{{"type": "text", "text": output}}]}}
            emit(type="tool_execution_end", toolCallId=call["id"], result=result, isError=output == "no")
        if queue and "never steers" not in FAULTS:
            take(queue.pop(0))
        elif not calls:
            break
    emit(type="agent_settled", aborted=aborted.is_set())
    if "dies" in FAULTS:
        os._exit(0)


if IS_GATED:
    emit(type="extension_ui_request", id=0, method="setStatus", statusKey="harness:gate")
for line in sys.stdin:
    asked = json.loads(line)
    kind, data = asked["type"], {{}}
    if kind == "extension_ui_response":
        with answered:
            answers[asked["id"]] = asked
            answered.notify_all()
        continue
    if kind == "get_state":
        data = {{"sessionId": "s-1", "model": {{"provider": "lab"}}}}
    if kind == "steer":
        queue.append(asked["message"])
        emit(type="queue_update", steering=queue)
        data = {{"disposition": "queued"}}
    if kind == "prompt":
        data = {{"disposition": "started"}}
    emit(type="response", id=asked["id"], command=kind, success=True, data=data)
    if kind == "abort":
        aborted.set()
        with answered:
            answered.notify_all()
    if kind == "prompt":
        aborted.clear()
        threading.Thread(target=turn, args=(asked["message"],), daemon=True).start()
"""


def install(folder: Path, *faults: str) -> str:
    """The PATH on which this agent is found first."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    python_program(bin_folder / "pi", _PROGRAM.format(faults=set(faults)))
    return f"{bin_folder}:/usr/bin:/bin"
