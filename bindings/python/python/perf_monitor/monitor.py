"""Monitors: what is counted, and regions of a program that are."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Callable, NamedTuple, Optional, TypeVar, Union, overload

from perf_monitor.comparison import PAIRS, THRESHOLD, Comparison, compare_functions
from perf_monitor.engine import Engine, EngineRegion, MakeEngine, NativeEngine, Row, Sampled, Settings, Step, total
from perf_monitor.errors import InvalidInput
from perf_monitor.metrics import COMPANIONS, Metrics
from perf_monitor.values import Counted, NotCounted, Value

__all__ = ["Cost", "Measurement", "PerfMonitor", "Sample", "Samples"]

Function = TypeVar("Function", bound=Callable[..., Any])
#: What each counter of an event has counted since sampling began, and its times, enabled and running; `None`: not read.
Counters = Optional[list[tuple[float, int, int]]]
PathName = Union[str, "os.PathLike[str]"]


class Cost(NamedTuple):
    """What measuring costs here, without Python's own share: medians and what 99 of 100 do not exceed, in ns."""

    read_median_ns: float
    read_p99_ns: float
    region_median_ns: float
    region_p99_ns: float


class Sample(NamedTuple):
    """What was counted between the sample before and this one."""

    number: int
    """Its number, from 0; numbers of samples that were lost are missing."""
    seconds: float
    """When it was taken, in seconds since sampling began."""
    skew_seconds: float
    """How long reading took: so far apart at most are two events."""
    values: dict[str, Counted]
    """The increments, by event."""

    def to_row(self) -> dict[str, Any]:
        """A flat dictionary, with `None` for what was not counted."""
        numbers = {name: float(value) if isinstance(value, Value) else None for name, value in self.values.items()}
        return {"number": self.number, "seconds": self.seconds, "skew_seconds": self.skew_seconds, **numbers}


class Samples(Sequence[Sample]):
    """What was sampled since the last call: a sequence of samples, the oldest first."""

    def __init__(self, rows: list[Sample], lost: int, missed: int) -> None:
        #: The samples.
        self.rows = rows
        #: How many were lost since, as the buffer was full.
        self.lost = lost
        #: How many were never taken since, as the machine was busy.
        self.missed = missed

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sample]: ...
    def __getitem__(self, index: Union[int, slice]) -> Union[Sample, list[Sample]]:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def to_rows(self) -> list[dict[str, Any]]:
        """One flat dictionary for each sample, as `pandas.DataFrame` takes them: `None` for what was not counted."""
        return [sample.to_row() for sample in self.rows]

    def __repr__(self) -> str:
        return f"<{len(self.rows)} samples, {self.lost} lost, {self.missed} missed>"


class Measurement:
    """A region: a context manager, and a decorator of functions.

    Each use as a context manager is one region in the thread that it runs in; the same object can be used again, after the
    region has ended. `metrics` has what the last one counted.
    """

    def __init__(self, monitor: PerfMonitor, label: str) -> None:
        self._monitor, self._label = monitor, label
        self._region: Optional[EngineRegion] = None
        self._metrics: Optional[Metrics] = None

    def __enter__(self) -> Measurement:
        return self.start()

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._stop(aborted=kind is not None)

    def start(self) -> Measurement:
        """Begins a region, as `with` does."""
        if self._region is not None:
            raise InvalidInput(f"the region `{self._label}` is open", "stop it first, or make another one")
        engine = self._monitor._open()
        self._region = engine.begin(self._label)
        return self

    def stop(self) -> Metrics:
        """Ends the region in the thread that began it, and says what it counted."""
        return self._stop(aborted=False)

    def _stop(self, aborted: bool) -> Metrics:
        if self._region is None:
            raise InvalidInput(f"the region `{self._label}` was stopped before", "stop a region once")
        counted = self._region.stop()
        self._region = None
        self._metrics = Metrics(total(counted), int(aborted))
        self._monitor._ended(self._label, aborted)
        return self._metrics

    @property
    def metrics(self) -> Metrics:
        """What the last region of this object counted."""
        if self._metrics is None:
            raise InvalidInput(f"the region `{self._label}` has not ended", "read its metrics after the `with` block")
        return self._metrics

    def __call__(self, function: Function) -> Function:
        """Counts every call of a function as a region of its own."""

        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            with Measurement(self._monitor, self._label):
                return function(*args, **kwargs)

        return counted  # type: ignore[return-value]


