"""What only some systems can do, behind one contract: `contract.System`.

`linux` is used on Linux, `posix` elsewhere, and everywhere when the environment says HARNESS_SYSTEM=posix, which is
how the fallback is tested. Both have the same functions; each function of `posix` says what it does not promise.
`confinement` and `interpreter_confinement` exist on Linux only, and are loaded where `can_confine` is true.

Nothing else in Harness asks which system it runs on. The modules here import nothing of Harness: the watchdog,
a program of its own, loads them by their path.
"""
