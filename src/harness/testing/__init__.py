"""Tools for testing agents and stores, Harness's own and those of plugins.

sessions       applications on the `Harness` class: a scripted or a recorded model, answers in order, a restart
golden         recorded runs as tests: a folder is a case, with its expected events
stores         the contract of a store, as checks that any store must pass
faulty_store   a store that fails at any call you choose
"""

from __future__ import annotations
