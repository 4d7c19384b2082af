"""Run a recording and print the log's own lines as they come: the victim of the kill tests.

usage: python follow_a_replay.py DATA_DIRECTORY RECORDING [player options]
"""

from __future__ import annotations

import os
import sys

from harness import FileStore, Request, start
from harness.log.codec import encode_lines

run = start(
    Request(agent="replay", recording=sys.argv[2], extra_args=tuple(sys.argv[3:])),
    store=FileStore(sys.argv[1]),
)
for batch in run.batches():
    os.write(1, encode_lines(batch))
