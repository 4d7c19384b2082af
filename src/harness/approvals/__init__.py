"""Who may do what: one decision for the built-in agent, agent programs in every protocol, sessions and fleets.

| file | what it has |
|---|---|
| `protected.py` | names in a folder that agents, editors, git and Harness obey |
"""
