"""A program that starts another behind a wall; may be run as any user.

Reads {"engine": …, "wall": {…}, "argv": […], "env": {…}, "cwd": …} and writes {"said": …, "code": …, "signal": …,
"refused": […]}.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec

from confined_commands import rung_of
from harness.errors import HarnessError
from harness.process.child import Child
from harness.process.invocation import Invocation
from harness.sandbox.wall import Wall
from harness.sandbox.walled_programs import BuiltWall


def answer_to(asked: dict[str, Any]) -> dict[str, Any]:
    rung = rung_of(asked["engine"])
    assert rung is not None
    invocation = Invocation(tuple(asked["argv"]), asked["env"], asked["cwd"])
    said = ""
    try:
        built = BuiltWall(rung, msgspec.convert(asked["wall"], Wall))
        with Child(built.around(invocation)) as child:
            while child.exit is None:
                said += "".join(chunk.data.decode(errors="replace") for chunk in child.read(20))
    except HarnessError as error:
        return {"said": error.message, "code": None, "signal": None, "refused": []}
    return {
        "said": said,
        "code": child.exit.code,
        "signal": child.exit.signal,
        "refused": built.take_down(),
    }


if __name__ == "__main__":
    print(json.dumps(answer_to(json.load(sys.stdin))))
