"""What two or more agents share.

fields                         values of native records: fields of the wanted type, JSON within JSON, paths, outputs
toolset                        which operations a tool call is: every agent with tools has a `Toolset`; to-do lists
shell, patches                 the operations of shell commands and patches
command_line                   a request as the arguments of a program
plain_answer, child_runs       parts of translators: plain text instead of records, sub-agents
error_messages                 errors as agents pass them on
stream_json, partial_messages, claude_tools, model_ledger     the format of Claude Code
gemini_tools                   the tools of Gemini CLI
opencode, opencode_events, opencode_tools     the formats of OpenCode
acp, acp_calls                 the Agent Client Protocol, in which many agents are held in a conversation
"""

from __future__ import annotations
