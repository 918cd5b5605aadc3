"""`python -m perf_monitor`: starts the interpreter by `cyclometer run`."""

import os
import subprocess
import sys
from pathlib import Path

from perf_monitor import __main__ as entry

#: The module by its file: a fake command needs no native library.
FILE = Path(entry.__file__)


def start(arguments: list[str], path: Path) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PATH": f"{path}"}
    return subprocess.run([sys.executable, str(FILE), *arguments], env=environment, capture_output=True, text=True, check=False)


def test_the_interpreter_gets_all_arguments(tmp_path: Path) -> None:
    fake = tmp_path / "cyclometer"
    fake.write_text('#!/bin/sh\nfor word in "$@"; do echo "[$word]"; done\nexit 7\n')
    fake.chmod(0o755)
    done = start(["-m", "pytest", "a b", "--", "-x"], tmp_path)
    words = ["run", "--", sys.executable, "-m", "pytest", "a b", "--", "-x"]
    assert done.stdout.splitlines() == [f"[{word}]" for word in words]
    assert done.returncode == 7


def test_without_the_command_the_remedy_is_told(tmp_path: Path) -> None:
    done = start(["-c", "print(1)"], tmp_path)
    assert done.returncode == 127
    assert "cyclometer is not on the PATH" in done.stderr
    assert "help:" in done.stderr
    assert done.stdout == ""


def test_without_a_program_the_usage_is_told(tmp_path: Path) -> None:
    done = start([], tmp_path)
    assert (done.returncode, done.stdout) == (125, "")
    assert "usage:" in done.stderr
    assert start(["--help"], tmp_path).returncode == 0
