"""Comparisons of functions and of values."""

from __future__ import annotations

import json
import random

import pytest

import perf_monitor
from perf_monitor import InvalidInput, Metrics, NotCounted, PerfMonitor, Value, compare
from perf_monitor.engine import Record, Total

from scripted import counted, not_counted, scripted

#: Twenty values around 1000 that differ by up to 0.5 %, in no order.
NOISY = [1000 + (i * 7 % 20) / 2 - 5 for i in range(20)]


def metrics(*records: Record) -> Metrics:
    return Metrics(Total("a", None, 1, list(records)))


def test_a_great_change_is_found_with_its_estimate_interval_and_p() -> None:
    found = compare(NOISY, [1.1 * value for value in NOISY], paired=True, name="time")["time"]
    assert found.finding == "changed" and found.is_changed and found.is_relative
    assert found.estimate is not None and abs(found.estimate - 0.1) < 1e-9
    assert found.interval is not None and found.interval[0] <= found.estimate <= found.interval[1]
    assert found.p is not None and found.p < 1e-4 and found.q == found.p
    assert (found.basis, found.n, found.a.n, found.a.mean) == ("pairs", (20,), 20, sum(NOISY) / 20)
    assert str(found).startswith("time: +10.00% [+10.00%, +10.00%], changed, p = 1.9e-06"), str(found)


def test_what_is_the_same_is_called_the_same() -> None:
    found = compare(NOISY, NOISY, paired=True)
    assert found["value"].finding == "same" and found["value"].p == 1.0 and found.changed == []


def test_values_that_are_no_pairs_may_be_of_different_number() -> None:
    found = compare(NOISY, [1.1 * value for value in NOISY[:15]])
    assert (found["value"].basis, found["value"].n, found["value"].finding) == ("apart", (20, 15), "changed")
    assert not found.paired
    with pytest.raises(InvalidInput, match="a has 20 values and b has 15"):
        compare(NOISY, NOISY[:15], paired=True)


def test_below_six_pairs_nothing_is_said_at_95_percent() -> None:
    found = compare(NOISY[:5], [2 * value for value in NOISY[:5]], paired=True)["value"]
    assert (found.finding, found.p, found.interval) == ("inconclusive", None, None)
    assert found.estimate is not None and found.reason is not None and "at least 6" in found.reason


def test_a_change_below_the_threshold_is_none() -> None:
    more = [1.02 * value for value in NOISY]
    assert compare(NOISY, more, paired=True)["value"].finding == "changed"
    assert compare(NOISY, more, paired=True, threshold=0.1)["value"].finding == "same"


def test_events_of_metrics_are_compared_each_and_what_was_not_counted_says_why() -> None:
    def side(factor: float) -> list[Metrics]:
        return [metrics(counted("faults", factor * n), not_counted("cycles", "no PMU")) for n in NOISY]

    found = compare(side(1), side(1.2), paired=True)
    assert list(found) == ["faults", "cycles"] and len(found) == 2
    assert [one.event for one in found.changed] == ["faults"] and found["faults"].name == "faults:u"
    cycles = found["cycles"]
    assert (cycles.finding, cycles.estimate, cycles.p, cycles.a.n) == ("not_compared", None, None, 0)
    assert str(cycles) == "cycles:u: not compared (A has no value: not supported: no PMU)"
    with pytest.raises(KeyError, match="there are faults, cycles"):
        found["instructions"]


def test_estimates_are_left_out_where_others_were_counted_all_the_time() -> None:
    values = [Value(n, name="x") for n in NOISY]
    disturbed = Value(9e9, name="x", verdict="scaled", reason="shared its counter")
    found = compare([*values, disturbed], values)["value"]
    assert found.a.n == 20 and found.a.max is not None and found.a.max < 1100
    assert found.reason is not None and found.reason.endswith("scaled: shared its counter (in 1 of 21 values)")
    lost = NotCounted("x", "the process forked", "lost")
    assert compare([*values, lost], values)["value"].a.n == 20


def test_counts_of_different_sources_are_not_compared() -> None:
    hardware = [metrics(counted("x", n)) for n in NOISY]
    kernel = [metrics(counted("x", n, provenance="kernel")) for n in NOISY]
    assert compare(hardware, kernel)["x"].reason == "A is hardware, B is kernel"


def test_everything_is_told_as_plain_values() -> None:
    with_none = [metrics(counted("faults", n), not_counted("cycles", "no PMU")) for n in NOISY]
    found = compare(with_none, with_none, paired=True)
    told = json.loads(json.dumps(found.to_dict()))
    assert told["design"] == {"kind": "paired", "threshold": 0.005}
    faults, cycles = told["metrics"]
    assert faults["change"] == {"is_relative": True, "estimate": 0.0, "low": 0.0, "high": 0.0}
    assert faults["n"] == [20] and faults["a"]["median"] == faults["b"]["median"]
    assert cycles["change"] is None and cycles["finding"] == "not_compared"
    rows = found.rows()
    assert set(rows[0]) == set(rows[1]) and rows[1]["estimate"] is None and rows[0]["a_n"] == 20