class PerfMonitor:
    """Counts events in regions of a program.

    Any number of threads may use one monitor; each counts its own regions. Where an event cannot be counted here, it is a
    `NotCounted` that says why: no function fails for that, none invents a number.

    `make_engine` is for tests: something else than the native part to count with.
    """

    def __init__(self, *, make_engine: MakeEngine = NativeEngine) -> None:
        self._make_engine = make_engine
        self._engine: Optional[Engine] = None
        self._closed = False
        self._lock = threading.Lock()
        self._aborted: Counter[str] = Counter()
        self._last: Optional[str] = None
        self._sampled: dict[str, Counters] = {}
        self._interval: Optional[float] = None
        self._sampled_scope = "process"

    def configure(
        self,
        events: Iterable[str] = (),
        sampling_rate: Optional[int] = None,
        *,
        scope: str = "thread",
        buffer_size: Optional[int] = None,
        config: Union[None, bool, PathName] = None,
        companions: bool = True,
        calibrate: bool = True,
    ) -> PerfMonitor:
        """Says what to count, and forgets what was counted; gives the monitor itself.

        `events`: in every spelling of `cyclometer stat -e`; cycles, instructions, CPU time and page faults if there are none.
        `sampling_rate`: in Hz, 1 to 10000; a thread then reads the counters of the whole process into a buffer of
        `buffer_size` samples, which `samples` fetches. `scope`: `thread`, `process`, `pid:NUMBER` or `cpus:LIST`. `config`:
        a YAML file, and over it the environment; `True` for the environment alone. What is given here counts for more. `companions`: whether the loads that a miss rate needs are
        counted with the misses. `calibrate`: whether what measuring adds is measured, and taken off.

        Raises `InvalidInput` while regions are open and for what makes no sense, `UnknownEvent` with the nearest names.
        """
        names = [events] if isinstance(events, str) else list(events)
        with_pairs = names + [COMPANIONS[name] for name in names if companions and name in COMPANIONS]
        settings = Settings(
            events=list(dict.fromkeys(with_pairs)),
            scope=scope,
            sampling_rate=_positive("sampling_rate", sampling_rate),
            buffer_size=_positive("buffer_size", buffer_size),
            config=None if config is None or isinstance(config, bool) else os.fspath(config),
            environment=config is not None and config is not False,
            calibrate=calibrate,
        )
        with self._lock:
            self._check_idle()
            self._engine = self._make_engine(settings)
            self._aborted.clear()
            self._sampled.clear()
            self._last, self._interval = None, sampling_rate and 1 / sampling_rate
            self._sampled_scope = "cpus" if scope.startswith("cpus") else "process"
        return self

    def measure(self, label: str) -> Measurement:
        """A region, for `with` and as a decorator. Regions nest, and those of one label add up.

        An exception goes through; the region ends, is counted, and is counted as aborted too.
        """
        return Measurement(self, label)

    def compare(
        self,
        a: Callable[[], object],
        b: Callable[[], object],
        *,
        pairs: int = PAIRS,
        warmups: int = 1,
        threshold: float = THRESHOLD,
        seed: Optional[int] = None,
        labels: tuple[str, str] = ("a", "b"),
    ) -> Comparison:
        """Calls two functions in pairs, in random order, and compares what they count: `perf_monitor.compare` with the events of this
        monitor. Each call is a region, of the first or the second of `labels`.
        """
        return compare_functions(
            self, a, b, pairs=pairs, warmups=warmups, threshold=threshold, seed=seed, labels=labels
        )

    def get_metrics(self, label: Optional[str] = None) -> Metrics:
        """What the regions of a label counted, over all threads; of the label whose region ended last if none is given."""
        engine, label = self._open(), self._last if label is None else label
        found = next((found for found in engine.totals() if found.label == label), None)
        if found is None or label is None:
            what = "nothing was measured yet" if label is None else f"no region `{label}` was measured"
            raise InvalidInput(what, "measure something first: `with monitor.measure(\"name\"):`")
        return Metrics(found, self._aborted[label])

    def all_metrics(self, by_thread: bool = False) -> list[Metrics]:
        """Every label, over all threads or in each."""
        engine = self._open()
        totals = engine.totals_by_thread() if by_thread else engine.totals()
        return [Metrics(found, 0 if by_thread else self._aborted[found.label]) for found in totals]

    def samples(self) -> Samples:
        """What was sampled since the last call."""
        engine = self._open()
        if self._interval is None:
            raise InvalidInput("nothing is sampled", "configure a sampling_rate")
        with self._lock:
            sampled = engine.samples()
            names = engine.events()
            rows = [self._sample(row, names, sampled) for row in sampled.rows]
        return Samples(rows, sampled.lost, sampled.missed)

    def follow(self, seconds: float) -> Iterator[Sample]:
        """Samples as they come, for so many seconds; other threads run while it waits."""
        end = time.monotonic() + seconds
        while True:
            left = end - time.monotonic()
            time.sleep(max(0.0, min(left, 0.05)))
            yield from self.samples().rows
            if left <= 0:
                return

    def _sample(self, row: Row, names: list[str], sampled: Sampled) -> Sample:
        values: dict[str, Counted] = {}
        for name, now, refused in zip(names, row.counters, sampled.refused):
            before = self._sampled.get(name, [(0.0, 0, 0)] * len(now or []))
            self._sampled[name] = now
            if refused is not None:
                values[name] = NotCounted(name, refused, "not supported")
            else:
                values[name] = _increment(name, now, before, self._sampled_scope)
        return Sample(row.number, row.at_ns / 1e9, row.skew_ns / 1e9, values)

    def reset(self) -> None:
        """Forgets what was counted; open regions go on."""
        self._open().reset()
        with self._lock:
            self._aborted.clear()

    @property
    def ladder(self) -> list[Step]:
        """What was tried to count each event, whether it works, and what was done where it does not."""
        return self._open().ladder()

    @property
    def cost(self) -> Optional[Cost]:
        """What measuring costs; `None` where that was not to be measured."""
        found = self._open().cost()
        return None if found is None else Cost(*found)

    @property
    def events(self) -> list[str]:
        """What is counted."""
        return self._open().events()

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {"regions": [metrics.to_dict() for metrics in self.all_metrics()]}

    def rows(self, by_thread: bool = False) -> list[dict[str, Any]]:
        """One flat dictionary for each label and event: `pandas.DataFrame(monitor.rows())`."""
        return [row for metrics in self.all_metrics(by_thread) for row in metrics.rows()]

    def close(self) -> None:
        """Closes the counters of this thread; those of others when they end. Closing twice is no error."""
        with self._lock:
            self._engine, self._closed = None, True

    def __enter__(self) -> PerfMonitor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> Engine:
        """What counts; configured with the default events where nothing was configured."""
        engine = self._engine
        if engine is not None:
            return engine
        if self._closed:
            raise InvalidInput("the monitor was closed", "configure it anew, or make another one")
        self.configure()
        return self._open()

    def _check_idle(self) -> None:
        open_regions = self._engine.open_regions() if self._engine else 0
        if open_regions:
            what = f"cannot configure a monitor while {open_regions} of its regions are being counted"
            raise InvalidInput(what, "end the regions first, or make another monitor")
        self._closed = False

    def _ended(self, label: str, aborted: bool) -> None:
        with self._lock:
            self._last = label
            self._aborted[label] += aborted


