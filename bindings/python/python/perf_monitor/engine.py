"""What counts: the native part, or a script in a test."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional, Protocol

from perf_monitor._native import Native

__all__ = ["Engine", "EngineRegion", "MakeEngine", "NativeEngine", "Record", "Row", "Sampled", "Settings", "Step", "Total", "total"]


class Record(NamedTuple):
    """What one event counted, as it comes from the engine."""

    name: str
    event: str
    verdict: str
    number: Optional[float]
    raw: Optional[int]
    half_width: Optional[float]
    unit: str
    provenance: Optional[str]
    source: Optional[str]
    scope: str
    reason: Optional[str]
    notes: list[str]


class Total(NamedTuple):
    """What the regions of a label counted."""

    label: str
    thread: Optional[str]
    calls: int
    values: list[Record]


class Row(NamedTuple):
    """One sample: values since sampling began."""

    number: int
    at_ns: int
    skew_ns: int
    late_ns: int
    counters: list[Optional[list[tuple[float, int, int]]]]
    """For each event what each of its counters has counted, how long it was wanted, and how long it counted, in ns; `None` where
    one could not be read."""


class Sampled(NamedTuple):
    """Samples since they were fetched last."""

    rows: list[Row]
    lost: int
    missed: int
    refused: list[Optional[str]]


class Step(NamedTuple):
    """One step on the way to the counters."""

    event: Optional[str]
    tried: str
    works: bool
    text: str


class Settings(NamedTuple):
    """What an engine is made from."""

    events: list[str]
    scope: str
    sampling_rate: Optional[int]
    buffer_size: Optional[int]
    config: Optional[str]
    environment: bool
    calibrate: bool


class EngineRegion(Protocol):
    """A region that has begun."""

    def stop(self) -> Any:
        """Ends it, in the thread that began it; gives what `total` takes."""


class Engine(Protocol):
    """What a `PerfMonitor` asks of what counts."""

    def begin(self, label: str) -> EngineRegion: ...
    def totals(self) -> list[Total]: ...
    def totals_by_thread(self) -> list[Total]: ...
    def reset(self) -> None: ...
    def open_regions(self) -> int: ...
    def samples(self) -> Sampled: ...
    def ladder(self) -> list[Step]: ...
    def cost(self) -> Optional[tuple[float, float, float, float]]: ...
    def events(self) -> list[str]: ...


MakeEngine = Callable[[Settings], Engine]


class NativeEngine:
    """The engine that counts: the native part, with its dictionaries given their shape."""

    def __init__(self, settings: Settings) -> None:
        self._native = Native(settings._asdict())
        self.begin = self._native.begin

    def totals(self) -> list[Total]:
        return [total(found) for found in self._native.totals()]

    def totals_by_thread(self) -> list[Total]:
        return [total(found) for found in self._native.totals_by_thread()]

    def reset(self) -> None:
        self._native.reset()

    def open_regions(self) -> int:
        return self._native.open_regions()

    def samples(self) -> Sampled:
        found = self._native.samples()
        return Sampled(**{**found, "rows": [Row(**row) for row in found["rows"]]})

    def ladder(self) -> list[Step]:
        return [Step(**step) for step in self._native.ladder()]

    def cost(self) -> Optional[tuple[float, float, float, float]]:
        return self._native.cost()

    def events(self) -> list[str]:
        return self._native.events()


def total(found: Any) -> Total:
    """A total from the native part's dictionary; what has its shape already stays as it is."""
    if isinstance(found, Total):
        return found
    return Total(**{**found, "values": [Record(**value) for value in found["values"]]})
