"""The events that listeners of a session receive, to match them by class:

    from harness.session import events

    match event:
        case events.ToolApprovalRequiredEvent(tool_name=name): …
        case events.TextPart(text=text): …

`SessionEvent` is any of them; `to_wire` gives the JSON object, `from_wire` reads it.
"""

from __future__ import annotations

from harness.folds.session.events import *  # noqa: F403 # the classes are defined and listed there
