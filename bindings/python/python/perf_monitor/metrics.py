"""What a measurement counted, by name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn, Optional

from perf_monitor.engine import Total
from perf_monitor.values import Counted, NotCounted, Value, of_record

__all__ = ["ALIASES", "COMPANIONS", "Metrics"]

#: Short names, each for the events that it stands for; the first one that is counted is taken.
ALIASES: dict[str, tuple[str, ...]] = {
    "l1d_misses": ("l1d_cache_misses", "L1-dcache-load-misses"),
    "l1d_accesses": ("l1d_cache_miss_base", "l1d_cache_loads", "L1-dcache-loads"),
    "l1i_misses": ("l1i_cache_misses",),
    "l2_misses": ("l2_cache_misses",),
    "l1i_accesses": ("l1i_cache_accesses",),
    "l2_accesses": ("l2_cache_miss_base", "l2_cache_accesses"),
    "llc_misses": ("llc_misses", "LLC-load-misses"),
    "llc_accesses": ("llc_miss_base", "llc_loads", "LLC-loads"),
    "cycles": ("cpu_cycles", "cpu-cycles", "cycles"),
    "cpu_cycles": ("cpu_cycles", "cpu-cycles", "cycles"),
    "branches": ("branch_instructions", "branch-instructions", "branches"),
    "branch_instructions": ("branch_instructions", "branch-instructions", "branches"),
    "branch_misses": ("branch_misses", "branch-misses"),
}

#: Events that are counted along with misses: accesses of the same kind, by which a miss rate divides.
COMPANIONS: dict[str, str] = {
    "l1d_cache_misses": "l1d_cache_miss_base",
    "l1i_cache_misses": "l1i_cache_accesses",
    "l2_cache_misses": "l2_cache_miss_base",
    "llc_misses": "llc_miss_base",
}

#: For each event of misses the event of the same kind of accesses. The kernel's `L1-dcache-load-misses` has none: on Intel
#: it counts lines that stores and prefetches brought in as well, of which `L1-dcache-loads` knows nothing.
_BASES = {**COMPANIONS, "LLC-load-misses": "LLC-loads"}


class Metrics(Mapping[str, Counted]):
    """What the regions of a label counted.

    Events are attributes (`metrics.instructions`, `metrics.page_faults`) and items (`metrics["page-faults"]`); the short
    names of `ALIASES` are attributes as well. What was not counted is a `NotCounted`.
    """

    def __init__(self, total: Total, aborted: int = 0) -> None:
        self._values = {record.event: of_record(record) for record in total.values}
        #: The label of the regions.
        self.label = total.label
        #: The thread, where this is of one only.
        self.thread = total.thread
        #: How many regions have ended.
        self.calls = total.calls
        #: How many of them ended by an exception.
        self.aborted = aborted

    def __getitem__(self, event: str) -> Counted:
        found = self._find(event)
        if found is None:
            raise KeyError(f"{event} was not counted; there are {', '.join(self._values)}")
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Counted:
        if name.startswith("_"):
            raise AttributeError(name)
        found = self._find(name)
        if found is not None:
            return found
        events = ALIASES.get(name) or ((name,) if name in _KNOWN else None)
        if events is None:
            self._no_attribute(name)
        return NotCounted(name, f"{events[0]} is not among the events that were configured")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *map(_identifier, self._values), *ALIASES})

    def _find(self, name: str) -> Optional[Counted]:
        for event in (name, *ALIASES.get(name, ())):
            if event in self._values:
                return self._values[event]
        same = (value for event, value in self._values.items() if _identifier(event) == name)
        return next(same, None)

    def _no_attribute(self, name: str) -> NoReturn:
        near = difflib.get_close_matches(name, [*map(_identifier, self._values), *ALIASES])
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise AttributeError(f"no event {name} was counted{hint}")

    @property
    def ipc(self) -> Counted:
        """Instructions per cycle."""
        quotient: Counted = self.instructions / self.cycles
        return quotient

    @property
    def l1d_miss_rate(self) -> Counted:
        """Part of the accesses that missed the level-1 data cache: of loads, or of loads and stores."""
        return self._miss_rate("l1d")

    @property
    def l1d_hit_rate(self) -> Counted:
        """Part of the accesses that found their line in the level-1 data cache."""
        return self._hit_rate("l1d")

    @property
    def l1i_miss_rate(self) -> Counted:
        """Part of the fetches that missed the level-1 instruction cache."""
        return self._miss_rate("l1i")

    @property
    def l1i_hit_rate(self) -> Counted:
        """Part of the fetches that found their line in the level-1 instruction cache."""
        return self._hit_rate("l1i")

    @property
    def l2_miss_rate(self) -> Counted:
        """Part of the accesses of the level-2 cache that missed."""
        return self._miss_rate("l2")

    @property
    def l2_hit_rate(self) -> Counted:
        """Part of the accesses of the level-2 cache that found their line there."""
        return self._hit_rate("l2")

    @property
    def llc_miss_rate(self) -> Counted:
        """Part of the reads of the last-level cache that missed."""
        return self._miss_rate("llc")

    @property
    def llc_hit_rate(self) -> Counted:
        """Part of the reads of the last-level cache that found their line there."""
        return self._hit_rate("llc")

    def _miss_rate(self, cache: str) -> Counted:
        misses = f"{cache}_misses"
        event = next((event for event in ALIASES[misses] if event in self._values), ALIASES[misses][0])
        base = _BASES.get(event)
        if base is None:
            return NotCounted(f"{cache}_miss_rate", f"no event counts the accesses that {event} is of on every CPU")
        quotient: Counted = getattr(self, misses) / self._counted(base)
        return _share(quotient)

    def _hit_rate(self, cache: str) -> Counted:
        rest: Counted = 1 - self._miss_rate(cache)
        return rest

    def _counted(self, event: str) -> Counted:
        """The event itself, not one that its name stands for as well."""
        missing = NotCounted(event, f"{event} is not among the events that were configured")
        return self._values.get(event, missing)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON: `None` where nothing was counted, with the reason beside it."""
        head = {"label": self.label, "thread": self.thread, "calls": self.calls, "aborted": self.aborted}
        return {**head, "events": {event: value.to_dict() for event, value in self._values.items()}}

    def rows(self) -> list[dict[str, Any]]:
        """One flat dictionary for each event, as `pandas.DataFrame` takes them."""
        head = {"label": self.label, "thread": self.thread, "calls": self.calls, "aborted": self.aborted}
        return [{**head, "event": event, **_flat(value)} for event, value in self._values.items()]

    def __str__(self) -> str:
        runs = f"{self.calls} {'region' if self.calls == 1 else 'regions'}"
        aborted = f", {self.aborted} of them aborted" if self.aborted else ""
        lines = (f"  {event}: {_told(value)}" for event, value in self._values.items())
        return "\n".join([f"{self.label}, {runs}{aborted}:", *lines])

    def __repr__(self) -> str:
        return f"<Metrics of {self.label!r}: {', '.join(self._values)}>"


_KNOWN = {event for events in ALIASES.values() for event in events} | {"instructions", *COMPANIONS, *COMPANIONS.values()}


def _share(rate: Counted) -> Counted:
    """A rate, if it is a part of a whole."""
    if isinstance(rate, NotCounted) or 0 <= rate <= 1:
        return rate
    reason = "is outside of 0 to 1: its counts are of different kinds or estimates"
    return NotCounted(rate.name, f"the rate {float(rate):.3f} {reason}")


def _identifier(event: str) -> str:
    """An event's name as an attribute."""
    return re.sub(r"\W+", "_", event).strip("_")


def _told(value: Counted) -> str:
    return str(value) if isinstance(value, Value) else f"{value} ({value.reason})"


def _flat(value: Counted) -> dict[str, Any]:
    known = value.to_dict()
    columns = ("value", "verdict", "half_width", "raw", "unit", "provenance", "source", "scope", "reason")
    return {column: known.get(column) for column in columns}
