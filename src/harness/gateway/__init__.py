"""The gateway: stands between an agent program and its model, on loopback, and sees every call.

    agent program ── its own API, a token ──▶ ModelGateway ──▶ Answerer ── the provider (`pass_on`)
                                                 │                 ├─ another API's model (`translated`)
                                                 │                 ├─ a recording (`recorded`)
                                                 │                 └─ a script (`lab/script_answers`)
                                                 └──▶ the raw record: every call, before its last byte is sent

`listener` and `http_requests` are HTTP, `reply` is one answer on its way, `gateway` decides who may ask what. An
`Answerer` (`call`) answers. `fingerprint`, `bindings`, `bodies` and `tape` are pure: when two requests are the same,
which ids a replay has to replace, and how a body is stored as its difference from an earlier one.
"""

from __future__ import annotations
