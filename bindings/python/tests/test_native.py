"""The engine that counts, on this machine, whatever it has."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import perf_monitor
from perf_monitor import InvalidInput, NotCounted, PerfMonitor, UnknownEvent, Value, errors


#: What was touched, so that none of it is given back and touched again.
KEPT: list[bytearray] = []


def touch(pages: int) -> None:
    """Makes about so many page faults, a few at a time."""
    for _ in range(pages // 100):
        block = bytearray(100 * 4096)
        block[::4096] = b"x" * 100
        KEPT.append(block)


def faults(metrics: perf_monitor.Metrics) -> float:
    return float(metrics.page_faults)


def test_a_region_counts_what_happens_in_it() -> None:
    monitor = PerfMonitor().configure(["page-faults", "task-clock"])
    with monitor.measure("faults") as region:
        touch(1000)
    with monitor.measure("nothing"):
        pass
    assert 800 < faults(region.metrics) < 3000
    assert faults(monitor.get_metrics("nothing")) < 100
    assert region.metrics.task_clock > 0
    value = region.metrics.page_faults
    assert isinstance(value, Value) and value.provenance == "kernel" and value.scope == "thread"


def test_an_event_of_the_cpu_is_a_number_or_says_why_not() -> None:
    monitor = PerfMonitor().configure(["instructions"])
    with monitor.measure("x"):
        sum(range(1000))
    instructions = monitor.get_metrics().instructions
    if isinstance(instructions, NotCounted):
        assert len(instructions.reason) > 10
        assert instructions.verdict in ("not counted", "not supported", "lost")
        assert any(not step.works for step in monitor.ladder)
    else:
        assert instructions > 1000


def test_threads_share_a_monitor_and_other_threads_run_meanwhile() -> None:
    monitor = PerfMonitor().configure(["page-faults"])

    def work() -> None:
        with monitor.measure("work"):
            touch(500)

    threads = [threading.Thread(target=work, name=f"worker {i}") for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    metrics = monitor.get_metrics("work")
    assert metrics.calls == 3 and faults(metrics) > 1350
    assert len(monitor.all_metrics(by_thread=True)) == 3


def test_a_region_belongs_to_the_thread_that_began_it() -> None:
    monitor = PerfMonitor().configure(["task-clock"])
    region = monitor.measure("mine").start()
    caught: list[BaseException] = []

    def stop() -> None:
        try:
            region.stop()
        except InvalidInput as error:
            caught.append(error)

    thread = threading.Thread(target=stop)
    thread.start()
    thread.join()
    assert "`mine` belongs to another thread" in str(caught[0])
    assert region.stop().calls == 1


FORKING = """
import os, sys
from perf_monitor import NotCounted, PerfMonitor

monitor = PerfMonitor().configure(["page-faults", "task-clock"], sampling_rate=1000)
region = monitor.measure("over").start()
child = os.fork()
if child == 0:
    lost = region.stop().page_faults
    with monitor.measure("own") as own:
        pass
    told = isinstance(lost, NotCounted) and lost.verdict == "lost" and "forked" in lost.reason
    # It has no sampling thread.
    os._exit(0 if told and own.metrics.page_faults.is_exact and monitor.samples().rows == [] else 1)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
