"""Handing over: a conversation of one agent, written as a session of another one, which continues it.

    a log ─▶ conversation ─▶ writer of the target ─▶ new files ─▶ the target's own `resume`, or its own import
     (events)  (pure)         (pure: bytes)          (I/O, read back and compared)

| piece | file | what it promises |
|---|---|---|
| conversation | `conversation.py` | events → prompts, answers and calls, each call with exactly one result |
| budget | `budget.py` | what is too long is shortened: the newest stays whole, failures always |
| tools | `own_tools.py` | a call → the target's own tool by its meaning, else a name that the target has no tool of |
| ids | `writer.py` | new ids, derived from one seed, so that the same input gives the same bytes |
| contract | `writer.py` | `HandoverWriter`: the files of a session, and how the target is made to continue it |
| registry | `registry.py` | which agents can be handed a conversation: the files of `writers/` |
| delivery | `delivery.py` | writes new files only, imports them, reads them back, notes what was made, removes it |

Rules for a file of `writers/`
1. It is pure: a conversation and a place in, bytes out. No clock, no random ids, no I/O.
2. Reasoning, signatures, usage and settings of the source stay behind; usage is zero.
3. JSON is compact, and every line ends with a newline: other readers look for byte patterns.
4. A way of the agent itself (an import, a session by its path) is preferred to a file in its store.
"""
