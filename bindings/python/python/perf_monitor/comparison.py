"""Is B different from A? The statistics of `cyclometer compare`, for functions, regions and plain numbers."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Union

from perf_monitor._native import compare as _compare
from perf_monitor.errors import InvalidInput
from perf_monitor.metrics import ALIASES, Metrics
from perf_monitor.values import Counted, NotCounted, Value

if TYPE_CHECKING:
    from perf_monitor.monitor import PerfMonitor

__all__ = ["EVENTS", "PAIRS", "THRESHOLD", "Compared", "Comparison", "Summary", "compare", "compare_functions", "compare_values"]

#: How many pairs of calls are made by default.
PAIRS = 20
#: How great a change nobody cares for, as a share.
THRESHOLD = 0.005
#: The default metrics of a comparison of functions.
EVENTS = ("wall_time", "task-clock", "cycles", "instructions", "page-faults")

Work = Callable[[], object]
Measured = Union[Metrics, Counted, float]


class Summary(NamedTuple):
    """The values of one side, those that there are."""

    n: int
    mean: Optional[float]
    stddev: Optional[float]
    median: Optional[float]
    min: Optional[float]
    max: Optional[float]


class Compared(NamedTuple):
    """One event of B against the same of A."""

    name: str
    """The event, with the modes that were counted."""
    event: str
    """The event as it was asked for."""
    unit: str
    finding: str
    """`changed`: by more than the threshold, at a false discovery rate of 5 % over all events. `same`: if it differs, then by
    less. `inconclusive`: the values do not tell. `not_compared`: there is nothing to compare, and `reason` says why."""
    is_relative: Optional[bool]
    """Whether the change is a share of A (0.01 is +1 %); else it is in the unit. `None` where there is none."""
    estimate: Optional[float]
    """The best estimate of the change; `None` where there is none: that is not zero."""
    interval: Optional[tuple[float, float]]
    """What holds the true change in 95 of 100 cases; `None` where nothing can be said."""
    p: Optional[float]
    """How likely a difference as great as this is, if there is none; `None` where nothing was tested."""
    q: Optional[float]
    """The same over all events: the rate of false discoveries."""
    basis: Optional[str]
    """`deterministic` (all values of each side are the same), `pairs` or `apart`; `None` where nothing was compared."""
    n: Optional[tuple[int, ...]]
    """Of how many pairs, or of how many values of each side."""
    drift: Optional[float]
    """How far the values rose or fell with time, -1 to 1; `None` where they are few or not in pairs."""
    reason: Optional[str]
    """Why nothing more can be said, or what lowers trust."""
    a: Summary
    b: Summary

    @property
    def is_changed(self) -> bool:
        """Whether it changed for certain, by more than the threshold."""
        return self.finding == "changed"

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, named as in what `cyclometer compare` exports; a bound at infinity is `None`."""
        low, high = map(_finite, self.interval or (None, None))
        change = {"is_relative": self.is_relative, "estimate": _finite(self.estimate), "low": low, "high": high}
        return {
            **{field: getattr(self, field) for field in ("name", "event", "unit", "finding", "basis")},
            "n": None if self.n is None else list(self.n),
            "change": None if self.estimate is None else change,
            **{field: getattr(self, field) for field in ("p", "q", "drift", "reason")},
            "a": self.a._asdict(),
            "b": self.b._asdict(),
        }

    def __str__(self) -> str:
        finding = self.finding.replace("_", " ")
        if self.estimate is None:
            return f"{self.name}: {finding} ({self.reason})"
        text = f"{self.name}: {self._shown(self.estimate)}"
        if self.interval is not None:
            text += f" [{self._shown(self.interval[0])}, {self._shown(self.interval[1])}]"
        text += f", {finding}"
        if self.p is not None:
            text += f", p = {self.p:.2g}"
        return f"{text} ({self.reason})" if self.reason else text

    def _shown(self, change: float) -> str:
        return f"{change:+.2%}" if self.is_relative else f"{change:+.6g}{self.unit and ' ' + self.unit}"


