"""`harness serve`: sessions over HTTP and WebSocket, and the page; needs the extra `server`.

An answer from the page to the call that waits for it:

    page ─▶ live/inbox_socket.py  InboxSocket   decodes the command of one client
         ─▶ live/channels.py      Channels      notes which client answered first
         ─▶ conversations/        Backend       of this process, of another program, or of another server
         ─▶ conversations/conversation.py       HostedConversation.answer: finds the open question
         ─▶ session/                            gives the answer to the run; the log has it as `RelayReply`

The other way, live/channel.py folds the log once, and live/frames.py encodes the changes once for all clients.
"""

from __future__ import annotations
