"""Counts what a CPU did in a piece of Python, and says how far each number can be trusted.

    import perf_monitor

    monitor = perf_monitor.PerfMonitor()
    monitor.configure(events=["cpu_cycles", "instructions", "l1d_cache_misses"])
    with monitor.measure("work"):
        sum(range(100_000))
    metrics = monitor.get_metrics()
    print(f"IPC: {metrics.instructions / metrics.cpu_cycles:.2f}")

Where an event cannot be counted its value is a `NotCounted`: it prints as "not counted", has a `reason`, and is never zero.
"""

from __future__ import annotations

from typing import NamedTuple

from perf_monitor import errors
from perf_monitor._native import __version__
from perf_monitor._native import capabilities as _capabilities
from perf_monitor.comparison import Compared, Comparison, compare
from perf_monitor.errors import InvalidInput, NotCountedError, PerfMonitorError, UnknownEvent
from perf_monitor.markers import marker
from perf_monitor.metrics import Metrics
from perf_monitor.monitor import Cost, Measurement, PerfMonitor, Sample, Samples
from perf_monitor.values import Counted, NotCounted, Value

__all__ = [
    "Capabilities",
    "Compared",
    "Comparison",
    "Cost",
    "Counted",
    "InvalidInput",
    "Measurement",
    "Metrics",
    "NotCounted",
    "NotCountedError",
    "PerfMonitor",
    "PerfMonitorError",
    "Sample",
    "Samples",
    "UnknownEvent",
    "Value",
    "__version__",
    "capabilities",
    "compare",
    "errors",
    "marker",
]


class Capabilities(NamedTuple):
    """What the CPU has, and what may be used of it."""

    architecture: str
    counter_count: int
    """Counters that count any event; 0 where there are none or nobody tells."""
    fixed_counters: int
    counter_width_bits: int
    user_mode_access: bool
    needs_kernel_patch: bool


def capabilities() -> Capabilities:
    """Looks at the machine."""
    return Capabilities(*_capabilities())
