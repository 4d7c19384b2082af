"""One folder, or one file, per agent program, named after it: everything that is known of it.

| part | what it holds |
|---|---|
| `agent` | its command lines, its stream, and `AGENT`, which names them |
| `driver`, `questions` | how it is held in a conversation, and what it asks in one |
| `tools` | its tools, by what they do |
| `store`, `scan` | `HISTORY`: the sessions that it has stored itself |
| `writer` | `WRITER`: a conversation of another agent as a session of this one |
| `lab` | `FIXTURE`: how it runs offline, on a scripted model |

A part that an agent lacks is a file that is not there. What several agents speak is in `protocols`.
"""

from __future__ import annotations
