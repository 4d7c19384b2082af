"""A whole agent in a package of its own: stream, driver, store, writer and lab fixture, found by Harness once installed.

`program.py` is the agent program itself, which a real package would not have.
"""
