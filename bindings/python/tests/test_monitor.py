"""Monitors on counts that are known."""

from __future__ import annotations

import json
import threading

import pytest

from perf_monitor import InvalidInput, NotCounted, PerfMonitor, Value
from perf_monitor.engine import Row

from scripted import Engine, counted, not_counted, scripted

FAULTS = counted("page-faults", 12)
CLOCK = counted("task-clock", 3.5, unit="ms")


def monitor(*records: object) -> PerfMonitor:
    made = PerfMonitor(make_engine=scripted(*records))  # type: ignore[arg-type]
    return made.configure([record.event for record in records])  # type: ignore[attr-defined]


def test_events_are_attributes_and_items() -> None:
    counter = monitor(FAULTS, CLOCK)
    with counter.measure("a"):
        pass
    metrics = counter.get_metrics()
    assert metrics.page_faults == metrics["page-faults"] == 12
    assert list(metrics) == ["page-faults", "task-clock"] and len(metrics) == 2
    assert "page_faults" in dir(metrics)


def test_a_name_that_is_no_event_has_near_ones() -> None:
    counter = monitor(FAULTS)
    with counter.measure("a"):
        pass
    with pytest.raises(AttributeError, match="did you mean page_faults"):
        counter.get_metrics().page_fault
    with pytest.raises(KeyError, match="there are page-faults"):
        counter.get_metrics()["cycles"]


def test_an_event_that_was_not_configured_is_not_counted() -> None:
    counter = monitor(FAULTS)
    with counter.measure("a"):
        pass
    misses = counter.get_metrics().l1d_misses
    assert isinstance(misses, NotCounted)
    assert misses.reason == "l1d_cache_misses is not among the events that were configured"


def test_accesses_are_counted_along_with_misses_unless_refused() -> None:
    records = counted("l1d_cache_misses", 5), counted("l1d_cache_miss_base", 100)
    both = PerfMonitor(make_engine=scripted(*records)).configure(["l1d_cache_misses"])
    assert both.events == ["l1d_cache_misses", "l1d_cache_miss_base"]
    with both.measure("a"):
        pass
    assert both.get_metrics().l1d_misses / both.get_metrics().l1d_accesses == 0.05
    alone = PerfMonitor(make_engine=scripted(*records)).configure(["l1d_cache_misses"], companions=False)
    assert alone.events == ["l1d_cache_misses"]


def test_hit_rates_are_what_misses_leave() -> None:
    records = (
        counted("l1d_cache_misses", 5),
        counted("l1d_cache_miss_base", 100, verdict="scaled", reason="observed 50 % of the time"),
        counted("l2_cache_misses", 1),
        counted("l2_cache_miss_base", 4),
    )
    both = PerfMonitor(make_engine=scripted(*records)).configure(["l1d_cache_misses", "l2_cache_misses"])
    with both.measure("a"):
        pass
    metrics = both.get_metrics()
    assert (metrics.l1d_miss_rate, metrics.l1d_hit_rate) == (0.05, 0.95)
    assert (metrics.l2_miss_rate, metrics.l2_hit_rate) == (0.25, 0.75)
    assert isinstance(metrics.l1d_hit_rate, Value) and metrics.l1d_hit_rate.verdict == "scaled"
    assert metrics.l2_hit_rate.is_exact and metrics.l2_hit_rate.provenance == "hardware"
    assert isinstance(metrics.llc_hit_rate, NotCounted)
    assert metrics.llc_hit_rate.reason == "llc_misses is not among the events that were configured"


def test_a_hit_rate_without_accesses_is_not_counted() -> None:
    records = counted("l1d_cache_misses", 0), counted("l1d_cache_miss_base", 0)
    idle = PerfMonitor(make_engine=scripted(*records)).configure(["l1d_cache_misses"])
    with idle.measure("a"):
        pass
    assert isinstance(idle.get_metrics().l1d_hit_rate, NotCounted)
    refused = PerfMonitor(make_engine=scripted(not_counted("l1d_cache_misses", "no PMU"), records[1]))
    with refused.configure(["l1d_cache_misses"]).measure("a"):
        pass
    assert refused.get_metrics().l1d_hit_rate.reason == "no PMU"


