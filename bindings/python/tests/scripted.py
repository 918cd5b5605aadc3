"""An engine with known counts, in place of the one that counts."""

from __future__ import annotations

from typing import Any, Optional

from perf_monitor.engine import MakeEngine, Record, Row, Sampled, Settings, Step, Total


def counted(event: str, number: float, **more: Any) -> Record:
    fields: dict[str, Any] = {
        "name": f"{event}:u",
        "event": event,
        "verdict": "exact",
        "number": number,
        "raw": int(number),
        "half_width": 0.0,
        "unit": "",
        "provenance": "hardware",
        "source": "perf",
        "scope": "thread",
        "reason": None,
        "notes": [],
    }
    return Record(**{**fields, **more})


def not_counted(event: str, reason: str) -> Record:
    nothing = counted(event, 0, verdict="not supported", reason=reason, raw=None, half_width=None)
    return nothing._replace(number=None, provenance=None, source=None)


class Region:
    def __init__(self, engine: Engine, label: str) -> None:
        self.engine, self.label = engine, label

    def stop(self) -> Total:
        self.engine.running -= 1
        self.engine.calls[self.label] = self.engine.calls.get(self.label, 0) + 1
        return Total(self.label, None, 1, self.engine.records(1))


class Engine:
    """Each region counts what the script says."""

    def __init__(self, script: dict[str, Record], settings: Settings) -> None:
        self.script, self.settings = script, settings
        self.calls: dict[str, int] = {}
        self.running = 0
        self.sampled: list[Row] = []

    def records(self, calls: int) -> list[Record]:
        found = [self.script[event] for event in self.settings.events]
        return [r if r.number is None else r._replace(number=r.number * calls) for r in found]

    def begin(self, label: str) -> Region:
        self.running += 1
        return Region(self, label)

    def totals(self) -> list[Total]:
        return [Total(label, None, calls, self.records(calls)) for label, calls in self.calls.items()]

    def totals_by_thread(self) -> list[Total]:
        return [total._replace(thread="thread 1") for total in self.totals()]

    def reset(self) -> None:
        self.calls.clear()

    def open_regions(self) -> int:
        return self.running

    def samples(self) -> Sampled:
        rows, self.sampled = self.sampled, []
        return Sampled(rows, 2, 1, [None for _ in self.settings.events])

    def ladder(self) -> list[Step]:
        return [Step(None, "script", True, "script: works")]

    def cost(self) -> Optional[tuple[float, float, float, float]]:
        return None

    def events(self) -> list[str]:
        return self.settings.events


def scripted(*records: Record) -> MakeEngine:
    """Makes engines that count this."""
    script = {record.event: record for record in records}
    return lambda settings: Engine(script, settings)
