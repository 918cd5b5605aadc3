"""The example of the interface's description, with its imports and data added, on counts that are known."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any
from unittest import mock

import perf_monitor
from perf_monitor.engine import MakeEngine, NativeEngine

from scripted import counted, not_counted, scripted

HERE = Path(__file__).parent
EXAMPLE = (HERE / "matrix_example.py").read_text()


def output(engine: MakeEngine, program: str = EXAMPLE) -> str:
    """What a program prints when this counts."""

    class Monitor(perf_monitor.PerfMonitor):
        def __init__(self) -> None:
            super().__init__(make_engine=engine)

    printed = io.StringIO()
    scope: dict[str, Any] = {"__name__": "__main__"}
    with mock.patch.object(perf_monitor, "PerfMonitor", Monitor), contextlib.redirect_stdout(printed):
        exec(compile(program, "example", "exec"), scope)
    return printed.getvalue()


def test_with_a_pmu_it_prints_numbers() -> None:
    engine = scripted(
        counted("cpu_cycles", 2_000_000),
        counted("instructions", 3_500_000),
        counted("l1d_cache_misses", 12_345),
        counted("l1d_cache_miss_base", 1_000_000),
        counted("branch_misses", 77),
    )
    assert output(engine) == "IPC: 1.75\nL1D Miss Rate: 1.234%\n"


def test_without_a_pmu_it_says_that_nothing_was_counted() -> None:
    names = ("cpu_cycles", "instructions", "l1d_cache_misses", "l1d_cache_miss_base", "branch_misses")
    engine = scripted(*(not_counted(name, "no PMU in this virtual machine") for name in names))
    assert output(engine) == "IPC: not counted\nL1D Miss Rate: not counted\n"


def test_one_event_that_is_missing_does_not_hide_the_others() -> None:
    engine = scripted(
        counted("cpu_cycles", 4_000),
        counted("instructions", 1_000),
        not_counted("l1d_cache_misses", "no such event"),
        counted("l1d_cache_miss_base", 500),
        counted("branch_misses", 7),
    )
    assert output(engine) == "IPC: 0.25\nL1D Miss Rate: not counted\n"


def test_on_this_machine_it_runs() -> None:
    lines = output(NativeEngine).splitlines()
    assert [line.split(": ")[0] for line in lines] == ["IPC", "L1D Miss Rate"]
    for line in lines:
        assert line.endswith("not counted") or float(line.split(": ")[1].rstrip("%")) > 0


def test_the_page_prints_what_it_says() -> None:
    program = (HERE.parent / "README.md").read_text().split("```python\n")[1].split("```")[0]
    names = ("cpu_cycles", "instructions", "l1d_cache_misses", "l1d_cache_miss_base")
    engine = scripted(*(not_counted(name, "no PMU") for name in names), counted("page-faults", 1234))
    assert output(engine, program) == "IPC: not counted\nL1D Miss Rate: not counted\n1234 page faults\n"
    assert output(NativeEngine, program).endswith(" page faults\n")


def test_the_page_compares_what_it_says() -> None:
    program = (HERE.parent / "README.md").read_text().split("## Comparing\n\n```python\n")[1].split("```")[0]
    lines = output(NativeEngine, program).splitlines()
    assert len(lines) == 2 and lines[0].startswith("task-clock: +") and "p = " in lines[0], lines
    if "not compared" in lines[1]:
        assert lines[1].startswith("instructions:u: not compared (A has no value: not "), lines
