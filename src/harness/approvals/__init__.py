"""Who may do what: one decision for the built-in agent, agent programs in every protocol, sessions and fleets.

    question ─▶ ProposedCall (tool_table: what the tool's name and arguments say) ─▶ decide ─▶ allow | ask | deny
                                     rules · grants · mode · workspace ──────┘

A decision is made from what the question itself says: the exact name of the tool and its arguments, read by the
tool table of the agent. What a call is described as (operations, titles, kinds, guessed names) is for display.

| file | what it has |
|---|---|
| `call.py` | the vocabulary: `ProposedCall`, `AccessMode` |
| `tool_table.py` | what a tool's arguments mean: its category, which of them are paths or the command |
| `decide.py` | `decide`: the decision, in the one order that counts. Nothing else decides |
| `rules.py` | rules of the user, a project, a session, and grants: what they touch and what they cover |
| `possible_commands.py`, `denied_below.py` | what could come to something that a rule names, though it does not say so |
| `free_commands.py`, `command_grammar.py` | command lines that are proved to read only |
| `grants.py` | what "always" offers, and what it then allows |
| `work_folder.py` | which paths are below the folder, and which of them may be edited unasked |
| `protected.py` | names in a folder that agents, editors, git and Harness obey |
| `approver.py` | `Approver`: mode, rules and workspace of one run or session, and what was allowed since |
"""