class Comparison(Mapping[str, Compared]):
    """What was found of every event, by its name as it was asked for."""

    def __init__(self, found: Iterable[Compared], *, paired: bool, threshold: float) -> None:
        self._found = {one.event: one for one in found}
        #: Whether values of one number are pairs.
        self.paired = paired
        #: How great a change nobody cares for, as a share.
        self.threshold = threshold

    def __getitem__(self, event: str) -> Compared:
        for name in (event, *ALIASES.get(event, ())):
            if name in self._found:
                return self._found[name]
        same = (one for one in self._found.values() if event in (one.name, re.sub(r"\W+", "_", one.event)))
        found = next(same, None)
        if found is None:
            raise KeyError(f"{event} was not compared; there are {', '.join(self._found)}")
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    @property
    def changed(self) -> list[Compared]:
        """The events that changed for certain, by more than the threshold."""
        return [one for one in self._found.values() if one.is_changed]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        design = {"kind": "paired" if self.paired else "apart", "threshold": self.threshold}
        return {"design": design, "metrics": [one.to_dict() for one in self._found.values()]}

    def rows(self) -> list[dict[str, Any]]:
        """One flat dictionary for each event, as `pandas.DataFrame` takes them."""
        return [_flat(one) for one in self._found.values()]

    def __str__(self) -> str:
        return "\n".join(map(str, self._found.values()))

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self._found)}>"


def compare(
    a: Union[Work, Iterable[Measured]],
    b: Union[Work, Iterable[Measured]],
    *,
    events: Iterable[str] = EVENTS,
    pairs: int = PAIRS,
    warmups: int = 1,
    threshold: float = THRESHOLD,
    paired: Optional[bool] = None,
    name: str = "value",
    seed: Optional[int] = None,
) -> Comparison:
    """Compares two functions, or what was measured of two things.

    Of functions (without arguments) each is called `warmups` times, and then `pairs` times in pairs, one right after the other in
    random order (`seed` repeats it), and every event of `events` is compared pair by pair. `PerfMonitor.compare` does the same
    with the events of a monitor. What a function raises goes through.

    Of values give two lists: of `Metrics`, whose events are compared, or of numbers, which are called `name`. With `paired=True`
    the first of one belongs to the first of the other, and so on.

    Six pairs, or four values of each side that are no pairs, are the least of which anything can be said at 95 %. A change of less
    than `threshold`, as a share, is none. What was not counted is not compared, and says why.
    """
    if callable(a) and callable(b):
        if paired is False:
            raise InvalidInput("functions are measured in pairs", "leave out paired, or give two lists of values")
        from perf_monitor.monitor import PerfMonitor

        with PerfMonitor().configure(events) as monitor:
            return compare_functions(monitor, a, b, pairs=pairs, warmups=warmups, threshold=threshold, seed=seed)
    if callable(a) or callable(b):
        raise InvalidInput("one side is a function and the other is not", "give two functions, or two lists of values")
    return compare_values(a, b, threshold=threshold, paired=bool(paired), name=name)


def compare_functions(
    monitor: PerfMonitor, a: Work, b: Work, *, pairs: int, warmups: int, threshold: float, seed: Optional[int],
    labels: tuple[str, str] = ("a", "b"),
) -> Comparison:
    """Calls two functions in turn, as regions of a monitor."""
    _whole("pairs", pairs, 1)
    _whole("warmups", warmups, 0)
    _share(threshold)
    order = random.Random(seed)
    for _ in range(warmups):
        a()
        b()
    sides: tuple[list[Measured], list[Measured]] = ([], [])
    for _ in range(pairs):
        for side in order.sample((0, 1), 2):
            with monitor.measure(labels[side]) as region:
                (a, b)[side]()
            sides[side].append(region.metrics)
    return compare_values(*sides, threshold=threshold, paired=True, name="value")


def compare_values(
    a: Iterable[Measured], b: Iterable[Measured], *, threshold: float, paired: bool, name: str
) -> Comparison:
    """Compares two lists of values or `Metrics`."""
    _share(threshold)
    first, second = _listed("a", a), _listed("b", b)
    if paired and len(first) != len(second):
        what = f"a has {len(first)} values and b has {len(second)}, and they are to be pairs"
        raise InvalidInput(what, "give as many of each, or leave out paired")
    found = _compare(_series("a", first, name), _series("b", second, name), paired, threshold)
    return Comparison(map(_compared, found), paired=paired, threshold=threshold)


