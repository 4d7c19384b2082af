"""Every benchmark of this folder, one after the other (`make bench-all`).

usage: python benchmarks/every.py [--install] [NAME...]

What another framework or SDK is needed for is left out where it is not installed; --install fetches them first, each into an
environment of its own. Ends with 1 if one could not be measured for another reason.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parent
MODULES = ("corpus", "every", "measuring", "scripted")
"""What is no benchmark."""
INSTALLED = ("peers", "providers")
"""Those that compare with packages of others, which `--install` fetches."""
SIZES = {
    "counts": (str(FOLDER.parent / "src/harness"),),
    "peers": ("--rounds", "3"),
    "providers": ("--rounds", "4"),
}
"""As `README.md` beside this file has them, where that is not what a program does by itself."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *names()], help="only these")
    parser.add_argument("--install", action="store_true", help="fetch what they are compared with")
    options = parser.parse_args()
    ends: dict[str, str] = {}
    for name in options.names or names():
        print(f"\n== {name}", flush=True)
        if options.install and name in INSTALLED:
            _run(name, "--install")
        ends[name] = _measured(name)
    width = max(map(len, ends))
    print("\n==", *(f"{name:{width}}  {end}" for name, end in ends.items()), sep="\n")
    return int(any(end.startswith("failed") for end in ends.values()))


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in MODULES)


def _measured(name: str) -> str:
    """How it ended, in words."""
    started = time.monotonic()
    code, errors = _run(name, *SIZES.get(name, ()))
    if code and " not installed" in errors:
        return f"left out: {errors.strip().splitlines()[0]}"
    if code:
        return f"failed with {code}: {(errors.strip() or 'no message').splitlines()[-1]}"
    return f"{time.monotonic() - started:.0f} s"


def _run(name: str, *words: str) -> tuple[int, str]:
    command = [sys.executable, str(FOLDER / f"{name}.py"), *words]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    sys.stderr.write(done.stderr)
    return done.returncode, done.stderr


if __name__ == "__main__":
    sys.exit(main())
