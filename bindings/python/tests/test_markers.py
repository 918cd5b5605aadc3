"""Regions that report to the tool that runs the program: here the test plays the tool, by the documented format."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import perf_monitor

#: The format, version 1: crates/marker/src/board.rs.
ROWS_AT, ROW, ROWS, LABELS = 8192, 336 * 8, 65536, 8 << 20
LABELS_AT = ROWS_AT + ROWS * ROW

PROGRAM = """
import threading
import perf_monitor

@perf_monitor.marker("decorated")
def twice(value):
    "Doubles."
    return 2 * value

assert twice(4) == 8 and twice.__name__ == "twice" and twice.__doc__ == "Doubles."
with perf_monitor.marker("äußere"):
    for _ in range(3):
        with perf_monitor.marker("inner"):
            pass
try:
    with perf_monitor.marker("failed"):
        raise KeyError("x")
except KeyError:
    pass
thread = threading.Thread(target=twice, args=(1,))
thread.start()
thread.join()
print(perf_monitor.marker.attached())
"""


def run(board: str) -> str:
    environment = dict(os.environ, CYCLOMETER_MARKERS=board)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, check=True, timeout=120
    )
    return done.stdout.decode().strip()


def test_regions_report_to_the_memory_of_the_tool(tmp_path: Path) -> None:
    board = tmp_path / "board"
    with board.open("wb") as file:
        # Page faults in user mode, by perf.
        file.write(b"CYCLOMRK" + struct.pack("=8Q", 1, 0, 0, 1, 0, 0, 0, 0))
        file.seek(512)
        file.write(struct.pack("=8Q", 1, 1, 2, 0, 0, 1 << 5 | 1 << 6, 0, 0))
        file.truncate(LABELS_AT + LABELS)
    identity = board.stat()
    assert run(str(board)) == "False", "another process's file could be at this path"
    assert run(f"{board}#{identity.st_dev}:{identity.st_ino}") == "True"
    found: dict[str, tuple[int, int, int]] = {}
    with board.open("rb") as file:
        attached, taken = struct.unpack("=3Q", file.read(48)[24:])[::2]
        for row in range(taken):
            file.seek(ROWS_AT + row * ROW)
            words = struct.unpack("=21Q", file.read(21 * 8))
            file.seek(LABELS_AT + words[3])
            label = file.read(words[4]).decode()
            begun, ended, threads = found.get(label, (0, 0, 0))
            found[label] = (begun + words[5], ended + words[6], threads + words[9])
    assert attached == 1
    assert found == {"decorated": (2, 2, 2), "äußere": (1, 1, 1), "inner": (3, 3, 1), "failed": (1, 1, 1)}


def test_without_a_tool_nothing_happens() -> None:
    assert run("/nonexistent") == "False"
    assert run(os.devnull) == "False"
    assert not perf_monitor.marker.attached()


def test_a_name_is_a_text() -> None:
    with pytest.raises(TypeError, match="the name of a region is a str, and not int"):
        perf_monitor.marker(7)  # type: ignore[arg-type]