def _whole(name: str, number: Any, least: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise InvalidInput(f"{name} is {number!r}", f"give a whole number, {least} at least")


def _share(threshold: Any) -> None:
    is_number = isinstance(threshold, (int, float)) and not isinstance(threshold, bool)
    if not is_number or not 0 <= threshold <= 1:
        raise InvalidInput(f"threshold is {threshold!r}", "give a share from 0 to 1, as 0.005 for 0.5 %")


def _listed(side: str, values: Any) -> list[Measured]:
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise InvalidInput(f"{side} is {values!r}", "give a function, or a list of numbers or of Metrics")
    listed = list(values)
    if not listed:
        raise InvalidInput(f"{side} has no values", "give at least one")
    return listed


def _series(side: str, values: Sequence[Measured], name: str) -> list[dict[str, Any]]:
    """What the native part takes: one series for each event."""
    if all(isinstance(value, Metrics) for value in values):
        names = dict.fromkeys(event for metrics in values for event in metrics)  # type: ignore[union-attr]
        missing = "it was not among the events that were configured"
        return [
            _one(event, [metrics[event] if event in metrics else NotCounted(event, missing) for metrics in values])  # type: ignore[index, operator]
            for event in names
        ]
    return [{**_one(name, [_number(f"{side}[{i}]", value) for i, value in enumerate(values)]), "name": name}]


def _number(which: str, value: Any) -> Counted:
    if isinstance(value, (Value, NotCounted)):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"{which} is {value!r}", "give numbers, or Metrics on both sides")
    if not _is_finite(value):
        raise InvalidInput(f"{which} is {_brief(value)}", "leave it out, or give a NotCounted that says why there is no number")
    return Value(float(value), name="", scope="")


def _is_finite(value: Union[int, float]) -> bool:
    """Whether it is a number that a `float` can hold; whole numbers may be greater."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _brief(value: Union[int, float]) -> str:
    return str(value) if isinstance(value, float) else "a whole number that no float can hold"


def _finite(value: Optional[float]) -> Optional[float]:
    """JSON has no infinity: `None` stands for a bound that is none."""
    return value if value is not None and math.isfinite(value) else None


def _one(event: str, values: list[Counted]) -> dict[str, Any]:
    counted = [value for value in values if isinstance(value, Value)]
    known = counted[0] if counted else None
    return {
        "name": (known.name if known else values[0].name) or event,
        "event": event,
        "unit": known.unit if known else "",
        "scope": (known.scope or None) if known else None,
        "provenance": known.provenance if known else None,
        "reason": _reason(values),
        "runs": [(float(value) if isinstance(value, Value) else None, value.is_exact) for value in values],
    }


def _reason(values: list[Counted]) -> Optional[str]:
    """What lowers trust: of how many values, and why the first of them is not exact."""
    doubtful = [value for value in values if not value.is_exact]
    if not doubtful:
        return None
    why = f"{doubtful[0].verdict}: {doubtful[0].reason}"
    return why if len(doubtful) == len(values) else f"{why} (in {len(doubtful)} of {len(values)} values)"


def _compared(found: dict[str, Any]) -> Compared:
    """One event from the native part's dictionary."""
    change = found.pop("change") or dict.fromkeys(("is_relative", "estimate", "interval"))
    n, a, b = (found.pop(field) for field in ("n", "a", "b"))
    return Compared(
        **found,
        **change,
        n=None if n is None else tuple(n),
        a=Summary(**a),
        b=Summary(**b),
    )


def _flat(one: Compared) -> dict[str, Any]:
    known = one.to_dict()
    change = known.pop("change") or dict.fromkeys(("is_relative", "estimate", "low", "high"))
    sides = {f"{side}_{field}": value for side in ("a", "b") for field, value in known.pop(side).items()}
    return {**known, **change, **sides}