counted = region.stop()
sys.exit(status or (not counted.page_faults.is_exact) or counted.task_clock <= 0)
"""


def test_a_region_that_is_open_at_a_fork_is_lost_in_the_child_and_counts_on_in_the_parent() -> None:
    run = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_region_ends_though_its_monitor_was_closed() -> None:
    monitor = PerfMonitor().configure(["page-faults"])
    with monitor.measure("outlives") as region:
        touch(300)
        monitor.close()
    assert faults(region.metrics) > 250
    with pytest.raises(InvalidInput, match="was closed"):
        monitor.get_metrics()


def test_a_misspelt_event_is_an_error_with_the_nearest_names() -> None:
    with pytest.raises(UnknownEvent, match="instrucions") as caught:
        PerfMonitor().configure(["instrucions"])
    assert "instructions" in caught.value.remedy and caught.value.number == 8
    assert isinstance(caught.value, LookupError)


@pytest.mark.parametrize("rate", [0, 1_000_000_000])
def test_a_rate_out_of_range_is_an_error_that_says_the_range(rate: int) -> None:
    with pytest.raises(InvalidInput, match="1 to 10000 Hz"):
        PerfMonitor().configure(["task-clock"], sampling_rate=rate)


@pytest.mark.parametrize("scope", ["thred", "pid:x", "cpus:", "pid"])
def test_a_scope_that_is_none_is_an_error(scope: str) -> None:
    with pytest.raises((InvalidInput, errors.NoSuchTarget)):
        PerfMonitor().configure(["task-clock"], scope=scope)
    with pytest.raises(errors.NoSuchTarget):
        PerfMonitor().configure(["task-clock"], scope="pid:1073741823")


def test_a_file_with_a_wrong_type_is_an_error_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("performance_monitoring:\n  buffer_size: many\n")
    with pytest.raises(InvalidInput, match="line 2"):
        PerfMonitor().configure(["task-clock"], config=file)
    with pytest.raises(errors.IoFailed):
        PerfMonitor().configure(["task-clock"], config=tmp_path / "none.yaml")
    file.write_text("performance_monitoring:\n  buffer_size: 16\n  sampling_interval_ms: 10\n")
    PerfMonitor().configure(["task-clock"], config=file)


def test_the_environment_is_read_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CYCLOMETER_BUFFER_SIZE", "none")
    PerfMonitor().configure(["task-clock"])
    if os.geteuid() == 0:
        # For root it counts for nothing, and the ladder says so.
        ladder = PerfMonitor().configure(["task-clock"], config=True).ladder
        assert any("CYCLOMETER_BUFFER_SIZE" in step.text for step in ladder)
    else:
        with pytest.raises(InvalidInput, match="CYCLOMETER_BUFFER_SIZE"):
            PerfMonitor().configure(["task-clock"], config=True)


def test_samples_come_while_other_threads_run() -> None:
    monitor = PerfMonitor().configure(["wall_time", "page-faults"], sampling_rate=200)
    touch(200)
    samples = list(monitor.follow(0.3))
    assert len(samples) > 5
    seconds = [sample.seconds for sample in samples]
    assert seconds == sorted(seconds) and seconds[-1] < 10
    assert all(sample.values["wall_time"] > 0 for sample in samples)


def test_building_a_monitor_does_not_hold_up_other_threads() -> None:
    ticks = []
    ends = threading.Event()

    def tick() -> None:
        while not ends.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    PerfMonitor().configure(["page-faults", "task-clock", "wall_time"])
    ends.set()
    thread.join()
    assert len(ticks) >= 1


def test_the_cost_of_measuring_is_known() -> None:
    monitor = PerfMonitor().configure(["wall_time"])
    cost = monitor.cost
    assert cost is not None and 0 < cost.read_median_ns <= cost.read_p99_ns
    assert PerfMonitor().configure(["wall_time"], calibrate=False).cost is None


def test_without_a_configuration_the_default_events_are_counted() -> None:
    monitor = PerfMonitor()
    with monitor.measure("x"):
        pass
    assert "page-faults" in monitor.get_metrics()


def test_the_machine_is_told() -> None:
    machine = perf_monitor.capabilities()
    assert machine.architecture and machine.counter_count >= 0
    assert perf_monitor.__version__.count(".") == 2


def test_the_fixture_counts_and_tells(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.perf_events('page-faults')\n"
        "def test_it(perf_counters):\n"
        "    with perf_counters.measure('work'):\n"
        "        kept = bytearray(400_000)\n"
        "    assert perf_counters.get_metrics().page_faults >= 0\n"
    )
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"], cwd=tmp_path, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "performance counters" in run.stdout and "work, 1 region:" in run.stdout
