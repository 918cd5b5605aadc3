"""Numbers that say what they are."""

from __future__ import annotations

import copy
import pickle

import pytest

from perf_monitor import NotCounted, NotCountedError, Value
from perf_monitor.values import of_record

from scripted import counted, not_counted

NOTHING = NotCounted("instructions", "no PMU in this virtual machine")


@pytest.mark.parametrize("spec", ["", ".2f", ".3%", ",", "d", ".3e", "g", "+.1f"])
def test_what_was_not_counted_says_so_in_every_format(spec: str) -> None:
    assert format(NOTHING, spec) == "not counted"


def test_widths_are_respected() -> None:
    assert f"{NOTHING:>14.2f}|{NOTHING:<14}|{NOTHING:14,.1f}|{NOTHING:*^15}" == (
        "   not counted|not counted   |   not counted|  not counted  "
    )


def test_what_was_not_counted_goes_through_arithmetic_with_its_reason() -> None:
    value = Value(5, name="x")
    for result in (NOTHING / value, value / NOTHING, 1 / NOTHING, NOTHING * 2 + 1, -NOTHING, round(NOTHING, 2), 2.5 - NOTHING, value * NOTHING):
        assert isinstance(result, NotCounted) and result.reason == NOTHING.reason


@pytest.mark.parametrize("use", [float, int, bool, lambda n: n < 5, lambda n: n >= 0, lambda n: [1][n]])
def test_it_is_no_number(use: object) -> None:
    with pytest.raises(NotCountedError, match="instructions was not counted: no PMU"):
        use(NOTHING)  # type: ignore[operator]


def test_it_is_not_equal_to_zero() -> None:
    assert NOTHING != 0 and NOTHING == NOTHING
    with pytest.raises(TypeError):
        NOTHING / "x"


def test_a_value_is_a_float_that_knows_what_it_is() -> None:
    value = of_record(counted("instructions", 1000, verdict="scaled", half_width=25.0, reason="observed 40 % of the time"))
    assert isinstance(value, float) and value == 1000 and f"{value:,.0f}" == "1,000"
    assert str(value) == "1000 ± 25 (scaled: observed 40 % of the time)"
    assert not value.is_exact


def test_a_quotient_has_the_worst_verdict_and_all_provenances() -> None:
    a = Value(10, name="a", verdict="partial", reason="cpu_core only", provenance="hardware")
    b = Value(4, name="b", verdict="scaled", reason="observed 40 %", provenance="kernel")
    quotient = a / b
    assert quotient == 2.5 and quotient.verdict == "partial"
    assert quotient.reason == "cpu_core only; observed 40 %"
    assert quotient.provenance == "hardware and kernel"
    assert (a / 2).verdict == "partial" and (b + 1) == 5 and (1 + b).verdict == "scaled"


def test_a_division_by_zero_is_not_counted_either() -> None:
    quotient = Value(3, name="misses") / Value(0, name="loads")
    assert isinstance(quotient, NotCounted) and quotient.reason == "loads is 0"


def test_values_survive_copies() -> None:
    value = of_record(counted("x", 7, notes=["a"]))
    for same in (copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert same == 7 and same.to_dict() == value.to_dict()
    lost = pickle.loads(pickle.dumps(NOTHING))
    assert lost.to_dict() == NOTHING.to_dict()


def test_records_without_a_number_have_their_verdict() -> None:
    value = of_record(not_counted("cycles", "why"))
    assert isinstance(value, NotCounted) and (value.verdict, value.reason) == ("not supported", "why")
    assert value.to_dict()["value"] is None


def test_a_plain_number_less_or_by_a_value_keeps_what_the_value_is() -> None:
    misses = of_record(counted("misses", 0.25, verdict="partial", reason="cpu_core only"))
    for found, number, name in ((1 - misses, 0.75, "1 - misses:u"), (1 / misses, 4.0, "1 / misses:u")):
        assert isinstance(found, Value) and found == number and found.name == name
        assert (found.verdict, found.reason, found.provenance) == ("partial", "cpu_core only", "hardware")
    nothing = of_record(counted("misses", 0))
    assert isinstance(1 / nothing, NotCounted) and "is 0" in (1 / nothing).reason