def test_a_rate_is_of_accesses_of_the_same_kind_and_between_0_and_1() -> None:
    names = ["l1d_cache_misses", "l1d_cache_loads", "l2_cache_misses", "l2_cache_loads", "llc_misses", "LLC-loads"]
    records = [counted(name, 5) for name in names]
    other = PerfMonitor(make_engine=scripted(*records)).configure(names, companions=False)
    with other.measure("a"):
        pass
    for cache, base in (("l1d", "l1d_cache_miss_base"), ("l2", "l2_cache_miss_base"), ("llc", "llc_miss_base")):
        for kind in ("miss", "hit"):
            rate = getattr(other.get_metrics(), f"{cache}_{kind}_rate")
            assert isinstance(rate, NotCounted)
            assert rate.reason == f"{base} is not among the events that were configured"
    names = ["L1-dcache-load-misses", "L1-dcache-loads", "LLC-load-misses", "LLC-loads"]
    kernel = monitor(*(counted(name, number) for name, number in zip(names, (1, 2, 1, 4))))
    with kernel.measure("a"):
        pass
    assert isinstance(kernel.get_metrics().l1d_hit_rate, NotCounted)
    assert kernel.get_metrics().llc_hit_rate == 0.75
    above = monitor(counted("l1i_cache_misses", 7), counted("l1i_cache_accesses", 5))
    with above.measure("a"):
        pass
    for rate in (above.get_metrics().l1i_miss_rate, above.get_metrics().l1i_hit_rate):
        assert isinstance(rate, NotCounted) and rate.verdict == "not counted"
        assert rate.reason == "the rate 1.400 is outside of 0 to 1: its counts are of different kinds or estimates"


def test_regions_add_up_by_label_and_the_last_label_is_told() -> None:
    counter = monitor(FAULTS)
    for label in ("a", "b", "a"):
        with counter.measure(label) as region:
            pass
        assert region.metrics.page_faults == 12
    assert counter.get_metrics().label == "a" and counter.get_metrics().calls == 2
    assert counter.get_metrics("a").page_faults == 24 and counter.get_metrics("b").page_faults == 12
    assert [metrics.label for metrics in counter.all_metrics()] == ["a", "b"]
    assert counter.all_metrics(by_thread=True)[0].thread == "thread 1"


def test_an_exception_goes_through_and_its_region_counts_as_aborted() -> None:
    counter = monitor(FAULTS)
    with pytest.raises(ZeroDivisionError):
        with counter.measure("a") as region:
            1 / 0
    with counter.measure("a"):
        pass
    metrics = counter.get_metrics("a")
    assert (metrics.calls, metrics.aborted, region.metrics.aborted) == (2, 1, 1)
    assert str(metrics) == "a, 2 regions, 1 of them aborted:\n  page-faults: 24"
    counter.reset()
    assert counter.all_metrics() == []


def test_a_decorated_function_is_a_region_each_time_even_when_it_calls_itself() -> None:
    counter = monitor(FAULTS)

    @counter.measure("factorial")
    def factorial(n: int) -> int:
        """Multiplies."""
        return 1 if n == 0 else n * factorial(n - 1)

    assert factorial(4) == 24 and factorial.__doc__ == "Multiplies."
    assert counter.get_metrics("factorial").calls == 5


def test_a_region_is_started_and_stopped_once() -> None:
    counter = monitor(FAULTS)
    region = counter.measure("a")
    with pytest.raises(InvalidInput, match="has not ended"):
        region.metrics
    region.start()
    with pytest.raises(InvalidInput, match="`a` is open"):
        region.start()
    assert region.stop().page_faults == 12
    with pytest.raises(InvalidInput, match="`a` was stopped before"):
        region.stop()


def test_nothing_is_configured_while_regions_are_open() -> None:
    counter = monitor(FAULTS)
    with counter.measure("a"):
        with pytest.raises(InvalidInput, match="while 1 of its regions"):
            counter.configure(["page-faults"])
    counter.configure(["page-faults"])
    with pytest.raises(InvalidInput, match="nothing was measured yet"):
        counter.get_metrics()
    with pytest.raises(InvalidInput, match="no region `b`"):
        counter.get_metrics("b")


def test_what_was_closed_cannot_be_read() -> None:
    with monitor(FAULTS) as counter:
        with counter.measure("a"):
            pass
    for use in (counter.get_metrics, counter.samples, counter.measure("a").start, counter.reset):
        with pytest.raises(InvalidInput, match="was closed"):
            use()
    counter.close()
    counter.configure(["page-faults"]).measure("a").start()


@pytest.mark.parametrize("rate", [-1, 2**40, 1.5, "100", True])
def test_a_rate_that_is_no_count_is_refused(rate: object) -> None:
    with pytest.raises(InvalidInput, match="sampling_rate is"):
        PerfMonitor(make_engine=scripted(FAULTS)).configure(["page-faults"], sampling_rate=rate)  # type: ignore[arg-type]


