"""Import all of Harness as on a system that is not Linux, with no deprecated call. Run by `test_portability`; not a test.

All modules are imported once as they are, so that the libraries they use are there; then Harness alone is
imported again, while the calls that only Linux has are missing.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import pkgutil
import select
import signal
import socket
import sys
import warnings

import harness

LINUX_ONLY = {
    os: (
        *(
            "pidfd_open",
            "memfd_create",
            "eventfd",
            "eventfd_read",
            "eventfd_write",
            "splice",
            "copy_file_range",
        ),
        *("unshare", "setns", "posix_fadvise", "posix_fallocate", "sched_getaffinity", "sched_setaffinity"),
        *("O_PATH", "O_TMPFILE", "getrandom", "pipe2", "getresuid", "setresuid", "fdatasync", "sendfile"),
    ),
    select: ("epoll", "EPOLLIN"),
    fcntl: ("F_SETPIPE_SZ", "F_GETPIPE_SZ", "F_ADD_SEALS", "F_NOTIFY"),
    signal: ("sigtimedwait", "sigwaitinfo", "pidfd_send_signal", "SIGSTKFLT", "SIGPWR"),
    socket: ("SO_PEERCRED", "AF_NETLINK", "AF_VSOCK", "SOCK_CLOEXEC", "SOCK_NONBLOCK", "MSG_NOSIGNAL"),
}


def names() -> list[str]:
    found = pkgutil.walk_packages(harness.__path__, "harness.")
    return sorted(each.name for each in found if not each.name.endswith("__main__"))


def main() -> None:
    wanted = names()
    for name in wanted:
        importlib.import_module(name)
    for name in [name for name in sys.modules if name == "harness" or name.startswith("harness.")]:
        del sys.modules[name]
    for module, attributes in LINUX_ONLY.items():
        for attribute in attributes:
            if hasattr(module, attribute):
                delattr(module, attribute)
    sys.platform = "darwin"
    warnings.simplefilter("error")
    for name in wanted:
        if name != "harness.system.linux":
            importlib.import_module(name)
    contract = importlib.import_module("harness.system.contract")
    print(contract.system.name, len(wanted), "harness.system.linux" in sys.modules)


main()
