"""Programs called `pi` that play a recording of the real one, each with something wrong about it.

They ask the scripted model first, as an agent does, and then write what was recorded. What an agent is
given in its environment is the doctor's affair, so that what is wrong stands in the program itself.
"""

from __future__ import annotations

from pathlib import Path

from python_programs import python_program

HELLO = Path(__file__).parent.parent / "agents" / "pi" / "0.73.1" / "hello" / "stdout.jsonl"

_PROGRAM = """
import json, os, sys, time, urllib.request

if "--version" in sys.argv:
    print("0.73.1")
    sys.exit()
{before}
settings = json.load(open(os.environ["PI_CODING_AGENT_DIR"] + "/models.json"))
url = settings["providers"]["lab"]["baseUrl"] + "/chat/completions"
tools = [{{"type": "function", "function": {{"name": "read"}}}}]
body = {{"model": "lab-model", "messages": [{{"role": "user", "content": "Say hello."}}], "tools": tools}}
request = urllib.request.Request(url, json.dumps(body).encode(), {{"Content-Type": "application/json"}})
urllib.request.urlopen(request).read()
stream = open({recording!r}, encoding="utf-8").read()
stream = stream.replace('"input":100,"output":20,"cacheRead":0', '"input":1000,"output":50,"cacheRead":200')
{change}
sys.stdout.write(stream)
"""


def install(folder: Path, *, before: str = "", change: str = "") -> str:
    """The PATH on which this agent is found first. `before` it asks, and how its stream is changed."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    python_program(bin_folder / "pi", _PROGRAM.format(before=before, change=change, recording=str(HELLO)))
    return f"{bin_folder}:/usr/bin:/bin"