def test_samples_are_increments() -> None:
    engines: list[Engine] = []

    def make(settings: object) -> Engine:
        engines.append(scripted(FAULTS)(settings))  # type: ignore[arg-type]
        return engines[-1]

    counter = PerfMonitor(make_engine=make).configure(["page-faults"], sampling_rate=100)
    engines[-1].sampled = [
        Row(0, 10_000_000, 500, 0, [[(5.0, 1, 1)]]),
        Row(1, 20_000_000, 500, 0, [[(12.0, 9, 9)]]),
        Row(3, 40_000_000, 500, 0, [None]),
        Row(4, 50_000_000, 500, 0, [[(20.0, 9, 9)]]),
        Row(5, 60_000_000, 500, 0, [[(21.0, 9, 9)]]),
    ]
    samples = counter.samples()
    values = [sample.values["page-faults"] for sample in samples.rows]
    assert values[:2] == [5.0, 7.0] and values[4] == 1.0
    lost, after = values[2:4]
    assert isinstance(lost, NotCounted) and isinstance(after, NotCounted), "no difference of what was lost"
    assert lost.reason == "it could not be read" and "in the sample before" in after.reason
    assert (samples.rows[1].seconds, samples.lost, samples.missed) == (0.02, 2, 1)
    assert [sample.number for sample in samples] == [0, 1, 3, 4, 5] and len(samples) == 5
    assert samples[1].number == 1 and [sample.number for sample in samples[3:]] == [4, 5]
    assert samples.to_rows()[1:3] == [
        {"number": 1, "seconds": 0.02, "skew_seconds": 5e-07, "page-faults": 7.0},
        {"number": 3, "seconds": 0.04, "skew_seconds": 5e-07, "page-faults": None},
    ]
    engines[-1].sampled = [Row(6, 70_000_000, 500, 0, [[(30.0, 9, 9)]])]
    assert [s.values["page-faults"] for s in counter.follow(0.01)] == [9.0]
    with pytest.raises(InvalidInput, match="configure a sampling_rate"):
        monitor(FAULTS).samples()


def test_samples_of_what_shared_its_counter_are_estimates() -> None:
    engines: list[Engine] = []

    def make(settings: object) -> Engine:
        engines.append(scripted(FAULTS)(settings))  # type: ignore[arg-type]
        return engines[-1]

    counter = PerfMonitor(make_engine=make).configure(["page-faults"], sampling_rate=100)
    engines[-1].sampled = [Row(0, 1, 1, 0, [[(5.0, 10, 10)]]), Row(1, 2, 1, 0, [[(8.0, 20, 14)]])]
    exact, shared = (sample.values["page-faults"] for sample in counter.samples().rows)
    assert isinstance(exact, Value) and isinstance(shared, Value)
    assert (exact.verdict, shared.verdict, shared.half_width) == ("exact", "scaled", None) and shared == 7.5
    assert shared.reason is not None and "a part of the time" in shared.reason


def test_samples_are_never_negative() -> None:
    engines: list[Engine] = []

    def make(settings: object) -> Engine:
        engines.append(scripted(FAULTS)(settings))  # type: ignore[arg-type]
        return engines[-1]

    counter = PerfMonitor(make_engine=make).configure(["page-faults"], sampling_rate=100)
    # Scaled up from the beginning it is 200, then 133; the counter counted 0 in all of the second interval.
    engines[-1].sampled = [
        Row(0, 1, 1, 0, [[(100.0, 10, 5)]]),
        Row(1, 2, 1, 0, [[(100.0, 20, 15)]]),
        Row(2, 3, 1, 0, [[(100.0, 30, 15)]]),
        Row(3, 4, 1, 0, [[(90.0, 40, 25)]]),
    ]
    first, second, third, last = (sample.values["page-faults"] for sample in counter.samples().rows)
    assert (first, second) == (200.0, 0.0) and isinstance(second, Value) and second.verdict == "exact"
    assert isinstance(third, NotCounted) and third.verdict == "not counted" and "no counter" in third.reason
    assert isinstance(last, NotCounted) and last.verdict == "lost" and last.reason == "the value went back"


def test_rows_and_dictionaries_are_plain_values() -> None:
    counter = monitor(CLOCK, not_counted("cycles", "no PMU"))
    with counter.measure("a"):
        pass
    rows = counter.rows()
    assert [row["event"] for row in rows] == ["task-clock", "cycles"]
    assert (rows[0]["value"], rows[0]["unit"], rows[0]["provenance"]) == (3.5, "ms", "hardware")
    assert (rows[1]["value"], rows[1]["reason"]) == (None, "no PMU")
    assert set(rows[0]) == set(rows[1])
    told = json.loads(json.dumps(counter.to_dict()))
    assert told["regions"][0]["events"]["cycles"]["verdict"] == "not supported"
    assert str(counter.get_metrics()) == "a, 1 region:\n  task-clock: 3.5 ms\n  cycles: not counted (no PMU)"


def test_ipc_is_a_quotient() -> None:
    counter = monitor(counted("instructions", 30), counted("cycles", 10))
    with counter.measure("a"):
        pass
    assert isinstance(counter.get_metrics().ipc, Value) and counter.get_metrics().ipc == 3.0


def test_threads_may_share_a_monitor() -> None:
    counter = monitor(FAULTS)

    def work() -> None:
        for _ in range(100):
            with counter.measure("a"):
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.get_metrics("a").calls <= 400 and counter._engine is not None