def test_functions_are_called_in_pairs_in_random_order_after_warming_up() -> None:
    calls: list[str] = []
    monitor = PerfMonitor(make_engine=scripted(counted("faults", 12))).configure(["faults"])
    found = monitor.compare(
        lambda: calls.append("a"), lambda: calls.append("b"), pairs=30, warmups=2, seed=1, labels=("old", "new")
    )
    assert calls[:4] == ["a", "b", "a", "b"] and len(calls) == 64
    made = ["".join(calls[i : i + 2]) for i in range(4, 64, 2)]
    assert set(made) == {"ab", "ba"}
    assert (found["faults"].finding, found["faults"].basis) == ("same", "deterministic")
    assert [one.calls for one in monitor.all_metrics()] == [30, 30]
    assert monitor.get_metrics("old").calls == 30


def test_the_order_can_be_repeated() -> None:
    def order(seed: int) -> list[str]:
        calls: list[str] = []
        monitor = PerfMonitor(make_engine=scripted(counted("faults", 12))).configure(["faults"])
        monitor.compare(lambda: calls.append("a"), lambda: calls.append("b"), seed=seed)
        return calls

    assert order(5) == order(5) and any(order(5) != order(seed) for seed in range(6, 12))


def test_what_a_function_raises_goes_through_and_its_region_ends() -> None:
    monitor = PerfMonitor(make_engine=scripted(counted("faults", 12))).configure(["faults"])
    with pytest.raises(ZeroDivisionError):
        monitor.compare(lambda: None, lambda: 1 / 0, warmups=0)
    assert monitor.get_metrics("b").aborted == 1
    monitor.configure(["faults"])


def test_real_functions_are_told_apart_on_this_machine() -> None:
    kept: list[bytearray] = []

    def touch(pages: int) -> None:
        block = bytearray(pages * 4096)
        block[::4096] = b"x" * pages
        kept.append(block)

    found = compare(lambda: touch(50), lambda: touch(100), events=["page-faults"], pairs=12)
    faults = found["page_faults"]
    assert faults.finding == "changed", str(faults)
    assert faults.estimate is not None and 0.5 < faults.estimate < 1.5, str(faults)


def test_two_pieces_of_random_noise_are_rarely_called_different() -> None:
    noise = random.Random(7)

    def draw() -> list[float]:
        return [noise.gauss(1000, 20) for _ in range(20)]

    alarms = sum(bool(compare(draw(), draw()).changed) for _ in range(200))
    assert alarms <= 20, "5 of 100 at most in the long run"


@pytest.mark.parametrize(
    ("a", "b", "more", "says"),
    [
        ([], [1.0], {}, "a has no values"),
        ([1.0], "text", {}, "b is 'text'"),
        ([1.0], 7, {}, "b is 7"),
        ([1.0, float("nan")], [1.0], {}, r"a\[1\] is nan"),
        ([1.0], [1.0, "x"], {}, r"b\[1\] is 'x'"),
        ([1.0], [True], {}, r"b\[0\] is True"),
        ([1.0], [1.0], {"threshold": -1}, "threshold is -1"),
        ([1.0], [1.0], {"threshold": "1 %"}, "threshold is '1 %'"),
        ([1.0], print, {}, "one side is a function"),
        (print, print, {"pairs": 0}, "pairs is 0"),
        (print, print, {"pairs": 2.5}, "pairs is 2.5"),
        (print, print, {"warmups": -1}, "warmups is -1"),
        (print, print, {"paired": False}, "measured in pairs"),
    ],
)
def test_what_makes_no_sense_is_an_error_that_names_it(a: object, b: object, more: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        compare(a, b, **more)  # type: ignore[arg-type]
    assert "compare" in perf_monitor.__all__


def test_a_number_that_no_float_can_hold_is_refused_by_name() -> None:
    for values in ([10**400], [1, -(10**400)], [float("inf")], [float("nan")]):
        with pytest.raises(InvalidInput, match=r"a\[\d\] is"):
            compare(values, [1])


def test_a_bound_at_infinity_is_none_in_json() -> None:
    found = compare(NOISY, NOISY, paired=True)["value"]._replace(estimate=0.5, interval=(0.0, float("inf")))
    change = found.to_dict()["change"]
    assert (change["low"], change["high"]) == (0.0, None)
    json.dumps(found.to_dict(), allow_nan=False)
