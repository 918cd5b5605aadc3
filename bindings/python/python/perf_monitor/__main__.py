"""Runs a Python program so that its regions are counted without a PMU, too.

    python -m perf_monitor SCRIPT ARGUMENTS
    python -m perf_monitor -m pytest tests

The arguments are the interpreter's. `cyclometer run` starts it: where there is no PMU, the software PMU runs the program.
"""

from __future__ import annotations

import os
import shutil
import sys

USAGE = "usage: python -m perf_monitor SCRIPT [ARGUMENTS]   (or -m MODULE, -c CODE, as for python)"

#: The exit status of a program that does not exist, as of a shell.
NOT_FOUND = 127

#: The exit status of arguments that make no sense, as of `cyclometer`.
FAILURE = 125


def main(arguments: list[str]) -> int:
    """Replaces this process by `cyclometer run`; returns an exit status only where it cannot."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else FAILURE
    command = shutil.which("cyclometer")
    if command is None:
        print(
            "perf_monitor: the command cyclometer is not on the PATH\n"
            "help: install it, or run the program without -m perf_monitor: its regions are then counted by a PMU only",
            file=sys.stderr,
        )
        return NOT_FOUND
    os.execv(command, [command, "run", "--", sys.executable, *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