def _increment(name: str, now: Counters, before: Counters, scope: str) -> Counted:
    """What an event counted between two samples, over all of its counters: each scaled by its times between them."""
    if now is None:
        return NotCounted(name, "it could not be read", "lost")
    if before is None or len(before) != len(now):
        return NotCounted(name, "it could not be read in the sample before, from which it is counted", "lost")
    number, scaled = 0.0, False
    for (value, enabled, running), (value_before, enabled_before, running_before) in zip(now, before):
        value, enabled, running = value - value_before, enabled - enabled_before, running - running_before
        if value < 0 or enabled < 0 or running < 0:
            return NotCounted(name, "the value went back", "lost")
        if running < enabled and running == 0:
            return NotCounted(name, "it was on no counter between the sample before and this one", "not counted")
        scaled = scaled or running < enabled
        number += value * enabled / running if running < enabled else value
    part = "counted for a part of the time, and scaled up to all of it" if scaled else None
    verdict, half_width = ("scaled", None) if scaled else ("exact", 0.0)
    return Value(number, name=name, verdict=verdict, half_width=half_width, scope=scope, reason=part)


def _positive(name: str, value: Optional[int]) -> Optional[int]:
    """A number that the native part can take; its range is for the native part to say."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{name} is {value!r}", "give a whole number")
    if not 0 <= value < 2**32:
        raise InvalidInput(f"{name} is {value}", "give a whole number of a sensible size")
    return value
