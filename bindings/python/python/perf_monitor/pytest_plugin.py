"""A fixture for tests that count: `perf_counters`.

    @pytest.mark.perf_events("instructions", "page-faults")
    def test_work(perf_counters):
        with perf_counters.measure("work"):
            work()
        assert perf_counters.get_metrics().page_faults < 1000

After the tests everything that was counted is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from perf_monitor.metrics import Metrics
from perf_monitor.monitor import PerfMonitor

_COUNTED = pytest.StashKey[list[tuple[str, Metrics]]]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "perf_events(*names): what the fixture perf_counters counts")
    config.stash[_COUNTED] = []


@pytest.fixture
def perf_counters(request: pytest.FixtureRequest) -> Iterator[PerfMonitor]:
    """A monitor of the events of the marker `perf_events`, or of the default ones."""
    marker = request.node.get_closest_marker("perf_events")
    monitor = PerfMonitor().configure(marker.args if marker else ())
    yield monitor
    counted = request.config.stash[_COUNTED]
    counted.extend((request.node.nodeid, metrics) for metrics in monitor.all_metrics())
    monitor.close()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    counted = config.stash.get(_COUNTED, [])
    if not counted:
        return
    terminalreporter.section("performance counters")
    for test, metrics in counted:
        terminalreporter.write_line(f"{test}: {metrics}")
