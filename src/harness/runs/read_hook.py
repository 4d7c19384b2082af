"""A hook that an agent program runs before each of its reading tools: what it would read elsewhere is refused.

For agents that read any file without a question, and that no setting makes ask. This process gets the call as a JSON
object, and says by its exit code whether it stays below the folder; where it cannot be run, the agent's settings refuse
the call.

    python -m harness.runs.read_hook droid < CALL
"""

from __future__ import annotations

import json
import os
import sys

from harness.agents.registry import load
from harness.approvals.call import READ_ONLY
from harness.approvals.decide import decide
from harness.approvals.work_folder import WorkFolder
from harness.contracts.agent import HOOK_FOLDER

_REFUSED = 2


def main() -> int:
    message, two_way = json.load(sys.stdin), load(sys.argv[1]).two_way
    assert two_way is not None, "it is run where an agent is held"
    assert two_way.tools is not None, "its tools are known"
    folder = os.path.realpath(os.environ[HOOK_FOLDER])
    call = two_way.tools.call(message["tool_name"], message["tool_input"], folder)
    if decide([call], READ_ONLY, (), WorkFolder(root=folder)).answer == "allow":
        return 0
    sys.stderr.write(
        f"only files below {folder} are read without a question, and this cannot be asked about\n"
    )
    return _REFUSED


if __name__ == "__main__":
    sys.exit(main())
