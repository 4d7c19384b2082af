"""Histories: the sessions that agent programs have stored themselves, in their own formats.

A history is a recording that another program made. It is read in place and never changed, and it goes through the
translator that the live agent already has:

    an agent's store ─▶ records ─▶ rewording ─▶ raw entries ─▶ Pipeline ─▶ events ─▶ views
     (read only)        (I/O)      (pure)       (as of a run)   (unchanged)           (unchanged)

| piece | file | what it promises |
|---|---|---|
| contract | `history.py` | `AgentHistory`: where sessions are, their records, and how they are reworded |
| registry | `registry.py` | which histories there are: the files of `stores/` |
| rewording | `rewording.py` | a session's records → the raw entries of its runs, one run for each prompt; a pure stage |
| files | `store_files.py` | folders, lines and documents, read without following links, locking or changing anything |
| databases | `database.py` | SQLite, opened with `mode=ro` only, and only the tables that are named |
| log | `stored_log.py` | a session as a log: events with stamps, the same each time it is read |
| following | `stored_follow.py` | the log of a session while its agent writes it |
| copies | `session_copy.py` | a session copied into the store of Harness, provable |
| summary | `summary.py` | the summary of a session, its usage and its searchable texts, read in parts |
| scans | `file_scan.py`, `scan_claude.py`, `scan_codex.py` | the same for the large files of Claude and Codex, and only what is new of them |
| catalogue | `catalogue.py` and `catalogue_*.py` | all sessions of all histories, in SQLite: found without reading them, each read once; filters, search, usage |

Rules for a file of `stores/`
1. The session's own records name its directory and id; names of folders only say where to look.
2. Records without news are consumed by a named rule, as in a translator. Those that no rule knows are passed on
   as they are, and become `Unknown`.
3. The order of the file is the order. What was rewound is part of what happened.
4. The outcome of a run is that of the store; where it has none, the outcome is `unknown`.
"""
