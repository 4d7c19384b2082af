"""What two or more agents share.

fields, paths                  values of native records
toolset                        which operations a tool call is: every agent with tools has a `Toolset`
shell, patches, todo_lists     what commands, patches and to-do lists say
command_line                   a request as the arguments of a program
plain_answer, child_runs       parts of translators: plain text instead of records, sub-agents
error_messages                 errors as agents pass them on
stream_json, partial_messages, stream_results, claude_tools, model_ledger     the format of Claude Code
gemini_tools                   the tools of Gemini CLI
opencode, opencode_tools       the format of OpenCode
acp, acp_calls                 the Agent Client Protocol, in which many agents are held in a conversation
"""

from __future__ import annotations
