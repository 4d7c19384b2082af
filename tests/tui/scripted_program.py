"""The screen on a real terminal, with a scripted inbox: `python scripted_program.py [fail]`."""

from __future__ import annotations

import os
import sys

from harness.tui.actions import InboxScreen
from harness.tui.app import InboxApp
from scripted_inbox import ScriptedInbox, checkout_log, twelve_rows


def main() -> int:
    if "fail" in sys.argv:

        def do_usage(screen: InboxScreen, event: object) -> None:
            raise ZeroDivisionError("on purpose")

        InboxScreen.do_usage = do_usage  # type: ignore[method-assign,assignment]
    app = InboxApp(ScriptedInbox(twelve_rows(), {"checkout": checkout_log()}), os.environ)
    code = app.run()
    if app.failure is not None:
        print(f"failed: {app.failure}", file=sys.stderr)
        return 70
    return code or 0


if __name__ == "__main__":
    sys.exit(main())
